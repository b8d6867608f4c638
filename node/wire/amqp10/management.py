"""Requests to the node's management, and the responses: HTTP carried by messages, as RabbitMQ 4 has it.

A request has the method in `subject`, the path in `to`, `$me` in `reply-to`, a `message-id`, and a body of
one amqp-value. The response has the status in `subject`, the request's message-id in `correlation-id`, and a
body of one amqp-value.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import error as StructError
from typing import Final, NamedTuple

from node.wire.amqp10.decoding import read_value
from node.wire.amqp10.definitions import COMPOSITES, Properties, SectionCode, read_composite
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import SectionError, WireError
from node.wire.amqp10.field_readers import MessageId
from node.wire.amqp10.links import IncomingLink, Link, LinkState, OutgoingLink
from node.wire.amqp10.sections import sections_in_any_order
from node.wire.amqp10.values import AmqpValue, Described, ULong

MANAGEMENT_ADDRESS: Final = "/management"

REPLY_ADDRESS: Final = "$me"
"""The reply-to of a request: the link of the same name on which the peer receives."""

REQUEST_OCTETS: Final = 64 * 1024
"""A longer request is refused."""

REQUEST_CREDIT: Final = 16
"""Requests that a peer may send ahead of their responses."""

_RESPONSE: Final = {"http:response": "1.1"}


REQUEST_RECORD: Final = 512
"""Octets of memory for a request beside its own octets."""


class UnansweredRequests:
    """The memory of a connection's requests that have no response yet. They may outlive their link."""

    __slots__ = ("octets",)

    def __init__(self) -> None:
        self.octets = 0

    def asked(self, link: IncomingLink, octets: int) -> None:
        """A request of so many octets has come on a link."""
        link.unanswered.append(REQUEST_RECORD + octets)
        self.octets += REQUEST_RECORD + octets

    def answered(self, link: IncomingLink) -> None:
        """The oldest request of a link has its response, or cannot have one."""
        self.octets -= link.unanswered.popleft()


def responding_to(links: Iterable[Link], name: str) -> list[OutgoingLink]:
    """The attached link of this name for responses of the management, if there is one."""
    return [one for one in links if isinstance(one, OutgoingLink) and one.management and _attached(one, name)]


def requesting(links: Iterable[Link], name: str) -> list[IncomingLink]:
    """The attached link of this name for requests to the management, if there is one."""
    return [one for one in links if isinstance(one, IncomingLink) and one.management and _attached(one, name)]


def _attached(link: Link, name: str) -> bool:
    return link.state is LinkState.ATTACHED and link.attach.name == name


class RequestError(Exception):
    """The request cannot be carried out. `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: Final = status


class ManagementRequest(NamedTuple):
    """`path` is percent-encoded. `body` has values of AMQP 1.0."""

    message_id: MessageId
    method: str
    path: str
    body: AmqpValue


def request_in(octets: bytes) -> ManagementRequest:
    """The request in a message. Raises SectionError where no response is possible, because the message has no
    message-id or asks for the response elsewhere.
    """
    properties, body = _parts(octets)
    message_id, method, path = properties.message_id, properties.subject, properties.to
    if message_id is None or properties.reply_to != REPLY_ADDRESS:
        raise SectionError(f"a request has a message-id, and the reply-to {REPLY_ADDRESS!r}")
    if method is None or path is None:
        raise SectionError("a request has its method in subject, and its path in to")
    return ManagementRequest(message_id, method, path, body)


def _parts(octets: bytes) -> tuple[Properties, AmqpValue]:
    """The properties and the body, null for none.

    RabbitMQ's client for Python, which writes a body of null in front of the properties, is understood.
    """
    properties: object = Properties()
    body: AmqpValue = None
    try:
        for code, begin, value_at, end in sections_in_any_order(octets):
            if code == SectionCode.PROPERTIES:
                properties = read_composite(octets, begin, end, COMPOSITES)[0]
            elif code == SectionCode.AMQP_VALUE:
                body = read_value(octets, value_at, end)[0]
            elif code in (SectionCode.DATA, SectionCode.AMQP_SEQUENCE):
                raise SectionError("the body of a request is one amqp-value")
    except SectionError:
        raise
    except (WireError, IndexError, StructError) as error:
        raise SectionError(str(error)) from None
    assert isinstance(properties, Properties)
    return properties, body


def response(message_id: MessageId, status: int, body: AmqpValue) -> bytes:
    """The message with the response to the request of this message-id."""
    properties = Properties(correlation_id=message_id, subject=str(status))
    sections = ((SectionCode.APPLICATION_PROPERTIES, _RESPONSE), (SectionCode.AMQP_VALUE, body))
    return properties.encode() + b"".join(encode_amqp(Described(ULong(code), one)) for code, one in sections)
