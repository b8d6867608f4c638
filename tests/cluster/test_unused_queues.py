"""A queue with x-expires is deleted when no client has used it for its time, and not before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.owner.unused_queues import UnusedQueues
from tests.cluster.kinds import KINDS
from tests.site import ChannelClosedError, Site

POLITE_S = 1.0
STEPS = st.lists(
    st.tuples(st.sampled_from(("use", "take", "leave", "look")), st.floats(0.0, 0.6)), max_size=30
)


@given(STEPS)
def test_a_queue_goes_when_it_was_not_used_for_its_time(steps: list[tuple[str, float]]) -> None:
    unused, now, used, taken = UnusedQueues(POLITE_S), 100.0, 100.0, False
    unused.watch(1, 1000, now)
    for step, seconds in steps:
        now += seconds
        if step == "use" or (step == "leave" and taken):
            unused.used(1, now)
            used = now
        taken = step == "take" or (taken and step != "leave")
        if unused.ended(now, {1: taken}.__getitem__):
            assert not taken and now - used >= 1.0 - 1e-9
            return
        if taken:
            used = now
        # The test checks the queue in each step, so that it is deleted at most one step late.
        assert taken or now - used < 1.0 + 1e-9


def test_a_queue_that_is_gone_is_not_told() -> None:
    unused = UnusedQueues(POLITE_S)
    unused.watch(1, 1000, 0.0)
    unused.watch(2, 1000, 0.0)
    unused.forget(1)
    unused.watch(2, None, 0.5)
    assert unused.ended(9.0, lambda _: False) == []


@pytest.mark.requirement("A15.3")
def test_an_auto_delete_queue_goes_also_where_a_policy_changes_meanwhile() -> None:
    unused = UnusedQueues(POLITE_S)
    unused.left(1, 0.0)
    unused.watch(1, None, 0.1)
    assert unused.abandoned(POLITE_S, lambda _: False) == [1]


def test_a_queue_that_is_still_there_is_told_again() -> None:
    unused = UnusedQueues(POLITE_S)
    unused.watch(1, 1000, 0.0)
    assert [unused.ended(now, lambda _: False) for now in (0.9, 1.0, 1.5, 2.0)] == [[], [1], [], [1]]


@pytest.mark.requirement("A15.3")
@pytest.mark.parametrize("consumed", [True, False])
def test_an_auto_delete_queue_goes_when_its_last_consumer_dies_with_its_owner(consumed: bool) -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q", auto_delete=True)
    client.confirms(client.publish("q", b"m"))
    if consumed:
        client.consume("q")
        site.until(lambda: client.deliveries)
    else:
        assert client.get("q", no_ack=False) is not None
    site.nodes["n1"].stop(power=False)
    queues = site.nodes["n2"].broker.catalog.state.queues
    if consumed:
        site.until(lambda: not queues)
    else:
        site.run(10.0)
        assert ("/", "q") in queues


@pytest.mark.requirement("A15.3")
def test_an_exclusive_auto_delete_queue_is_gone_when_its_last_consumer_is_answered() -> None:
    client = Site("n1", "n2").client("n2")
    queue = client.declare("", exclusive=True, auto_delete=True).queue
    client.cancel(client.consume(queue))
    with pytest.raises(ChannelClosedError) as caught:
        client.declare(queue, exclusive=True, passive=True)
    assert caught.value.code == 404


@pytest.mark.requirement("A17.7")
@pytest.mark.parametrize("kind", ["replicated", "classic", "transient"])
def test_what_was_published_before_a_cancel_goes_to_the_consumer(kind: str) -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n2")
    site.client("n1").declare("q", **KINDS[kind])
    tag = client.consume("q", no_ack=True)
    client.publish("q", b"a")
    client.cancel(tag)
    assert [one.body for one in client.deliveries] == [b"a"]


@pytest.mark.requirement("A15.4")
def test_an_auto_delete_queue_waits_politely_where_that_is_set() -> None:
    site = Site("n1", "n2", "n3", auto_delete_after_s=POLITE_S)
    client = site.client("n2")
    client.declare("q", auto_delete=True)
    client.cancel(client.consume("q"))
    site.run(POLITE_S / 2)
    tag = client.consume("q")
    site.run(2 * POLITE_S)
    client.cancel(tag)
    assert client.depth("q") == 0
    queues = site.nodes["n2"].broker.catalog.state.queues
    site.until(lambda: not queues)
