"""Termini that are kept with their unsettled deliveries, whichever peer sends (part 3, section 3.5.5)."""

from __future__ import annotations

from typing import Final

from node.delivery.link_terms import LinkTerms
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import Source, Target, TerminusDurability, TerminusExpiryPolicy
from node.wire.amqp10.errors import IncompleteUnsettledError
from node.wire.amqp10.links import Link, OutgoingLink
from node.wire.amqp10.retention import Retention, granted, unsettled_kept

MOST_NAME_OCTETS: Final = 1024
"""The most octets of the names of a container and a link whose terminus a queue keeps: the queue has them in
memory, and the log with each step.
"""


def kept_retention(asked: Source | Target) -> Retention | None:
    """The retention of a terminus that the peer wants to be kept with its unsettled deliveries; None where
    the peer asks for less.
    """
    wanted = granted(asked, may_last=True)
    keeps = asked.durable is TerminusDurability.UNSETTLED_STATE and wanted.lasts
    return unsettled_kept(wanted) if keeps else None


def ask_as_made(link: OutgoingLink, retention: Retention, *, keeps: bool) -> None:
    """Have a link to a subscription ask for the durability with which the terminus was made, or for less.
    `keeps`: that was unsettled-state. A peer that states no source asks for the terminus as it is.
    """
    source = link.source
    if link.attach.source is None and keeps:
        source.durable, source.expiry_policy = TerminusDurability.UNSETTLED_STATE, retention.expiry
        source.timeout = retention.timeout_s
    elif source.durable is TerminusDurability.UNSETTLED_STATE and not keeps:
        source.durable = TerminusDurability.CONFIGURATION
    link.attach.source = source


def link_octets(link: Link, connection: Connection, retention: Retention) -> bytes:
    """The link as its queue is to know it (`node.delivery.link_terms`); empty where its names are too long
    for that. Raises IncompleteUnsettledError.
    """
    if link.attach.incomplete_unsettled:
        raise IncompleteUnsettledError("the node takes whole unsettled maps, as long as a frame admits")
    identity = link_identity(link, connection)
    return LinkTerms(identity, retention.timeout_s).encode() if identity else b""


def link_identity(link: Link, connection: Connection) -> bytes:
    """The names of the container and the link; empty where they are too long for a queue."""
    opened = connection.remote_open
    container = "" if opened is None else opened.container_id
    identity = f"{container}\0{link.attach.name}".encode()
    return identity if len(identity) <= MOST_NAME_OCTETS else b""


def found_source(address: str, kept_s: int) -> Source:
    """The source of a link that its peer attaches without one, and whose deliveries a queue keeps."""
    expiry = TerminusExpiryPolicy.LINK_DETACH if kept_s else TerminusExpiryPolicy.NEVER
    return Source(address, TerminusDurability.UNSETTLED_STATE, expiry, kept_s)
