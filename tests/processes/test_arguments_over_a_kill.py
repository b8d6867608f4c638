"""Queues keep their arguments' promises when the node that owns them is killed, on three real nodes.

The clients are on the two nodes that do not own the queue on trial. The third, its owner, is killed in
the middle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.values import UInt
from tests.cluster.kept_links import keeping
from tests.processes.amqp10_client import Amqp10Client
from tests.processes.conftest import channels
from tests.processes.nodes import Cluster, Node, until
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, settled
from tests.wire.amqp10.sections import annotated, application, message

Connect = Callable[..., BlockingChannel]
Got = tuple[bytes, pika.BasicProperties]


@pytest.fixture(scope="module")
def killed_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes for this file alone."""
    cluster = Cluster(tmp_path_factory.mktemp("killed"))
    with cluster.running():
        yield cluster


@pytest.fixture
def connect(killed_cluster: Cluster) -> Iterator[Connect]:
    yield from channels(killed_cluster)


class Trial:
    """One queue, from its declaration to what its next owner does. `clients` are on the two nodes that
    do not own the queue at first.
    """

    def __init__(self, cluster: Cluster, connect: Connect, queue: str) -> None:
        self.queue = queue
        self.owner = cluster[0]
        self.clients: list[BlockingChannel] = []
        self._cluster = cluster
        self._connect = connect

    def declare(self, **arguments: Any) -> None:
        """`x_max_length=3` is the argument `x-max-length`."""
        self.declare_other(self.queue, **arguments)
        self.owner = self._cluster.owner(self.queue)
        places = [place for place, node in enumerate(self._cluster.nodes) if node is not self.owner]
        self.clients = [self._connect(place) for place in places]
        self.clients[0].confirm_delivery()

    def declare_other(self, queue: str, **arguments: Any) -> None:
        """A queue beside the one that is on trial."""
        connection = self.owner.connect()
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        connection.channel().queue_declare(queue, durable=True, arguments=table)
        connection.close()

    def publish(self, body: bytes, **properties: Any) -> None:
        """Returns once the message is confirmed. Raises NackError."""
        persistent = pika.BasicProperties(delivery_mode=2, **properties)
        self.clients[0].basic_publish("", self.queue, body, persistent)

    @property
    def other(self) -> Node:
        """A node that does not own the queue at first."""
        return next(node for node in self._cluster.nodes if node is not self.owner)

    @contextmanager
    def owner_killed(self) -> Iterator[None]:
        """Another node owns the queue within; the killed node is there again afterwards."""
        self.owner.kill()
        try:
            until(self._owned_elsewhere, f"{self.queue} has another owner")
            yield
        finally:
            self.owner.start()
            self._cluster.wait_ready()

    def _owned_elsewhere(self) -> bool:
        row = self._cluster.queue(self.queue)
        return row is not None and row["owner"] != self.owner.name

    def take(self, count: int, queue: str = "") -> list[Got]:
        """So many messages in the order in which they are delivered, acknowledged one by one."""
        return [self._one(queue or self.queue) for _ in range(count)]

    def _one(self, queue: str) -> Got:
        def got() -> Got | None:
            method, properties, body = self.clients[1].basic_get(queue)
            if method is None:
                return None
            self.clients[1].basic_ack(method.delivery_tag)
            return body, properties

        return until(got, f"a message in {queue}")

    def is_empty(self, queue: str = "") -> bool:
        return self.clients[1].basic_get(queue or self.queue)[0] is None


@pytest.fixture
def trial(killed_cluster: Cluster, connect: Connect, name: str) -> Trial:
    return Trial(killed_cluster, connect, name)


def bodies(found: list[Got]) -> list[bytes]:
    return [body for body, _ in found]


# -- X1: delays ---------------------------------------------------------------------------------


