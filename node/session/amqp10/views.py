"""Makes the views of `node.session.client_views` for a connection of AMQP 1.0.

A channel is an AMQP session, and a consumer a link on which the node sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from node.session.client_views import (
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
    LinkTotals,
    LinkView,
    SessionView,
)
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import SenderSettleMode, Source, Target
from node.wire.amqp10.links import IncomingLink, Link, OutgoingLink
from node.wire.amqp10.serial import MODULUS
from node.wire.amqp10.session_endpoint import SessionEndpoint
from node.wire.amqp10.states import SessionState

PROTOCOL_NAME: Final = "AMQP 1.0"


def connection_view(connection: Connection) -> ConnectionView:
    """The agreed limits of the connection, and whether an alarm keeps credit from its sending links."""
    remote = connection.remote_open
    return ConnectionView(
        protocol=PROTOCOL_NAME,
        mechanism=connection.mechanism,
        channels=len(connection.sessions),
        channel_max=connection.channel_max,
        frame_max=connection.max_frame_size,
        heartbeat=0 if remote is None else (remote.idle_time_out or 0) // 1000,
        properties={} if remote is None else dict(remote.properties or {}),
        blocked=not connection.sessions.parts.granting,
    )


def channel_views(connection: Connection) -> Iterator[ChannelView]:
    """A view of each session, made when the iterator reaches it; sessions may begin and end in between."""
    for session in connection.sessions:
        outgoing, incoming = session.outgoing, session.incoming
        yield ChannelView(
            session.channel,
            session.state is SessionState.MAPPED,
            incoming.unconfirmed > 0 or incoming.confirmed > 0,
            False,
            sum(1 for _ in session.outgoing_links()),
            0,
            0,
            outgoing.unsettled.count,
            incoming.unconfirmed,
            _traffic(session),
        )


def channel_traffic(connection: Connection) -> Iterator[tuple[int, ChannelTraffic]]:
    """The channels and counters of the sessions; cheaper than `channel_views`."""
    for session in connection.sessions:
        yield session.channel, _traffic(session)


def consumer_views(connection: Connection) -> Iterator[ConsumerView]:
    """A view of each link on which the node sends, by session."""
    for session in connection.sessions:
        for link in list(session.outgoing_links()):
            if link.consumer is not None:
                yield ConsumerView(
                    session.channel, link.consumer.number, link.attach.name, link.presettled, link.room() or 0
                )


def session_views(connection: Connection) -> Iterator[SessionView]:
    """A view of each session with its links, made when the iterator reaches the session."""
    for session in connection.sessions:
        incoming, outgoing = session.incoming, session.outgoing
        yield SessionView(
            session.channel,
            incoming.next_id % MODULUS,
            incoming.window,
            outgoing.next_id % MODULUS,
            max(0, outgoing.limit - outgoing.next_id),
            outgoing.unsettled.count,
            incoming.unconfirmed,
            tuple(_link_view(link) for link in session.links.values()),
        )


def _link_view(link: Link) -> LinkView:
    attach = link.attach
    source, target = (
        end.address if isinstance(end, Source | Target) else None for end in (attach.source, attach.target)
    )
    if isinstance(link, IncomingLink):
        incoming, settled = True, attach.snd_settle_mode is SenderSettleMode.SETTLED
        count, credit = link.delivery_count, link.credit
    else:
        incoming, settled = False, link.presettled
        count, credit = link.delivered, _credit(link)
    return LinkView(attach.handle, attach.name, incoming, source, target, settled, count % MODULUS, credit)


def _credit(link: OutgoingLink) -> int:
    """The credit that the peer has given and the node has not used."""
    return max(0, link.credit_limit - link.delivered)


def channel_totals(connection: Connection) -> ChannelTotals:
    """Sums over the sessions, without making a view of each."""
    publishers = incoming = outgoing = given = left = 0
    for session in connection.sessions:
        publishers += int(session.incoming.received > 0)
        for link in session.links.values():
            if isinstance(link, IncomingLink):
                incoming += 1
                given += link.credit
            else:
                outgoing += 1
                left += _credit(link)
    return ChannelTotals(outgoing, publishers, LinkTotals(incoming, given), LinkTotals(outgoing, left))


def _traffic(session: SessionEndpoint) -> ChannelTraffic:
    incoming, outgoing = session.incoming, session.outgoing
    return ChannelTraffic(
        incoming.received,
        incoming.confirmed,
        outgoing.sent - outgoing.sent_presettled,
        outgoing.sent_presettled,
        0,
        outgoing.redelivered,
        outgoing.settled,
    )
