"""queue.delete with if-empty and if-unused: nothing changes the queue between the check and the deletion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.owner.requests import FrontEndRequests
from node.queue.entry_format import encode_seal_queue
from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.cluster.kinds import KINDS
from tests.cluster.test_linearizable_reads import owners_of
from tests.inside import state_of
from tests.site import ChannelClosedError, Client, Site

STEPS = range(-16, 17)
"""The time of the other client's action relative to the deletion, in quarters of a millisecond."""

SHARED = sorted(KINDS.keys() - {"exclusive"})
"""The kinds of queues that several connections can use."""


def at_once(step: int, one: Client, first: Method, second: Callable[[], object]) -> None:
    """Send a deletion, and have another client do something `step` quarters of a millisecond later."""
    if step < 0:
        second()
        one.site.run(-step / 4000)
    one.send(first)
    if step >= 0:
        one.site.run(step / 4000)
        second()


def outcome(client: Client) -> bool:
    """Whether the deletion has happened."""
    try:
        client.answer(m.QueueDeleteOk)
    except ChannelClosedError as error:
        assert error.code == 406
        client.open_channel()
        return False
    return True


def shown(client: Client, queue: str) -> m.QueueDeclareOk | None:
    """The answer to a passive declare of the queue; None where the queue does not exist."""
    try:
        return client.declare(queue, passive=True)
    except ChannelClosedError as error:
        assert error.code == 404
        client.open_channel()
        return None


@pytest.mark.parametrize("kind", SHARED)
def test_a_queue_that_was_seen_with_a_message_is_not_deleted_as_empty(kind: str) -> None:
    site = Site("n1", "n2", "n3")
    deleting, publishing = site.client("n1"), site.client("n3")
    outcomes = set()
    for step in STEPS:
        queue = f"q{step}"
        deleting.declare(queue, **KINDS[kind])
        published: list[int] = []
        delete = m.QueueDelete(queue, if_empty=True)
        at_once(step, deleting, delete, lambda: published.extend(publishing.publish(queue, b"x")))  # noqa: B023
        publishing.confirms(published)
        seen = shown(publishing, queue)
        deleted = outcome(deleting)
        assert deleted is not (seen is not None and seen.message_count == 1), step
        outcomes.add(deleted)
    assert outcomes == {True, False}


@pytest.mark.parametrize("kind", SHARED)
def test_a_queue_whose_consumer_was_welcomed_is_not_deleted_as_unused(kind: str) -> None:
    site = Site("n1", "n2", "n3")
    deleting, consuming = site.client("n1"), site.client("n3")
    outcomes = set()
    for step in STEPS:
        queue = f"q{step}"
        deleting.declare(queue, **KINDS[kind])
        consume = m.BasicConsume(queue, f"tag{step}")
        at_once(step, deleting, m.QueueDelete(queue, if_unused=True), lambda: consuming.send(consume))  # noqa: B023
        try:
            consuming.answer(m.BasicConsumeOk)
            welcomed = True
        except ChannelClosedError as error:
            assert error.code == 404
            consuming.open_channel()
            welcomed = False
        assert outcome(deleting) is not welcomed, step
        outcomes.add(welcomed)
    assert outcomes == {True, False}


def test_a_consumer_that_waits_behind_the_deletion_in_one_entry_keeps_its_queue() -> None:
    """The log has its front end's ATTACH already, so the consumer waits only for earlier proposals."""
    site = Site("n1", "n2", "n3")
    client, deleting = site.client("n1"), site.client("n1")
    client.declare("q")
    client.consume("q", "before")
    client.cancel("before")
    client.publish("q", b"x")
    deleting.send(m.QueueDelete("q", if_unused=True))
    client.send(m.BasicConsume("q", "behind"))
    client.answer(m.BasicConsumeOk)
    assert not outcome(deleting)
    assert [one.body for one in client.deliveries] == [b"x"] or client.site.until(
        lambda: client.deliveries
    ) is None


def test_a_deletion_that_only_the_log_knows_is_finished_by_the_next_owner() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q")
    definition = site.nodes["n1"].broker.catalog.state.queues["/", "q"]
    (name,) = owners_of(site, definition.partition)
    owner = site.nodes[name]
    of_queue = owner.broker.owners[definition.partition]
    owner.input(lambda: state_of(of_queue).operation(encode_seal_queue(definition.id, 0)))
    site.until(lambda: definition.id not in of_queue.queues)
    assert ("/", "q") in owner.broker.catalog.state.queues
    owner.stop(power=True)
    other = next(node for node in site.nodes.values() if node is not owner)
    site.until(lambda: ("/", "q") not in other.broker.catalog.state.queues)


@pytest.mark.interpreted
def test_no_queue_is_sealed_while_a_member_does_not_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q")
    monkeypatch.setattr(FrontEndRequests, "_close", None)
    for node in site.nodes.values():
        node.broker._peer_formats.own = 0
    client.confirms(client.publish("q", b"x"))
    with pytest.raises(ChannelClosedError, match="not empty"):
        client.delete("q", if_empty=True)
    client.open_channel()
    client.purge("q")
    client.delete("q", if_empty=True)


@pytest.mark.parametrize("kind", SHARED)
def test_a_message_may_be_given_back_while_its_queue_is_deleted(kind: str) -> None:
    """Behind the seal there is no queue any more that could have the message again."""
    site = Site("n1", "n2", "n3")
    deleting, consuming = site.client("n1"), site.client("n3")
    outcomes = set()
    for step in STEPS:
        queue = f"q{step}"
        deleting.declare(queue, **KINDS[kind])
        consuming.confirms(consuming.publish(queue, b"x"))
        before = len(consuming.deliveries)
        consuming.consume(queue)
        site.until(lambda: len(consuming.deliveries) > before)  # noqa: B023
        delivery = consuming.deliveries[-1]
        delete = m.QueueDelete(queue, if_empty=True)
        at_once(step, deleting, delete, lambda: consuming.nack(delivery, requeue=True))  # noqa: B023
        outcomes.add(outcome(deleting))
    assert True in outcomes
