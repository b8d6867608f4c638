"""A queue holds numbered batches of messages for readers: the same number gives the same messages (F8)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.admin.api.errors import ApiError
from cluster.config.formats import ENDS_OF_TAKES
from cluster.owner.takes import NUMBERS_UNDER_WAY
from tests.cluster.taking import Reader
from tests.inside import machine_of
from tests.site import Client, Site

pytestmark = pytest.mark.requirement("F8.3")

QUEUE = "q"
BODIES = [f"{number}".encode() for number in range(10)]


class Takes(Reader):
    """A queue with ten messages, its reader, and a client at n1."""

    def __init__(self, arguments: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(Site("n1", "n2", "n3", **options), QUEUE)
        self.client: Client = self.site.client("n1")
        self.client.declare(QUEUE, **(arguments or {}))
        self.publish(*BODIES)

    def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            assert self.client.confirms(self.client.publish(QUEUE, body)) == [True]

    def left(self) -> list[bytes]:
        """Take what the queue has for its consumers."""
        self.client = self.site.client("n3")
        return self.client.bodies(QUEUE)

    def restart(self, *names: str) -> None:
        for name in names:
            self.site.nodes[name].start()
        self.site.until(lambda: all(self.site.nodes[name].ready for name in names))

    def read(self, number: int, node: str = "n1") -> list[bytes]:
        """Ask for the messages of a take, and read them."""
        ranges = self.taken(self.take(node, number))
        return self.bodies(number, ranges)


@pytest.fixture
def takes() -> Takes:
    return Takes()


def test_a_number_gives_the_same_messages_at_every_node(takes: Takes) -> None:
    first = takes.taken(takes.take("n2", 1, rows=3))
    second = takes.taken(takes.take("n1", 2, rows=4))
    for node in takes.site.nodes:
        asked = takes.take(node, 1, rows=9)
        assert takes.taken(asked) == first
        assert all(isinstance(one, tuple) for one in asked.told[0][2]), "compiled code takes no lists"
        assert takes.bodies(1, first, node) == BODIES[:3]
        assert takes.bodies(2, second, node) == BODIES[3:7]
    assert takes.left() == BODIES[7:]


def test_a_commit_settles_takes_up_to_its_number(takes: Takes) -> None:
    for number in (1, 2, 3):
        takes.taken(takes.take("n1", number, rows=2))
    for node in ("n2", "n3"):
        asked = takes.settle(node, 2)
        assert asked.answer == "settled" and asked.told == [["settled", 2]]
    assert takes.take("n1", 1).answer == "settled"
    assert takes.read(3) == BODIES[4:6]
    assert takes.settle("n1", 3).answer == "settled"
    assert takes.take("n1", 4, rows=1).answer == "held"
    assert takes.release("n1").answer == "released"
    assert takes.left() == BODIES[6:]
    assert takes.client.depth(QUEUE) == 0


def test_released_messages_are_in_their_places_and_marked(takes: Takes) -> None:
    takes.taken(takes.take("n1", 1, rows=2))
    takes.taken(takes.take("n1", 2, rows=2))
    assert takes.release("n2").answer == "released"
    assert takes.release("n2").answer == "released"
    takes.client = takes.site.client("n3")
    found = takes.client.drain(QUEUE)
    assert [one.body for one in found] == BODIES
    assert [one.method.redelivered for one in found] == [True] * 4 + [False] * 6
    assert takes.show("n1") == []


@pytest.mark.parametrize("released", [0, 2])
def test_late_requests_of_a_reader_that_was_released_do_nothing(takes: Takes, released: int) -> None:
    """Whether the release states the last number that the reader has asked for, or not."""
    takes.taken(takes.take("n1", 1, rows=2))
    assert takes.release("n2", released).answer == "released"
    for number in (1, 2):
        assert takes.take("n1", number).answer == takes.settle("n3", number).answer == "released"
    assert takes.show("n1") == []
    first = takes.next("n2")
    assert first == 1 + (released or 1 + NUMBERS_UNDER_WAY)
    takes.taken(takes.take("n2", first, rows=4))
    for number in (1, 2):
        assert takes.take("n1", number).answer == takes.settle("n3", number).answer == "ended"
        assert takes.release("n1", number).answer == "released"
    assert takes.read(first) == BODIES[:4]
    assert takes.settle("n1", first).answer == "settled"
    assert takes.settle("n1", 1).answer == "ended"
    assert takes.take("n1", first).answer == "settled"
    assert takes.left() == BODIES[4:]


def test_a_take_that_comes_behind_the_release_of_its_reader_makes_no_reader(takes: Takes) -> None:
    """The queue has never known the reader: the client has given up before its first take came."""
    assert takes.release("n2", 1).answer == "released"
    assert takes.take("n1", 1).answer == "released" and takes.show("n1") == []
    assert takes.release("n1", 1).answer == "released"
    assert takes.next("n3") == 2
    other = Reader(takes.site, QUEUE, b"other")
    assert other.take("n1", 1).answer == "released" and other.take("n1", 3).answer == "not_next"
    for name in ("n1", "n2", "n3"):
        takes.site.nodes[name].stop(power=True)
    takes.site.run(1.0)
    takes.restart("n1", "n2", "n3")
    assert takes.take("n1", 1).answer == "released"
    assert other.taken(other.take("n2", 2, rows=3)) and takes.next("n1") == 2


def test_a_request_comes_behind_those_that_wait_for_the_entry_that_is_applied(takes: Takes) -> None:
    """The owner tells its front end of the batches of an entry before it goes on with the steps in it."""
    state, order = takes.replica(takes.owner)._state, list[str]()
    state.waiters.append((state.machine.applied_index, lambda: order.append("of the entry")))
    state.after_proposed(lambda: order.append("at once"))
    assert not order
    takes.publish(b"late")
    assert order == ["of the entry", "at once"]
    state.after_proposed(lambda: order.append("later"))
    assert order[-1] == "later"


def test_numbers_ascend_by_one(takes: Takes) -> None:
    asked = takes.take("n1", 2)
    assert asked.answer == "not_next" and asked.told == [["not_next", 0]]
    assert takes.settle("n1", 1).answer == "released"
    assert takes.take("n1", 1, rows=5).answer == "held"
    assert takes.take("n1", 3).answer == "not_next"
    assert takes.settle("n1", 2).answer == "not_next"
    assert takes.settle("n1", 1).answer == "settled"
    assert takes.take("n1", 2, rows=5).answer == "held"
    assert takes.take("n1", 3, rows=5).answer == "empty"
    takes.publish(b"late")
    assert takes.read(3) == [b"late"]


def test_readers_have_messages_and_numbers_of_their_own(takes: Takes) -> None:
    other = Reader(takes.site, QUEUE, b"other")
    mine, theirs = takes.taken(takes.take("n1", 1, rows=5)), other.taken(other.take("n2", 1, rows=5))
    assert takes.bodies(1, mine) + other.bodies(1, theirs) == BODIES
    rows = takes.show("n3")
    assert [(row[0], row[1], row[2], row[3][0][2]) for row in rows] == [(b"other", 0, 0, 5), (b"r", 0, 0, 5)]


def test_a_take_has_octets_of_entries_at_most(takes: Takes) -> None:
    ranges = takes.taken(takes.take("n1", 1))
    assert takes.release("n1", 1).answer == "released"
    (whole,) = takes.plan(2, takes.taken(takes.take("n1", 2)), 1 << 30)
    assert whole[2] == 10 and takes.release("n1", 2).answer == "released"
    few = takes.taken(takes.take("n1", 3, octets=whole[3] // 2))
    assert takes.bodies(3, few) == BODIES[:5]
    assert takes.taken(takes.take("n1", 4, octets=1))[0][1] < ranges[-1][1]
    assert len(takes.plan(3, few, 1)) == 5


def test_a_take_has_no_message_from_its_end_on(takes: Takes) -> None:
    first = takes.taken(takes.take("n1", 1, rows=2))
    end = takes.end("n2")
    takes.publish(b"late")
    assert takes.take("n3", 2, end=first[0][0]).answer == "empty"
    ranges = takes.taken(takes.take("n3", 2, end=end))
    assert takes.bodies(2, ranges) == BODIES[2:]
    assert takes.take("n1", 3, end=end).answer == "empty"
    assert takes.taken(takes.take("n1", 2, end=1)) == ranges
    assert takes.read(3) == [b"late"]


def test_no_take_has_an_end_while_a_member_runs_an_older_release(takes: Takes) -> None:
    broker, port = takes.site.nodes["n2"].broker, takes.site.front_end("n2")
    assert port.takes.end
    broker._peer_formats.own = ENDS_OF_TAKES - 1
    assert port.takes.known and not port.takes.end


@pytest.mark.parametrize("moment", ["before", "logged", "told"])
def test_the_owner_dies_around_a_take(takes: Takes, moment: str) -> None:
    """Before the entry of the take, between the entry and the answer, and when the answer is under way."""
    owner = takes.owner
    other = next(name for name in takes.site.nodes if name != owner)
    asked = takes.take(other, 1, rows=4)
    if moment == "logged":
        takes.site.until(lambda: len(takes.takes(owner)), step_s=0.0001)
        assert not asked.told
    elif moment == "told":
        takes.site.until(lambda: asked.told, step_s=0.0001)
    takes.site.nodes[owner].stop(power=True)
    takes.site.run(2.0)
    ranges = takes.taken(asked)
    takes.restart(owner)
    takes.client = takes.site.client(other)
    takes.publish(b"late")
    for node in takes.site.nodes:
        assert takes.taken(takes.take(node, 1)) == ranges
    assert takes.bodies(1, ranges) == BODIES[:4]
    assert takes.settle(owner, 1).answer == "settled"
    assert takes.left() == [*BODIES[4:], b"late"]


@pytest.mark.parametrize("moment", ["before", "logged", "told"])
def test_the_owner_dies_around_a_commit(takes: Takes, moment: str) -> None:
    owner = takes.owner
    other = next(name for name in takes.site.nodes if name != owner)
    takes.taken(takes.take(other, 1, rows=4))
    asked = takes.settle(other, 1)
    if moment == "logged":
        takes.site.until(lambda: takes.takes(owner).readers[b"r"].committed, step_s=0.0001)
        assert not asked.told
    elif moment == "told":
        takes.site.until(lambda: asked.told, step_s=0.0001)
    takes.site.nodes[owner].stop(power=True)
    takes.site.run(2.0)
    assert asked.answer == "settled"
    takes.restart(owner)
    assert takes.take(owner, 1).answer == "settled"
    assert takes.left() == BODIES[4:]


@pytest.mark.parametrize("moment", ["before", "logged", "told"])
def test_the_owner_dies_around_a_release(takes: Takes, moment: str) -> None:
    owner = takes.owner
    other = next(name for name in takes.site.nodes if name != owner)
    takes.taken(takes.take(other, 1, rows=4))
    asked = takes.release(other)
    if moment == "logged":
        takes.site.until(lambda: not takes.takes(owner).named(), step_s=0.0001)
        assert not asked.told
    elif moment == "told":
        takes.site.until(lambda: asked.told, step_s=0.0001)
    takes.site.nodes[owner].stop(power=True)
    takes.site.run(2.0)
    assert asked.answer == "released"
    takes.restart(owner)
    assert takes.left() == BODIES


@pytest.mark.parametrize("power", [False, True])
def test_takes_survive_the_loss_of_every_node(takes: Takes, power: bool) -> None:
    ranges = takes.taken(takes.take("n1", 1, rows=6))
    for name in ("n1", "n2", "n3"):
        takes.site.nodes[name].stop(power=power)
    takes.site.run(1.0)
    takes.restart("n1", "n2", "n3")
    assert takes.taken(takes.take("n2", 1)) == ranges
    assert takes.left() == BODIES[6:]
    assert takes.bodies(1, ranges) == BODIES[:6]


def test_a_consumer_that_has_lost_a_message_settles_it_for_no_reader(takes: Takes) -> None:
    """The consumer's node is out of reach while a reader takes the message, and settles it later."""
    owner = takes.owner
    other = next(name for name in takes.site.nodes if name != owner)
    consumer = takes.site.client(other)
    consumer.consume(QUEUE, prefetch=2)
    takes.site.until(lambda: len(consumer.deliveries) == 2)
    others = [name for name in takes.site.nodes if name != other]
    pairs = [pair for name in others for pair in ((name, other), (other, name))]
    mend = takes.site.network.cut(pairs)
    takes.site.run(8.0)
    ranges = takes.taken(takes.take(owner, 1))
    assert takes.bodies(1, ranges, owner) == BODIES
    for delivery in consumer.deliveries:
        consumer.ack(delivery)
    mend()
    takes.site.run(5.0)
    assert takes.bodies(1, takes.taken(takes.take(owner, 1)), owner) == BODIES
    assert takes.settle(other, 1).answer == "settled"
    assert takes.left() == []


