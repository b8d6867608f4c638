"""RabbitMQ's families of metrics that tell queues, channels, connections and exchanges apart.

`/metrics/per-object` serves the families of its `METRICS_RAW`, `/metrics/detailed` the families that the
request names, under another prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cluster.admin.clients import client_name, connection_octets
from cluster.admin.metrics.metric import Kind, Metric, label_text, with_label
from cluster.admin.metrics.sweep import SWEEP_STEP, Sweep
from cluster.admin.views import NodeView
from node.queue.dispatch import QueueOwner
from node.routing.exchange import DEFAULT_EXCHANGE
from node.session.client_views import ChannelView
from node.session.listener import Client

DETAILED: Final = "rabbitmq_detailed_"
CLUSTER: Final = "rabbitmq_cluster_"

Family = Callable[[str, Sweep, Sequence[str]], Iterator[Metric | None]]
"""Takes the prefix of names, the sweep over queues and clients, and the virtual hosts of the request (none:
all). None among the metrics: the work may rest."""

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
    """The families of one node; the owner of a queue reports the queue."""

    def __init__(self, node: NodeView) -> None:
        self._node = node
        self.always: tuple[Family, ...] = (
            self.coarse,
            self.queues,
            self.deliveries,
            self.connections,
            self.channels,
            self.exchanges,
        )
        """The families of `/metrics/per-object`."""
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

    def coarse(self, prefix: str, sweep: Sweep, _: Sequence[str]) -> Iterator[Metric]:
        for name, help_, read in _COARSE:
            samples = ((labels, float(read(queue))) for labels, queue in sweep.queues)
            yield Metric(f"{prefix}queue_{name}", "gauge", help_, samples)

    def consumer_counts(self, prefix: str, sweep: Sweep, _: Sequence[str]) -> Iterator[Metric]:
        samples = ((labels, float(queue.delivery.consumers.count)) for labels, queue in sweep.queues)
        yield Metric(f"{prefix}queue_consumers", "gauge", "Consumers of the queue.", samples)

    def queues(self, prefix: str, sweep: Sweep, vhosts: Sequence[str]) -> Iterator[Metric]:
        yield from self.consumer_counts(prefix, sweep, vhosts)
        samples = ((labels, float(queue.delivery.tally.published)) for labels, queue in sweep.queues)
        help_ = "Messages published to the queue."
        yield Metric(f"{prefix}queue_messages_published_total", "counter", help_, samples)

    def deliveries(self, prefix: str, sweep: Sweep, _: Sequence[str]) -> Iterator[Metric]:
        for name, (field, help_) in DELIVERIES.items():
            samples = (
                (labels, float(getattr(queue.delivery.tally, field))) for labels, queue in sweep.queues
            )
            yield Metric(f"{prefix}queue_{name}_total", "counter", help_, samples)

    # -- clients --------------------------------------------------------------------------------

    def connections(self, prefix: str, sweep: Sweep, _: Sequence[str]) -> Iterator[Metric]:
        for name, help_, place in (
            ("incoming", "Octets received from the client.", 0),
            ("outgoing", "Octets sent to the client.", 1),
        ):
            samples = ((_connection(one), float(connection_octets(one)[place])) for one in sweep.clients)
            yield Metric(f"{prefix}connection_{name}_bytes_total", "counter", help_, samples)

    def connection_channels(self, prefix: str, sweep: Sweep, _: Sequence[str]) -> Iterator[Metric]:
        samples = ((_connection(one), float(one.session.channel_count)) for one in sweep.clients)
        yield Metric(f"{prefix}connection_channels", "gauge", "Channels of the connection.", samples)

    def channels(self, prefix: str, sweep: Sweep, _: Sequence[str]) -> Iterator[Metric | None]:
        channels: list[tuple[str, ChannelView]] = []
        for client in sweep.clients:
            labels = _connection(client)
            for channel in client.session.channel_views():
                name = f"{client_name(client)} ({channel.number})"
                channels.append((with_label(labels, "channel", name), channel))
            yield None
        for name, kind, help_, read in _CHANNEL:
            samples = ((labels, float(read(channel))) for labels, channel in channels)
            yield Metric(f"{prefix}channel_{name}", kind, help_, samples)

    # -- declarations -----------------------------------------------------------------------

    def exchanges(self, prefix: str, _: Sweep, vhosts: Sequence[str]) -> Iterator[Metric]:
        flows = [
            (vhost, name, flow)
            for (vhost, name), flow in self._node.front_end.flows.items()
            if not vhosts or vhost in vhosts
        ]
        samples = (
            (label_text({"vhost": vhost, "exchange": name}), float(flow.published))
            for vhost, name, flow in flows
        )
        help_ = "Messages published to the exchange."
        yield Metric(f"{prefix}exchange_messages_published_total", "counter", help_, samples)

    def _vhosts(self, vhosts: Sequence[str]) -> list[str]:
        return [name for name in self._node.partitions.state.vhosts if not vhosts or name in vhosts]

    def vhosts(self, _: str, __: Sweep, vhosts: Sequence[str]) -> Iterator[Metric]:
        samples = [(label_text({"vhost": name}), 1.0) for name in self._vhosts(vhosts)]
        yield Metric(f"{CLUSTER}vhost_status", "gauge", "1 while the virtual host can be used.", samples)

    def exchange_names(self, _: str, __: Sweep, vhosts: Sequence[str]) -> Iterator[Metric]:
        samples = ((labels, 1.0) for labels, _, _ in self._exchanges(vhosts))
        yield Metric(f"{CLUSTER}exchange_name", "gauge", "Exchanges that there are.", samples)

    def exchange_bindings(self, _: str, __: Sweep, vhosts: Sequence[str]) -> Iterator[Metric | None]:
        """Exchanges with how many bindings they are the source of."""
        state = self._node.partitions.state
        queues: Counter[str] = Counter()
        for number, queue in enumerate(list(state.queues.values())):
            queues[queue.vhost] += 1
            if number % SWEEP_STEP == 0:
                yield None

        def counted() -> Iterator[tuple[str, float]]:
            for labels, vhost, name in self._exchanges(vhosts):
                if name == DEFAULT_EXCHANGE:
                    # Every queue is bound to the default exchange (0-9-1 §3.1.3.1).
                    yield labels, float(queues[vhost])
                elif vhost in state.vhosts:
                    yield labels, float(sum(1 for _ in state.vhosts[vhost].exchanges.bindings(name, None)))

        yield Metric(f"{CLUSTER}exchange_bindings", "gauge", "Bindings of the exchange.", counted())

    def _exchanges(self, vhosts: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Exchanges as labels, virtual host, name."""
        state = self._node.partitions.state
        for vhost in self._vhosts(vhosts):
            for one in list(state.vhosts[vhost].exchanges) if vhost in state.vhosts else ():
                yield (
                    label_text({"vhost": vhost, "exchange": one.name, "type": one.type}),
                    vhost,
                    one.name,
                )


