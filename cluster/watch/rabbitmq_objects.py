"""RabbitMQ's families of metrics that tell queues, channels, connections and exchanges apart.

`/metrics/per-object` serves those of its `METRICS_RAW`, `/metrics/detailed` each that is asked for, under
another prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.management.client_rows import channel_counts, client_name, connection_octets, is_shown
from cluster.watch.metric import Kind, Metric, series
from node.engine.dispatch import QueueOwner
from node.engine.exchange import DEFAULT_EXCHANGE
from node.frontend.listener import Client
from node.wire.amqp091.channel import Channel

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

DETAILED: Final = "rabbitmq_detailed_"
CLUSTER: Final = "rabbitmq_cluster_"

Family = Callable[[str, Sequence[str]], Iterator[Metric]]
"""Takes the prefix of names and the virtual hosts that are asked for: none for all."""

DELIVERIES: Final[Mapping[str, tuple[str, str]]] = {
    "get_ack": ("got", "Messages taken with basic.get, to be acknowledged."),
    "get": ("got_no_ack", "Messages taken with basic.get, automatic acks."),
    "messages_delivered_ack": ("delivered", "Messages delivered to consumers that acknowledge."),
    "messages_delivered": ("delivered_no_ack", "Messages delivered to consumers, automatic acks."),
    "messages_redelivered": ("redelivered", "Messages delivered again."),
    "messages_acked": ("acknowledged", "Messages acknowledged."),
    "get_empty": ("got_empty", "Times that basic.get found nothing."),
}
"""Name, field of `Tally`, meaning."""


class RabbitMQObjects:
    """The families of one node; queues are told of where they are owned."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self.always: tuple[Family, ...] = (
            self.coarse, self.queues, self.deliveries, self.connections, self.channels, self.exchanges,
        )  # fmt: skip
        """What `/metrics/per-object` has."""
        self.families: Mapping[str, Family] = {
            "queue_coarse_metrics": self.coarse,
            "queue_consumer_count": self.consumer_counts,
            "queue_metrics": self.queues,
            "queue_delivery_metrics": self.deliveries,
            "connection_coarse_metrics": self.connections,
            "connection_metrics": self.connection_channels,
            "channel_metrics": self.channels,
            "exchange_metrics": self.exchanges,
            "vhost_status": self.vhosts,
            "exchange_names": self.exchange_names,
            "exchange_bindings": self.exchange_bindings,
        }

    # -- queues ---------------------------------------------------------------------------------

    def owned(self, vhosts: Sequence[str] = ()) -> Iterator[tuple[Mapping[str, str], QueueOwner]]:
        """The queues that this node owns, with their labels."""
        process = self._process
        for owner in process.broker.owners.values():
            for id, queue in owner.queues.items() if owner.active else ():
                named = process.broker.transit.queue_name(id)
                if named is not None and (not vhosts or named[0] in vhosts):
                    yield {"vhost": named[0], "queue": named[1]}, queue

    def coarse(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        queues = list(self.owned(vhosts))
        ready = [len(queue.ready) + len(queue.held) for _, queue in queues]
        leased = [queue.leased_count for _, queue in queues]
        for name, help_, values in (
            ("messages_ready", "Messages that wait for consumers.", ready),
            ("messages_unacked", "Messages delivered and not acknowledged.", leased),
            ("messages", "Messages ready and unacknowledged.", map(sum, zip(ready, leased, strict=True))),
        ):
            yield series(f"{prefix}queue_{name}", "gauge", help_, [labels for labels, _ in queues], values)

    def consumer_counts(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        queues = list(self.owned(vhosts))
        values = [queue.consumers.count for _, queue in queues]
        labels = [labels for labels, _ in queues]
        yield series(f"{prefix}queue_consumers", "gauge", "Consumers of the queue.", labels, values)

    def queues(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        yield from self.consumer_counts(prefix, vhosts)
        queues = list(self.owned(vhosts))
        values = [queue.tally.published for _, queue in queues]
        labels = [labels for labels, _ in queues]
        help_ = "Messages published to the queue."
        yield series(f"{prefix}queue_messages_published_total", "counter", help_, labels, values)

    def deliveries(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        queues = list(self.owned(vhosts))
        labels = [labels for labels, _ in queues]
        for name, (field, help_) in DELIVERIES.items():
            values = [getattr(queue.tally, field) for _, queue in queues]
            yield series(f"{prefix}queue_{name}_total", "counter", help_, labels, values)

    # -- clients --------------------------------------------------------------------------------

    def _clients(self, vhosts: Sequence[str]) -> list[Client]:
        clients = self._process.listener.clients.values()
        return [one for one in clients if is_shown(one) and (not vhosts or one.session.vhost in vhosts)]

    def connections(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        clients = self._clients(vhosts)
        labels = [_connection(client) for client in clients]
        octets = [connection_octets(client) for client in clients]
        for name, help_, place in (
            ("incoming", "Octets received from the client.", 0),
            ("outgoing", "Octets sent to the client.", 1),
        ):
            values = [one[place] for one in octets]
            yield series(f"{prefix}connection_{name}_bytes_total", "counter", help_, labels, values)

    def connection_channels(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        clients = self._clients(vhosts)
        values = [len(client.session.connection.channels) for client in clients]
        labels = [_connection(client) for client in clients]
        yield series(f"{prefix}connection_channels", "gauge", "Channels of the connection.", labels, values)

    def channels(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        channels = [
            ({"channel": f"{client_name(client)} ({channel.number})", **_connection(client)}, channel)
            for client in self._clients(vhosts)
            for channel in client.session.connection.channels
        ]
        labels = [labels for labels, _ in channels]
        for name, kind, help_, read in _CHANNEL:
            values = [read(channel) for _, channel in channels]
            yield series(f"{prefix}channel_{name}", kind, help_, labels, values)

    # -- what is declared -----------------------------------------------------------------------

    def exchanges(self, prefix: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        flows = [
            ({"vhost": vhost, "exchange": name}, flow)
            for (vhost, name), flow in self._process.front_end.flows.items()
            if not vhosts or vhost in vhosts
        ]
        labels = [labels for labels, _ in flows]
        values = [flow.published for _, flow in flows]
        help_ = "Messages published to the exchange."
        yield series(f"{prefix}exchange_messages_published_total", "counter", help_, labels, values)

    def _vhosts(self, vhosts: Sequence[str]) -> list[str]:
        return [name for name in self._process.broker.catalog.state.vhosts if not vhosts or name in vhosts]

    def vhosts(self, _: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        samples = [({"vhost": name}, 1.0) for name in self._vhosts(vhosts)]
        yield Metric(f"{CLUSTER}vhost_status", "gauge", "1 while the virtual host can be used.", samples)

    def exchange_names(self, _: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        labels = [labels for labels, _ in self._bindings(vhosts)]
        yield series(
            f"{CLUSTER}exchange_name", "gauge", "Exchanges that there are.", labels, [1] * len(labels)
        )

    def exchange_bindings(self, _: str, vhosts: Sequence[str]) -> Iterator[Metric]:
        found = list(self._bindings(vhosts))
        labels, values = [labels for labels, _ in found], [count for _, count in found]
        yield series(f"{CLUSTER}exchange_bindings", "gauge", "Bindings of the exchange.", labels, values)

    def _bindings(self, vhosts: Sequence[str]) -> Iterator[tuple[Mapping[str, str], int]]:
        """Exchanges with how many bindings they are the source of."""
        state = self._process.broker.catalog.state
        for name in self._vhosts(vhosts):
            exchanges = state.vhosts[name].exchanges
            queues = sum(queue.vhost == name for queue in state.queues.values())
            for exchange in exchanges:
                # Every queue is bound to the default exchange (0-9-1 §3.1.3.1).
                default = exchange.name == DEFAULT_EXCHANGE
                count = queues if default else sum(1 for _ in exchanges.bindings(exchange.name, None))
                yield {"vhost": name, "exchange": exchange.name, "type": exchange.type}, count


def _connection(client: Client) -> dict[str, str]:
    return {"connection": client_name(client)}


_CHANNEL: Final[Sequence[tuple[str, Kind, str, Callable[[Channel], float]]]] = (
    ("consumers", "gauge", "Consumers of the channel.", lambda one: len(one.deliveries.consumers)),
    (
        "messages_unacked",
        "gauge",
        "Messages delivered on the channel and not acknowledged.",
        lambda one: one.deliveries.unsettled.count,
    ),
    ("prefetch", "gauge", "Limit of unacknowledged messages.", lambda one: one.deliveries.prefetch),
    (
        "messages_published_total",
        "counter",
        "Messages published on the channel.",
        lambda one: channel_counts(one)[0],
    ),
    (
        "messages_confirmed_total",
        "counter",
        "Messages confirmed on the channel.",
        lambda one: channel_counts(one)[1],
    ),
)