def test_takes_that_no_reader_asks_about_end() -> None:
    takes = Takes(take_timeout_s=5.0)
    takes.taken(takes.take("n1", 1, rows=2))
    assert takes.settle("n1", 1).answer == "settled"
    takes.taken(takes.take("n1", 2, rows=3))
    takes.site.run(4.0)
    takes.taken(takes.take("n2", 3, rows=1))
    takes.site.run(4.0)
    assert takes.take("n1", 2).answer == "held"
    takes.site.run(8.0)
    told = takes.site.nodes[takes.owner].broker.overdue_takes
    assert told.count == 2
    assert takes.take("n1", 2).answer == takes.take("n1", 3).answer == "ended"
    assert takes.settle("n1", 3).answer == "ended" and takes.settle("n1", 1).answer == "settled"
    assert takes.read(4) == BODIES[2:]


def test_a_purge_and_a_deletion_treat_taken_messages_as_leased(takes: Takes) -> None:
    ranges = takes.taken(takes.take("n1", 1, rows=4))
    assert takes.client.purge(QUEUE) == 6
    assert takes.bodies(1, ranges) == BODIES[:4]
    delivery = takes.replica(takes.owner).queues[takes.definition.id].delivery
    assert (delivery.leased_count, len(delivery.ready)) == (4, 0)
    takes.client.delete(QUEUE)
    takes.client.declare(QUEUE)
    assert takes.take("n1", 2).answer == "not_next" and takes.client.depth(QUEUE) == 0


