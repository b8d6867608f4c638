"""An auto-delete queue or exchange is gone for every client when the answer to the end of its last use
arrives (A15, A14).

The client may be on the node that owns the queue, on the node that leads the catalog, or on the third.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.cluster.kinds import KINDS
from tests.cluster.test_linearizable_reads import owners_of
from tests.site import ChannelClosedError, Client, Site

STEPS = range(-12, 36)
"""The time of another consumer's start, relative to the end of the last one, in quarters of a millisecond."""

PLACES = ("owner", "leader", "third")
"""The nodes of clients, by the part of the node."""


class Cluster:
    """Three nodes: the owner, the catalog's leader, and the third."""

    def __init__(self) -> None:
        self.site = Site("n1", "n2", "n3")
        leader = self.site.nodes["n1"].broker.catalog.leader
        assert leader is not None
        owner, third = (name for name in self.site.nodes if name != leader)
        self.nodes = {"owner": owner, "leader": leader, "third": third}

    def client(self, place: str) -> Client:
        return self.site.client(self.nodes[place])

    def declare(self, queue: str, kind: str) -> None:
        """Declare an auto-delete queue on the owner's node."""
        self.client("owner").declare(queue, auto_delete=True, **KINDS[kind])
        broker = self.site.nodes[self.nodes["owner"]].broker
        assert owners_of(self.site, broker.catalog.state.queues["/", queue].partition) == [
            self.nodes["owner"]
        ]

    def knowing(self, queue: str) -> list[str]:
        """The nodes whose clients find the queue."""
        nodes = self.site.nodes.values()
        return [node.name for node in nodes if ("/", queue) in node.broker.catalog.state.queues]

    def showing(self, *exchanges: str) -> list[str]:
        """The nodes whose clients find one of the exchanges."""
        catalogs = {node.name: node.broker.catalog.state for node in self.site.nodes.values()}
        names = {name: {one.name for one in state.vhost("/").exchanges} for name, state in catalogs.items()}
        return [name for name, known in names.items() if known.intersection(exchanges)]


def declare_exchange(client: Client, name: str) -> None:
    client.call(m.ExchangeDeclare(name, "topic", auto_delete=True), m.ExchangeDeclareOk)


def close_channel(client: Client) -> None:
    client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)


def fail_channel(client: Client) -> None:
    """Have the server close the channel (406), by an acknowledgement of an unknown tag."""
    client.send(m.BasicAck(77))
    with pytest.raises(ChannelClosedError, match="unknown delivery tag 77"):
        client.answer()


def publish_nowhere(client: Client) -> None:
    """Have the server close the channel (404) because of a publish, with a request behind the publish."""
    client.publish("", b"", exchange="nowhere")
    client.send(m.BasicQos(0, 1))
    with pytest.raises(ChannelClosedError, match="no exchange 'nowhere'"):
        client.answer()


LEAVING: dict[str, Callable[[Client, str], object]] = {
    "cancel": lambda client, tag: client.cancel(tag),
    "channel.close": lambda client, tag: close_channel(client),
    "connection.close": lambda client, tag: client.disconnect(),
    "an exception": lambda client, tag: fail_channel(client),
    "a refused publish": lambda client, tag: publish_nowhere(client),
}


