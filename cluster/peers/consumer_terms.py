"""The terms of a consumer, as front ends tell them to owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from node.delivery.backlog import NO_BACKLOG
from replication.forms import expect

_TERMS_FORM: Final = (int, int, int, int, bool, bool, int)

FOR_LOGGED_LINK: Final = 1
"""The third item of the answer to an attach (`cluster.peers.link_messages.FOR_LINK`) where the log has that
the consumer has its link (`cluster.owner.attached_links`).
"""


@dataclass(frozen=True, slots=True)
class ConsumerTerms:
    """The terms of one consumer, which a front end sends to an owner.

    `limit` and `delivered` count messages since the consumer was attached, as delivery-count and
    link-credit do in AMQP 1.0: the owner may send while `delivered` is below `limit`.
    """

    consumer: int
    queue: int
    limit: int
    delivered: int
    no_ack: bool
    exclusive: bool
    priority: int
    joined: int = 0
    activated: int = 0
    """The numbers that owners have told about a single active consumer: see `FrontEndPort.activity`."""
    filter: bytes = b""
    """The octets of the consumer's selector (`node.expressions.nodes`); empty for none."""
    link: bytes = b""
    """The link for which the queue is to keep the consumer's messages (`node.delivery.link_terms`); empty for
    none.
    """
    backlog: int = NO_BACKLOG
    """The backlog that the consumer asks for (`node.delivery.backlog`)."""
    logged: bool = False
    """Whether an owner has told that the log has that the consumer has its link."""


def terms_to_plain(terms: ConsumerTerms) -> tuple[Any, ...]:
    """The terms as a message has them."""
    plain = (
        terms.consumer,
        terms.queue,
        terms.limit,
        terms.delivered,
        terms.no_ack,
        terms.exclusive,
        terms.priority,
        terms.joined,
        terms.activated,
    )
    # A release without filters does not read a further field, one without links at most one, one without
    # backlogs at most two, and one whose logs have no consumers of links at most three.
    if terms.logged:
        return (*plain, terms.filter, terms.link, terms.backlog, terms.logged)
    if terms.backlog != NO_BACKLOG:
        return (*plain, terms.filter, terms.link, terms.backlog)
    if terms.link:
        return (*plain, terms.filter, terms.link)
    return (*plain, terms.filter) if terms.filter else plain


def terms_from_plain(plain: list[Any]) -> ConsumerTerms:
    """Inverse of `terms_to_plain`. A release whose logs have no consumers of links leaves out the last field,
    one without backlogs the field before as well, one without links the next one, one without filters another
    one, and one without single active consumers the two fields before that.

    Raises MessageError.
    """
    expect(plain, (*_TERMS_FORM, int, int, bytes, bytes, int, bool)[: max(len(plain), len(_TERMS_FORM))])
    return ConsumerTerms(*plain)