def test_taken_messages_neither_expire_nor_count_for_a_limit() -> None:
    takes = Takes({"message_ttl": 3000, "max_length": 10})
    ranges = takes.taken(takes.take("n1", 1, rows=4))
    takes.publish(*BODIES)
    takes.site.run(5.0)
    assert takes.client.depth(QUEUE) == 0
    assert takes.bodies(1, ranges) == BODIES[:4]
    assert takes.release("n1").answer == "released"
    takes.site.run(1.0)
    assert takes.left() == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"semantics": "at-most-once"},
        {"queue_type": "stream"},
        {"owners": 2},
        {"group_by": "g"},
        {"single_active_consumer": True},
        {"max_priority": 5},
        {"max_unsettled": 5},
    ],
)
def test_queues_without_takes_say_why(arguments: dict[str, Any]) -> None:
    takes = Takes(arguments)
    asked = takes.take("n2", 1)
    assert asked.answer == "unfit" and asked.told[0][1]


def test_an_exclusive_consumer_leaves_nothing_to_readers(takes: Takes) -> None:
    takes.client.consume(QUEUE, exclusive=True, prefetch=1)
    asked = takes.take("n2", 1)
    assert asked.answer == "unfit" and "exclusive" in asked.told[0][1]


def test_transient_messages_stay_with_the_queue(takes: Takes) -> None:
    takes.client.confirms(takes.client.publish(QUEUE, b"transient", delivery_mode=1))
    assert takes.read(1) == BODIES
    assert takes.take("n1", 2).answer == "empty"
    assert takes.client.bodies(QUEUE) == [b"transient"]