@pytest.mark.requirement("A15.3")
@pytest.mark.parametrize("kind", ["replicated", "classic", "transient"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", LEAVING)
def test_an_auto_delete_queue_is_gone_when_its_last_consumer_is_answered(
    how: str, place: str, kind: str
) -> None:
    cluster = Cluster()
    cluster.declare("q", kind)
    client = cluster.client(place)
    first = client.consume("q")
    client.consume("q", "second")
    client.cancel(first)
    assert len(cluster.knowing("q")) == 3
    LEAVING[how](client, "second")
    assert cluster.knowing("q") == []


@pytest.mark.requirement("A15.3")
@pytest.mark.parametrize("kind", ["replicated", "classic"])
@pytest.mark.parametrize("place", PLACES)
def test_auto_delete_queues_are_gone_where_one_channel_had_all_their_consumers(place: str, kind: str) -> None:
    cluster = Cluster()
    client = cluster.client(place)
    for queue in ("a", "b"):
        cluster.declare(queue, kind)
        client.consume(queue)
        client.consume(queue)
    close_channel(client)
    assert cluster.knowing("a") == cluster.knowing("b") == []


def test_a_connection_waits_for_no_queue_of_another() -> None:
    """The owner of the other connection's queue is lost, and has no successor yet."""
    cluster = Cluster()
    cluster.declare("q", "replicated")
    client, other = cluster.client("third"), cluster.client("third")
    client.declare("own", **KINDS["classic"])
    client.consume("own")
    other.consume("q")
    cluster.site.nodes[cluster.nodes["owner"]].stop(power=True)
    other.send(m.ChannelClose(200, "", 0, 0))
    client.disconnect()
    assert len(cluster.knowing("q")) == 3
    other.answer(m.ChannelCloseOk)
    assert cluster.knowing("q") == [cluster.nodes["owner"]]


def at_once(step: int, site: Site, leave: Callable[[], object], other: Client, queue: str) -> None:
    """End the last consumer, and start another one `step` quarters of a millisecond later."""
    first, second = leave, partial(other.send, m.BasicConsume(queue, queue))
    if step < 0:
        first, second = second, leave
    first()
    site.run(abs(step) / 4000)
    second()


@pytest.mark.requirement("A15.3")
@pytest.mark.parametrize("kind", ["replicated", "classic", "transient"])
@pytest.mark.parametrize("how", ["basic.cancel", "the client is gone"])
def test_an_auto_delete_queue_stays_where_another_consumer_was_welcomed_first(how: str, kind: str) -> None:
    cluster = Cluster()
    other = cluster.client("leader")
    outcomes = set()
    for step in STEPS:
        queue = f"q{step}"
        cluster.declare(queue, kind)
        client = cluster.client("third")
        client.consume(queue, "last")
        leave = partial(client.send, m.BasicCancel("last"))
        at_once(
            step, cluster.site, client.connection.drop if how == "the client is gone" else leave, other, queue
        )
        try:
            other.answer(m.BasicConsumeOk)
            welcomed = True
        except ChannelClosedError as error:
            assert error.code == 404
            other.open_channel()
            welcomed = False
        cluster.site.run(0.5)
        assert bool(cluster.knowing(queue)) is welcomed, step
        assert queue not in other.cancelled, step
        outcomes.add(welcomed)
        if welcomed:
            other.delete(queue)
    assert outcomes == {True, False}


# -- exchanges ----------------------------------------------------------------------------------


def bound_queue(client: Client, exchange: str, **options: bool) -> str:
    """A queue that is bound to the exchange twice."""
    queue = client.declare("" if options else "q", **options).queue
    for key in ("a", "b"):
        client.bind(queue, exchange, key)
    return queue


def unbind_queue(client: Client, exchange: str) -> Method:
    queue = bound_queue(client, exchange)
    client.call(m.QueueUnbind(queue, exchange, "a"), m.QueueUnbindOk)
    return m.QueueUnbind(queue, exchange, "b")


def delete_queue(client: Client, exchange: str) -> Method:
    return m.QueueDelete(bound_queue(client, exchange))


def bind_exchange(client: Client, exchange: str) -> None:
    client.call(m.ExchangeBind("amq.fanout", exchange, "a"), m.ExchangeBindOk)


def unbind_exchange(client: Client, exchange: str) -> Method:
    bind_exchange(client, exchange)
    return m.ExchangeUnbind("amq.fanout", exchange, "a")


def delete_destination(client: Client, exchange: str) -> Method:
    client.declare_exchange("destination", "fanout")
    client.call(m.ExchangeBind("destination", exchange, "a"), m.ExchangeBindOk)
    return m.ExchangeDelete("destination")


def cancel_consumer(client: Client, exchange: str) -> Method:
    return m.BasicCancel(client.consume(bound_queue(client, exchange, auto_delete=True)))


def end_channel(client: Client, exchange: str) -> Method:
    cancel_consumer(client, exchange)
    return m.ChannelClose(200, "", 0, 0)


UNBINDING: dict[str, Callable[[Client, str], Method]] = {
    "queue.unbind": unbind_queue,
    "exchange.unbind": unbind_exchange,
    "queue.delete": delete_queue,
    "exchange.delete": delete_destination,
    "basic.cancel": cancel_consumer,
    "channel.close": end_channel,
}
"""Actions that end the last binding of an exchange. Each returns the method whose answer comes after that."""

ANSWERS = (
    m.QueueUnbindOk, m.ExchangeUnbindOk, m.QueueDeleteOk, m.ExchangeDeleteOk, m.BasicCancelOk,
    m.ChannelCloseOk,
)  # fmt: skip


@pytest.mark.requirement("A14.3")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", UNBINDING)
def test_an_auto_delete_exchange_is_gone_when_the_end_of_its_last_binding_is_answered(
    how: str, place: str
) -> None:
    """The exchange whose only binding leads to it is gone, too."""
    cluster = Cluster()
    client = cluster.client(place)
    declare_exchange(cluster.client("owner"), "upper")
    declare_exchange(cluster.client("leader"), "lower")
    client.call(m.ExchangeBind("lower", "upper", "#"), m.ExchangeBindOk)
    last = UNBINDING[how](client, "lower")
    assert len(cluster.showing("lower")) == len(cluster.showing("upper")) == 3
    client.call(last, *ANSWERS)
    assert cluster.showing("lower", "upper") == []


@pytest.mark.requirement("A14.3", "A15.5")
@pytest.mark.parametrize("named", ["by the client", "by the server"])
@pytest.mark.parametrize("place", PLACES)
def test_an_auto_delete_exchange_is_gone_with_the_exclusive_queue_of_a_connection(
    place: str, named: str
) -> None:
    cluster = Cluster()
    client = cluster.client(place)
    declare_exchange(cluster.client("third"), "e")
    queue = client.declare("mine" if named == "by the client" else "", exclusive=True).queue
    client.bind(queue, "e", "a")
    assert len(cluster.showing("e")) == 3
    client.disconnect()
    assert cluster.showing("e") == cluster.knowing("mine") == []
