"""This node's connections, channels and consumers, as RabbitMQ describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cluster.admin.api.rates import message_stats, with_rates
from cluster.admin.api.sampling import Sampler
from cluster.admin.clients import (
    CHANNEL_NAMES,
    OCTETS,
    client_name,
    connection_octets,
)
from cluster.config.certificates import distinguished_name
from cluster.gateway.state import LinkConsumer
from node.session.client_views import ChannelView, ConnectionView, ConsumerView, LinkView, SessionView
from node.session.listener import Client


@dataclass(frozen=True, slots=True)
class ClientRows:
    """Makes rows of this node's clients.

    `wall_ms` turns a time of the node's clock into milliseconds since 1970; `find_consumer` and
    `queue_name` look up what a consumer's number and a queue's id stand for.
    """

    node: str
    sampler: Sampler
    wall_ms: Callable[[float], int]
    find_consumer: Callable[[int], LinkConsumer | None]
    queue_name: Callable[[int], tuple[str, str] | None]

    # -- connections ----------------------------------------------------------------------------

    def connection(self, client: Client) -> dict[str, Any]:
        session, connection = client.session, client.session.view()
        octets = connection_octets(client)
        (peer_host, peer_port), (host, port) = client.ends()
        return {
            "name": client_name(client),
            "node": self.node,
            "user": session.user,
            "user_who_performed_action": session.user,
            "vhost": session.vhost,
            "state": _state(client, connection),
            "type": "network",
            "protocol": connection.protocol,
            "auth_mechanism": connection.mechanism,
            "host": host,
            "port": port,
            "peer_host": peer_host,
            "peer_port": peer_port,
            "connected_at": self.wall_ms(client.since),
            "channels": connection.channels,
            "channel_max": connection.channel_max,
            "frame_max": connection.frame_max,
            "timeout": connection.heartbeat,
            "client_properties": _plain(connection.properties),
            "user_provided_name": _plain(connection.properties.get("connection_name")),
            **_tls(client),
            **with_rates(OCTETS, octets, self.sampler.rates(("connection", client.number), len(OCTETS))),
        }

    # -- channels -------------------------------------------------------------------------------

    def channel(self, client: Client, channel: ChannelView) -> dict[str, Any]:
        session = client.session
        rates = self.sampler.rates(("channel", client.number, channel.number), len(CHANNEL_NAMES))
        name = client_name(client)
        return {
            "name": f"{name} ({channel.number})",
            "number": channel.number,
            "node": self.node,
            "user": session.user,
            "user_who_performed_action": session.user,
            "vhost": session.vhost,
            "state": "running" if channel.open else "closing",
            "confirm": channel.confirming,
            "transactional": channel.transactional,
            "consumer_count": channel.consumers,
            "prefetch_count": channel.consumer_prefetch,
            "global_prefetch_count": channel.prefetch,
            "messages_unacknowledged": channel.unsettled,
            "messages_unconfirmed": channel.unconfirmed,
            "connection_details": {"name": name, **_peer(client)},
            "message_stats": message_stats(CHANNEL_NAMES, channel.traffic, rates),
        }

    # -- consumers ------------------------------------------------------------------------------

    def consumers(self, client: Client) -> Iterator[dict[str, Any]]:
        for consumer in client.session.consumer_views():
            yield self._consumer(client, consumer)

    def _consumer(self, client: Client, consumer: ConsumerView) -> dict[str, Any]:
        terms = self.find_consumer(consumer.number)
        place = None if terms is None else self.queue_name(terms.queue)
        vhost, queue = place or (client.session.vhost, "")
        name = client_name(client)
        status = _activity(terms)
        return {
            "consumer_tag": consumer.tag,
            "queue": {"name": queue, "vhost": vhost},
            "ack_required": not consumer.no_ack,
            "active": status != "waiting",
            "activity_status": status,
            "exclusive": terms is not None and terms.exclusive,
            "prefetch_count": consumer.prefetch,
            "arguments": {"x-priority": terms.priority} if terms is not None and terms.priority else {},
            "channel_details": {
                "name": f"{name} ({consumer.channel})",
                "number": consumer.channel,
                "connection_name": name,
                "node": self.node,
                "user": client.session.user,
                **_peer(client),
            },
        }

    # -- sessions of AMQP 1.0 -------------------------------------------------------------------

    def sessions(self, client: Client) -> list[dict[str, Any]]:
        return [self._session(session) for session in client.session.session_views()]

    def _session(self, session: SessionView) -> dict[str, Any]:
        return {
            "channel_number": session.number,
            "next_incoming_id": session.next_incoming_id,
            "incoming_window": session.incoming_window,
            "next_outgoing_id": session.next_outgoing_id,
            "remote_incoming_window": session.remote_incoming_window,
            "outgoing_unsettled_deliveries": session.unsettled,
            "unconfirmed_messages": session.unconfirmed,
            "incoming_links": [_link(one) for one in session.links if one.incoming],
            "outgoing_links": [_link(one) for one in session.links if not one.incoming],
        }


def _link(link: LinkView) -> dict[str, Any]:
    return {
        "handle": link.handle,
        "link_name": link.name,
        "source_address": link.source,
        "target_address": link.target,
        "send_settled": link.settled,
        "delivery_count": link.delivery_count,
        "credit": link.credit,
    }


def _activity(terms: LinkConsumer | None) -> str:
    """As RabbitMQ names it."""
    if terms is None or not terms.single_active:
        return "up"
    return "single_active" if terms.activated else "waiting"


def _state(client: Client, connection: ConnectionView) -> str:
    if connection.blocked:
        return "blocked"
    if client.session.held_back:
        return "flow"
    return "running"


def _peer(client: Client) -> dict[str, Any]:
    (peer_host, peer_port), _ = client.ends()
    return {"peer_host": peer_host, "peer_port": peer_port}


def _tls(client: Client) -> dict[str, Any]:
    """The version and cipher agreed with a client that speaks TLS, and the name in its certificate."""
    names = ("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash")
    peer = ("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity")
    shown: dict[str, Any] = {"ssl": False, **dict.fromkeys((*names, *peer))}
    encrypted = client.encryption
    if encrypted is None:
        return shown
    cipher = encrypted.cipher()
    certificate: dict[str, Any] = encrypted.getpeercert() or {}
    shown |= {"ssl": True, "ssl_protocol": encrypted.version(), "ssl_cipher": cipher[0] if cipher else None}
    if certificate:
        validity = f"{certificate.get('notBefore')} - {certificate.get('notAfter')}"
        subject, issuer = (distinguished_name(certificate.get(one, ())) for one in ("subject", "issuer"))
        shown |= {"peer_cert_subject": subject, "peer_cert_issuer": issuer, "peer_cert_validity": validity}
    return shown


def _plain(value: Any) -> Any:
    """Field values as JSON has them; octets that are no text become text all the same."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
