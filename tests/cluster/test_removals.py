"""A message of a get without acknowledgement comes to the client, also when the queue's owner is lost.

No other client gets the message (A17, D2).
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.requests import FrontEndRequests
from tests.cluster.kinds import KINDS
from tests.cluster.test_empty_answers import cut_off
from tests.cluster.test_leases import isolate
from tests.site import ChannelClosedError, Client, Site

STEPS = range(0, 120, 4)
"""The time after the get at which the queue's owner is lost, in tenths of a millisecond."""


def prepared(**arguments: Any) -> tuple[Site, str, Client, Client]:
    """A site, the node that owns the queue `q`, and clients on the two other nodes. The queue has a
    message.
    """
    site = Site("n1", "n2", "n3")
    first = site.client("n1")
    first.declare("q", **arguments)
    owner, (getter, publisher) = cut_off(site, first)
    getting, publishing = site.client(getter), site.client(publisher)
    assert getting.get("q") is None
    assert publishing.confirms(publishing.publish("q", b"a")) == [True]
    return site, owner, getting, publishing


@pytest.mark.requirement("A17.5")
@pytest.mark.parametrize("step", STEPS)
def test_a_message_that_is_got_outlives_the_owner(step: int) -> None:
    site, owner, getting, publishing = prepared()
    getting.ask("q")
    site.run(step / 10_000)
    site.nodes[owner].stop(power=True)
    got = getting.got()
    assert got is not None
    assert got.body == b"a"
    assert publishing.get("q") is None


@pytest.mark.requirement("A17.5")
@pytest.mark.parametrize("cut", ["owner", "getter"])
@pytest.mark.parametrize("lasting_s", [0.05, 1.5, 4.0])
def test_a_message_that_is_got_comes_to_one_client_across_cuts(lasting_s: float, cut: str) -> None:
    """Another client sends a get meanwhile: one of the two gets the message."""
    for step in STEPS[::2]:
        site, owner, getting, publishing = prepared()
        lonely = owner if cut == "owner" else getting.node.name
        getting.ask("q")
        site.run(step / 10_000)
        mend = isolate(site, lonely)
        site.run(lasting_s / 2)
        publishing.ask("q")
        site.run(lasting_s / 2)
        mend()
        answers = [getting.got(), publishing.got()]
        assert [one.body for one in answers if one is not None] == [b"a"], step
        site.run(1.0)
        assert publishing.get("q") is None, step


@pytest.mark.requirement("A17.5")
@pytest.mark.parametrize("step", STEPS)
def test_a_message_of_a_node_that_went_down_is_with_the_client_or_in_the_queue(step: int) -> None:
    """The client gets the message, or the answer that the queue's only node is down."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q", **KINDS["classic"])
    getting, other = site.client("n2"), site.client("n3")
    broker = other.node.broker
    link = broker.links.to(broker.catalog.state.queues["/", "q"].partition)
    assert getting.get("q") is None
    assert other.confirms(other.publish("q", b"a")) == [True]
    getting.ask("q")
    site.run(step / 10_000)
    site.nodes["n1"].stop(power=True)
    found: list[bytes] = []
    try:
        got = getting.got()
        assert got is not None
        found.append(got.body)
    except ChannelClosedError as error:
        assert error.code == 404
    site.until(lambda: link.unreachable)
    site.nodes["n1"].start()
    site.until(lambda: link.owner is not None)
    assert found + other.bodies("q") == [b"a"]


@pytest.mark.requirement("A17.5")
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"exclusive"}))
@pytest.mark.parametrize("mode", [1, 2])
def test_what_was_got_is_in_no_queue(kind: str, mode: int) -> None:
    site = Site("n1", "n2", "n3")
    client, other = site.client("n3"), site.client("n2")
    client.declare("q", **KINDS[kind])
    for body in (b"a", b"b"):
        assert client.confirms(client.publish("q", body, delivery_mode=mode)) == [True]
    assert client.bodies("q") == [b"a", b"b"]
    client.close()
    assert other.declare("q", passive=True, **KINDS[kind]).message_count == 0
    assert other.get("q") is None


def test_what_was_got_without_acknowledgement_is_counted_so() -> None:
    site, owner, getting, _ = prepared()
    queue = site.nodes["n1"].broker.catalog.state.queues["/", "q"]
    assert getting.get("q") is not None
    tally = site.nodes[owner].broker.owners[queue.partition].queues[queue.id].delivery.tally
    assert (tally.got, tally.got_no_ack, tally.acknowledged) == (0, 1, 0)


@pytest.mark.requirement("D2.4")
@pytest.mark.parametrize("step", STEPS)
def test_an_at_most_once_queue_gives_a_message_out_once(step: int) -> None:
    """The owner removes the message before it sends it, so the message may be lost with the owner."""
    site, owner, getting, publishing = prepared(semantics="at-most-once")
    getting.ask("q")
    site.run(step / 10_000)
    site.nodes[owner].stop(power=True)
    answers = [getting.got(), publishing.get("q")]
    assert [one.body for one in answers if one is not None] in ([], [b"a"])


@pytest.mark.interpreted
def test_an_owner_of_the_last_release_answers_a_get(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an owner reads the first two arguments, and removes the message before it sends it."""
    take = FrontEndRequests.take

    def of_last_release(
        self: FrontEndRequests, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]
    ) -> None:
        take(self, front_end, epoch, request, name, arguments[:2] if name == "get" else arguments)

    monkeypatch.setattr(FrontEndRequests, "take", of_last_release)
    _, _, getting, publishing = prepared()
    got = getting.get("q")
    assert got is not None
    assert got.body == b"a"
    assert publishing.get("q") is None
