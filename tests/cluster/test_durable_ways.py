"""Owners put into the log what makes the ways of messages durable, as the table of a message's life says."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from node.queue.life import LIFE, Place, Transition
from tests.cluster.taking import Reader
from tests.simulation.lives import Lives, Move, Step, Table, steps_of
from tests.simulation.world import Violation
from tests.site import ChannelClosedError, Client, Delivery, Site

pytestmark = pytest.mark.interpreted

NEW, WITHHELD, SCHEDULED, READY, HELD, LEASED, REMOVING, DEAD, GONE = Place

WAYS = {
    Step(NEW, WITHHELD, ("PUBLISH", "PREPARED")),
    Step(NEW, WITHHELD, ("PUBLISH", "PREPARED", "ANNOTATE")),
    Step(NEW, SCHEDULED, ("PUBLISH", "ANNOTATE")),
    Step(NEW, READY, ("PUBLISH",)),
    Step(NEW, DEAD, ("PUBLISH", "ANNOTATE")),
    Step(WITHHELD, SCHEDULED, ("CONCLUDE",)),
    Step(WITHHELD, READY, ("CONCLUDE",)),
    Step(WITHHELD, GONE, ("CONCLUDE",)),
    Step(WITHHELD, GONE, ("SETTLE", "CONCLUDE")),
    Step(SCHEDULED, READY, ()),
    Step(SCHEDULED, GONE, ("PURGE",)),
    Step(READY, HELD, ()),
    Step(READY, LEASED, ()),
    Step(READY, LEASED, ("TAKE",)),
    Step(READY, REMOVING, ()),
    Step(READY, DEAD, ("ANNOTATE",)),
    Step(READY, GONE, ("PURGE",)),
    Step(READY, GONE, ("REMOVE",)),
    Step(READY, GONE, ("SETTLE",)),
    Step(HELD, READY, ()),
    Step(HELD, READY, ("RETURN",)),
    Step(HELD, LEASED, ()),
    Step(HELD, GONE, ("SETTLE",)),
    Step(LEASED, SCHEDULED, ("RETURN_FAILED", "ANNOTATE")),
    Step(LEASED, READY, ("RETURN_FAILED",)),
    Step(LEASED, READY, ("RETURN",)),
    Step(LEASED, HELD, ()),
    Step(LEASED, DEAD, ("ANNOTATE",)),
    Step(LEASED, GONE, ("DISCARD",)),
    Step(LEASED, GONE, ("REMOVE",)),
    Step(LEASED, GONE, ("SETTLE",)),
    Step(REMOVING, GONE, ("SETTLE",)),
    Step(DEAD, GONE, ("REMOVE",)),
    Step(DEAD, GONE, ("TRANSFERRED",)),
}
"""The steps of messages in the scenes."""

TAKEN = Step(READY, LEASED, ("TAKE",))
"""Consumers get a message by a step without an operation, so that a row without this one is no gap."""

QUEUE, GRAVE = "q", "grave"
DEAD_LETTERS = {"dead_letter_exchange": "", "dead_letter_routing_key": GRAVE}


def held(client: Client, queue: str) -> Delivery:
    """Take a message that the client has to settle."""
    client.site.run(0.05)
    found = client.get(queue, no_ack=False)
    assert found is not None
    return found


def messages_are_settled(lives: Lives) -> None:
    """Settled, given back, rejected with and without dead letters, got, removed, purged."""
    client = Site("n1", lives=lives).client("n1")
    client.declare(GRAVE, queue_type="classic")
    client.declare("local grave")
    client.declare(QUEUE, **DEAD_LETTERS)
    client.declare("local", dead_letter_exchange="", dead_letter_routing_key="local grave")
    client.declare("plain")
    for queue in (QUEUE, "local", "plain"):
        client.confirms(client.publish(queue, *[b"x"] * 8))
        client.ack(held(client, queue))
        client.nack(held(client, queue), requeue=True)
        client.reject(held(client, queue), requeue=False)
        client.site.run(0.05)
        assert client.get(queue) is not None
        client.consume(queue, queue, no_ack=True)
        client.cancel(queue)
        client.confirms(client.publish(queue, b"y"))
        assert client.purge(queue) == 1
    client.site.until(lambda: client.depth(GRAVE) == client.depth("local grave") == 1)


def limits_discard(lives: Lives) -> None:
    """Expired, over a length and failed too often, with and without dead letters; delayed and resting."""
    client = Site("n1", lives=lives).client("n1")
    client.declare(GRAVE)
    for queue, dying in (("dying", DEAD_LETTERS), ("gone", {})):
        client.declare(queue, max_length=2, delivery_limit=0, **dying)
        client.confirms(client.publish(queue, b"a", b"b", b"c"))
        client.nack(held(client, queue), requeue=True)
        client.confirms(client.publish(queue, b"d", expiration="10"))
        client.site.run(0.1)
    client.declare("refusing", max_length=1, overflow="reject-publish-dlx", **DEAD_LETTERS)
    assert client.confirms(client.publish("refusing", b"a", b"b")) == [True, False]
    client.declare("resting", redelivery_backoff={"initial": 100})
    client.confirms(client.publish("resting", b"a"))
    client.confirms(client.publish("resting", b"b", headers={"x-delay": 50}))
    client.nack(held(client, "resting"), requeue=True)
    client.site.run(0.5)
    assert client.bodies("resting") == [b"a", b"b"]
    client.confirms(client.publish("resting", b"c", headers={"x-delay": 5000}))
    assert client.purge("resting") == 1


def transactions_are_concluded(lives: Lives) -> None:
    """Of several partitions, so that one of them withholds messages; some are duplicates or delayed."""
    site = Site("n1", lives=lives)
    client = site.client("n1", transactional=True)
    kinds: dict[str, dict[str, Any]] = {"one": {}, "other": {"queue_type": "classic"}}
    for queue, kind in kinds.items():
        client.declare(queue, deduplication_window=10_000, **kind)
        client.declare(f"full {queue}", max_length=0, overflow="reject-publish", **kind)
    for headers in ({}, {"x-delay": 50}):
        for queue in kinds:
            client.publish(queue, b"a", headers=headers)
            client.publish(queue, b"b", message_id="again")
        client.commit()
    for full in kinds:
        for queue in (*kinds, f"full {full}"):
            client.publish(queue, b"c")
        with pytest.raises(ChannelClosedError, match="partial tx completion"):
            client.commit()
        client.open_channel()
    site.run(0.2)
    assert [len(client.drain(queue)) for queue in kinds] == [3, 3]


def owners_change(lives: Lives) -> None:
    """The owner dies while two consumers have messages, later the node of one of them, then both nodes."""
    site = Site("n1", "n2", "n3", lives=lives)
    first, second, third = (site.client(name) for name in site.nodes)
    first.declare(QUEUE)
    for client in (second, third):
        client.consume(QUEUE, prefetch=2)
    second.confirms(second.publish(QUEUE, *map(b"%d".__mod__, range(8))))
    site.run(0.1)
    second.ack(second.deliveries[0])
    for dying in (("n1",), ("n3",), ("n1", "n3")):
        for name in dying:
            site.nodes[name].stop(power=True)
        site.run(0.1 if len(dying) == 2 else 5.0)
        for name in dying:
            site.nodes[name].start()
        site.run(5.0)


def readers_take(lives: Lives) -> None:
    """Taken by a reader, and committed or given back."""
    site = Site("n1", lives=lives)
    client = site.client("n1")
    client.declare(QUEUE)
    client.confirms(client.publish(QUEUE, b"a", b"b", b"c"))
    reader = Reader(site, QUEUE)
    assert reader.take("n1", 1, rows=1).answer == reader.take("n1", 2, rows=1).answer == "held"
    assert reader.settle("n1", 1).answer == "settled" and reader.release("n1").answer == "released"
    assert client.bodies(QUEUE) == [b"b", b"c"]


SCENES = (messages_are_settled, limits_discard, transactions_are_concluded, owners_change, readers_take)


@cache
def watched() -> frozenset[Move]:
    """The moves of messages in all scenes."""
    moves = set[Move]()
    for scene in SCENES:
        lives = Lives()
        scene(lives)
        moves |= lives.moves
    return frozenset(moves)


def walked(rows: Iterable[Transition]) -> set[Step]:
    """The steps of the moves, which all must have a way in the table."""
    table, found = Table(rows), set[Step]()
    for move in watched():
        way = table.way(move)
        assert way is not None, f"the table has no way of {move}"
        found.update(way)
    return found


def altered(step: Step, operation: str | None) -> list[Transition]:
    """The table with another operation, or none, in the place of those of a step."""
    rows = []
    for row in LIFE:
        kept = [" + ".join(one.taken) for one in steps_of(row) if one != step]
        if len(kept) < len(steps_of(row)):
            row = row._replace(durable=(*kept, operation) if operation else ())
        rows.append(row)
    return rows


def test_every_way_of_a_message_has_the_operations_of_the_table() -> None:
    assert walked(LIFE) == WAYS


@pytest.mark.parametrize(
    "step", sorted(WAYS - {TAKEN}), ids=lambda step: "-".join((step.place, step.to, *step.taken))
)
def test_a_row_with_another_operation_or_none_is_reported(step: Step) -> None:
    for operation in ("MARK", None) if step.taken else ("MARK",):
        with pytest.raises(AssertionError, match=f"{step.place!r}.*{step.to!r}"):
            walked(altered(step, operation))


def test_a_wrong_row_ends_the_run() -> None:
    rows = altered(Step(Place.LEASED, Place.GONE, ("SETTLE",)), None)
    with pytest.raises(Violation, match=r"no way of message .*'SETTLE'"):
        messages_are_settled(Lives(rows))