@pytest.mark.requirement("X1.1", "X1.2", "X1.3")
@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({}, {}),
        ({"x_semantics": "at-most-once", "x_max_priority": 5}, {"priority": 3, "expiration": "60000"}),
        ({"x_queue_type": "quorum", "x_group_by": "customer"}, {"message_id": "1", "reply_to": "q"}),
    ],
    ids=["plain", "priority", "group"],
)
def test_a_delayed_message_is_neither_early_nor_lost(
    trial: Trial, arguments: dict[str, Any], properties: dict[str, Any]
) -> None:
    trial.declare(**arguments)
    published = time.monotonic()
    trial.publish(b"later", headers={"x-delay": 2500, "customer": "a"}, **properties)
    trial.publish(b"now")
    with trial.owner_killed():
        assert bodies(trial.take(1)) == [b"now"]
        ((body, found),) = trial.take(1)
        assert time.monotonic() - published >= 2.5
        assert (body, found.headers["customer"]) == (b"later", "a")
        assert {name: getattr(found, name) for name in properties} == properties


@pytest.mark.requirement("X1.4")
@pytest.mark.parametrize(
    "delaying",
    [annotated(x_opt_delivery_delay=UInt(2500)), application(**{"x-delay": 2500})],
    ids=["annotation", "property"],
)
def test_a_delayed_message_of_amqp_1_0_is_neither_early_nor_lost(
    trial: Trial, killed_cluster: Cluster, delaying: bytes
) -> None:
    """One such message is for a client of AMQP 1.0, and one for a client of 0-9-1."""
    trial.declare()
    address = f"/queues/{quote(trial.queue, safe='')}"
    node, other = killed_cluster.others(trial.owner)
    with closing(Amqp10Client(node)) as sending, closing(Amqp10Client(other)) as taking:
        sending.sends_to(address)
        published = time.monotonic()
        later = [message(delaying, body=b"later %d" % number) for number in range(2)]
        for number, sent in enumerate([*later, message(body=b"now")]):
            sending.send(transfer(number, sent))
            assert isinstance(sending.expect(d.Disposition).state, d.Accepted)
        with trial.owner_killed():
            taking.receives_from(address)
            taking.send(credit(1, handle=1))
            assert taking.payload().endswith(message(body=b"now"))
            taking.send(credit(2, handle=1, next_incoming_id=1))
            assert taking.payload().endswith(later[0])
            assert time.monotonic() - published >= 2.5
            taking.send(settled(0, 1, d.Accepted()), d.Close())
            taking.expect(d.Close)
            assert bodies(trial.take(1)) == [b"later 1"]


@pytest.mark.requirement("X1.5")
def test_a_message_that_was_nacked_rests_with_the_next_owner(trial: Trial) -> None:
    trial.declare(x_redelivery_backoff={"initial": 2500})
    trial.publish(b"hard")
    method, _, _ = trial.clients[1].basic_get(trial.queue)
    assert method is not None
    refused = time.monotonic()
    trial.clients[1].basic_nack(method.delivery_tag, requeue=True)
    # The answer to a later request tells that the owner has the nack.
    trial.clients[1].queue_declare(trial.queue, passive=True)
    with trial.owner_killed():
        ((body, properties),) = trial.take(1)
        assert time.monotonic() - refused >= 2.5
        assert body == b"hard" and properties.headers["x-delivery-count"] == 1


# -- X2: deduplication --------------------------------------------------------------------------


@pytest.mark.requirement("X2.1", "X2.2")
def test_the_next_owner_knows_the_ids_that_the_killed_one_had_seen(trial: Trial) -> None:
    trial.declare(x_deduplication_window=60_000)
    for number in range(20):
        trial.publish(b"%d" % number, message_id=str(number))
    with trial.owner_killed():
        for number in range(40):
            trial.publish(b"%d" % number, message_id=str(number))
        assert bodies(trial.take(40)) == [b"%d" % number for number in range(40)]
        assert trial.is_empty()


# -- X3: order by key ---------------------------------------------------------------------------