def test_blocks_of_a_take_end_with_the_take(takes: Takes) -> None:
    ranges = takes.taken(takes.take("n1", 1))
    assert takes.settle("n1", 1).answer == "settled"
    takes.site.run(1.0)
    with pytest.raises(ApiError, match="410"):
        takes.bodies(1, ranges)
    with pytest.raises(ApiError, match="409"):
        takes.bodies(2, ranges)
    takes.publish(b"late")
    ranges = takes.taken(takes.take("n1", 2))
    assert takes.release("n1", 2).answer == "released"
    takes.site.run(1.0)
    with pytest.raises(ApiError, match="410"):
        takes.bodies(2, ranges)


def test_snapshots_have_the_takes(takes: Takes) -> None:
    """A node that was away while the log was cut short gets readers and takes so."""
    away = next(name for name in takes.site.nodes if name != takes.owner)
    takes.taken(takes.take("n1", 1, rows=2))
    assert takes.settle("n1", 1).answer == "settled"
    ranges = takes.taken(takes.take("n1", 2, rows=3))
    machine = machine_of(takes.replica(takes.owner))
    again = type(machine)()
    again.restore(machine.snapshot())
    assert again.digest() == machine.digest()
    takes.site.nodes[away].stop(power=True)
    for number in range(200):
        takes.client.publish(QUEUE, b"%4d" % number * 200)
    takes.site.run(2.0)
    takes.restart(away)
    takes.site.until(
        lambda: takes.replica(away).machine.digest() == machine_of(takes.replica(takes.owner)).digest()
    )
    assert takes.takes(away).readers[b"r"].committed == 1
    assert takes.bodies(2, ranges, away) == BODIES[2:5]