def _connection(client: Client) -> str:
    return label_text({"connection": client_name(client)})


_COARSE: Final[Sequence[tuple[str, str, Callable[[QueueOwner], int]]]] = (
    (
        "messages_ready",
        "Messages that wait for consumers.",
        lambda queue: queue.delivery.waiting_count,
    ),
    (
        "messages_unacked",
        "Messages delivered and not acknowledged.",
        lambda queue: queue.delivery.leased_count,
    ),
    (
        "messages",
        "Messages ready and unacknowledged.",
        lambda queue: queue.delivery.waiting_count + queue.delivery.leased_count,
    ),
)


_CHANNEL: Final[Sequence[tuple[str, Kind, str, Callable[[ChannelView], float]]]] = (
    ("consumers", "gauge", "Consumers of the channel.", lambda one: one.consumers),
    (
        "messages_unacked",
        "gauge",
        "Messages delivered on the channel and not acknowledged.",
        lambda one: one.unsettled,
    ),
    ("prefetch", "gauge", "Limit of unacknowledged messages.", lambda one: one.prefetch),
    (
        "messages_published_total",
        "counter",
        "Messages published on the channel.",
        lambda one: one.traffic.published,
    ),
    (
        "messages_confirmed_total",
        "counter",
        "Messages confirmed on the channel.",
        lambda one: one.traffic.confirmed,
    ),
)