@pytest.mark.requirement("X3.1", "X3.2", "X3.3")
def test_each_key_is_consumed_in_order_by_one_consumer_at_a_time(trial: Trial) -> None:
    """Two consumers on two nodes; the owner goes when some messages are leased and some are settled."""
    trial.declare(x_group_by="customer")
    keys, each = [f"c{number}" for number in range(6)], 20
    for number in range(each):
        for key in keys:
            trial.publish(b"%d" % number, headers={"customer": key})
    seen: dict[str, list[tuple[int, int]]] = {key: [] for key in keys}
    unsettled: dict[int, list[tuple[str, int]]] = {0: [], 1: []}
    consumers = dict(enumerate(trial.clients))

    def deliver(place: int) -> Callable[..., None]:
        def delivered(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            key = properties.headers["customer"]
            elsewhere = unsettled[1 - place]
            assert key not in [held for held, _ in elsewhere], "a key is with two consumers at once"
            unsettled[place].append((key, method.delivery_tag))
            seen[key].append((int(body), place))

        return delivered

    def worked() -> bool:
        """Both consumers get what comes, and settle half of what they hold."""
        for place, channel in consumers.items():
            channel.connection.process_data_events(0.01)
            held = unsettled[place]
            for _ in range((len(held) + 1) // 2):
                channel.basic_ack(held.pop(0)[1])
        return True

    for place, channel in consumers.items():
        channel.basic_qos(prefetch_count=4)
        channel.basic_consume(trial.queue, deliver(place))
    while min(map(len, seen.values())) < 3:
        worked()
    with trial.owner_killed():
        until(lambda: worked() and all(len(found) >= each for found in seen.values()), "all messages")
    for found in seen.values():
        assert [number for number, _ in found] == list(range(each)), "in order, and none twice"
    assert {place for found in seen.values() for _, place in found} == {0, 1}


# -- A20: priorities ----------------------------------------------------------------------------


@pytest.mark.requirement("A20.1", "A24.11")
def test_higher_priorities_still_come_first(trial: Trial) -> None:
    trial.declare(x_max_priority=5)
    for number in range(24):
        trial.publish(b"%d" % number, priority=number % 6)
    with trial.owner_killed():
        for number in range(24, 36):
            trial.publish(b"%d" % number, priority=number % 6)
        expected = sorted(range(36), key=lambda number: (-(number % 6), number))
        assert bodies(trial.take(36)) == [b"%d" % number for number in expected]


@pytest.mark.requirement("A20.1", "A20.2", "A24.3", "A24.11")
def test_the_lowest_priority_is_dropped_first(trial: Trial) -> None:
    trial.declare(x_max_priority=5, x_max_length=4)
    for number in range(6):
        trial.publish(b"%d" % number, priority=number)
    with trial.owner_killed():
        trial.publish(b"high", priority=5)
        trial.publish(b"lowest", priority=0)
        assert bodies(trial.take(4)) == [b"5", b"high", b"4", b"3"]
        assert trial.is_empty()


# -- A24: arguments of queues -------------------------------------------------------------------


@pytest.mark.requirement("A24.1", "A24.8", "A24.9", "A24.10")
@pytest.mark.parametrize("of_the_queue", [True, False], ids=["x-message-ttl", "expiration"])
def test_messages_expire_and_are_dead_letters(trial: Trial, of_the_queue: bool) -> None:
    grave = trial.queue + "-grave"
    trial.declare_other(grave)
    ttl = {"x_message_ttl": 2000} if of_the_queue else {}
    trial.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=grave, **ttl)
    published = time.monotonic()
    trial.publish(b"old", expiration=None if of_the_queue else "2000")
    with trial.owner_killed():
        ((body, properties),) = trial.take(1, grave)
        assert time.monotonic() - published >= 2.0
        (death,) = properties.headers["x-death"]
        assert (body, death["reason"], death["queue"], death["count"]) == (b"old", "expired", trial.queue, 1)
        assert trial.is_empty() and trial.is_empty(grave)


@pytest.mark.requirement("A24.2")
def test_an_unused_queue_goes(trial: Trial) -> None:
    trial.declare(x_expires=1500)
    with trial.owner_killed():

        def gone() -> bool:
            """To bind a queue is not to use it, where to declare it is."""
            channel = trial.clients[1].connection.channel()
            try:
                channel.queue_bind(trial.queue, "amq.direct")
            except ChannelClosedByBroker as closed:
                return bool(closed.reply_code == 404)
            channel.close()
            return False

        until(gone, "the queue is gone")


@pytest.mark.requirement("A24.3", "A24.4", "A24.5")
@pytest.mark.parametrize("limit", [{"x_max_length": 3}, {"x_max_length_bytes": 30}], ids=str)
def test_the_oldest_are_dropped(trial: Trial, limit: dict[str, int]) -> None:
    trial.declare(**limit)
    for number in range(5):
        trial.publish(b"%010d" % number)
    with trial.owner_killed():
        trial.publish(b"%010d" % 5)
        assert bodies(trial.take(3)) == [b"%010d" % number for number in (3, 4, 5)]
        assert trial.is_empty()


@pytest.mark.requirement("A24.3", "A24.6", "A24.7")
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses(trial: Trial, overflow: str) -> None:
    grave = trial.queue + "-grave"
    trial.declare_other(grave)
    trial.declare(
        x_max_length=3, x_overflow=overflow, x_dead_letter_exchange="", x_dead_letter_routing_key=grave
    )
    for number in range(3):
        trial.publish(b"%d" % number)
    with trial.owner_killed():
        with pytest.raises(NackError):
            trial.publish(b"too much")
        assert bodies(trial.take(1)) == [b"0"]
        trial.publish(b"fits")
        assert bodies(trial.take(3)) == [b"1", b"2", b"fits"]
        if overflow == "reject-publish-dlx":
            assert bodies(trial.take(1, grave)) == [b"too much"]
        assert trial.is_empty(grave)


@pytest.mark.requirement("A24.8", "A24.9", "A24.13")
def test_failed_deliveries_are_counted_over_owners(trial: Trial) -> None:
    grave = trial.queue + "-grave"
    trial.declare_other(grave)
    trial.declare(x_delivery_limit=2, x_dead_letter_exchange="", x_dead_letter_routing_key=grave)
    trial.publish(b"hard")

    def fail() -> int:
        got = until(lambda: (found := trial.clients[1].basic_get(trial.queue))[0] and found, "the message")
        trial.clients[1].basic_nack(got[0].delivery_tag, requeue=True)
        return int((got[1].headers or {}).get("x-delivery-count", 0))

    assert fail() == 0
    trial.clients[1].queue_declare(trial.queue, passive=True)
    with trial.owner_killed():
        assert [fail(), fail()] == [1, 2]
        ((body, properties),) = trial.take(1, grave)
        assert body == b"hard" and properties.headers["x-death"][0]["reason"] == "delivery_limit"
        assert trial.is_empty()


@pytest.mark.requirement("D4.1", "D4.3")
def test_cancels_and_lost_deliveries_are_counted_apart_over_owners(trial: Trial) -> None:
    grave = trial.queue + "-grave"
    trial.declare_other(grave)
    trial.declare(
        x_max_cancels=2, x_max_deliveries=2, x_dead_letter_exchange="", x_dead_letter_routing_key=grave
    )
    trial.publish(b"hard")

    def got(channel: BlockingChannel) -> int:
        found = until(lambda: (one := channel.basic_get(trial.queue))[0] and one, "the message")
        return int(found[0].delivery_tag)

    trial.clients[1].basic_nack(got(trial.clients[1]), requeue=True)
    losing = trial.other.connect()
    got(losing.channel())
    losing.close()
    trial.clients[1].queue_declare(trial.queue, passive=True)
    with trial.owner_killed():
        trial.clients[1].basic_nack(got(trial.clients[1]), requeue=True)
        ((body, properties),) = trial.take(1, grave)
        assert body == b"hard" and properties.headers["x-death"][0]["reason"] == "expired"
        assert trial.is_empty()


@pytest.mark.requirement("A24.12")
def test_a_living_consumer_stays_the_single_active_one(trial: Trial) -> None:
    trial.declare(x_single_active_consumer=True)
    found: dict[int, list[bytes]] = {0: [], 1: []}
    for place in (1, 0):

        def delivered(channel: Any, method: Any, properties: Any, body: bytes, place: int = place) -> None:
            found[place].append(body)
            channel.basic_ack(method.delivery_tag)

        trial.clients[place].basic_consume(trial.queue, delivered, consumer_tag=str(place))

    def worked() -> bool:
        for channel in trial.clients:
            channel.connection.process_data_events(0.01)
        return True

    trial.publish(b"before")
    until(lambda: worked() and found[1], "the first consumer has a message")
    with trial.owner_killed():
        trial.publish(b"after")
        until(lambda: worked() and len(found[1]) == 2, "the same consumer has the next one")
        trial.clients[1].basic_cancel("1")
        trial.publish(b"next")
        until(lambda: worked() and found[0], "the other consumer takes over")
    assert found == {1: [b"before", b"after"], 0: [b"next"]}


@pytest.mark.requirement("A24.14", "A24.16")
def test_where_a_queue_is_and_on_how_many_nodes(trial: Trial) -> None:
    """A replica is all that a queue of one has: it waits for its node. A queue of three goes on."""
    single, classic = trial.queue + "-single", trial.queue + "-classic"
    trial.declare(x_queue_type="quorum", x_quorum_initial_group_size=3, x_queue_leader_locator="client-local")
    trial.declare_other(single, x_queue_type="quorum", x_quorum_initial_group_size=1)
    trial.declare_other(classic, x_queue_type="classic")
    for queue in (trial.queue, single, classic):
        trial.clients[0].basic_publish("", queue, queue.encode(), pika.BasicProperties(delivery_mode=2))
    with trial.owner_killed():
        assert bodies(trial.take(1)) == [trial.queue.encode()]
        with pytest.raises(ChannelClosedByBroker) as closed:
            trial.clients[1].connection.channel().queue_declare(classic, passive=True)
        assert closed.value.reply_code == 404
    assert bodies(trial.take(1, single)) == [single.encode()]
    assert bodies(trial.take(1, classic)) == [classic.encode()]


# -- B7: deliveries that outlive their link -------------------------------------------------------


@pytest.mark.requirement("B7.7", "B7.9", "X5.1", "X5.2")
def test_a_link_handles_each_message_once_though_its_node_and_the_owner_are_killed(trial: Trial) -> None:
    """The client is at the owner: the log alone has which messages are the link's."""
    trial.declare(x_queue_type="quorum")
    for number in range(4):
        trial.publish(b"%d" % number)
    link = Amqp10Client(trial.owner, container_id="handler")
    link.send(keeping(queue=trial.queue), credit(4))
    tags = [link.expect(d.Transfer).delivery_tag or b"" for _ in range(4)]
    link.send(settled(0, None, d.Accepted(), settled=False))
    assert link.expect(d.Disposition).settled, "the client may forget the first message"
    with trial.owner_killed():
        assert trial.is_empty(), "the messages wait for the link"
        again = Amqp10Client(trial.other, container_id="handler")
        again.send(keeping({tags[1]: d.Accepted(), tags[2]: None}, trial.queue), credit(4))
        answer = again.expect(d.Attach)
        assert set(answer.unsettled or {}) == set(tags[2:])
        came = [again.expect(d.Transfer) for _ in range(2)]
        assert [(one.delivery_tag, one.resume) for one in came] == [(tags[2], True), (tags[3], False)]
        again.send(settled(0, 1, d.Accepted(), settled=False))
        again.expect(d.Disposition)
        again.send(d.Detach(0, True))
        again.expect(d.Detach)
        assert trial.is_empty()
