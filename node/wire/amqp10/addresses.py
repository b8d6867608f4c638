"""Addresses of nodes (part 2, section 2.6.11 leaves them to the broker): RabbitMQ 4's, and plain names.

    /queues/NAME               a queue; NAME is percent-encoded
    /exchanges/NAME/KEY        an exchange with a routing key; both are percent-encoded
    /exchanges/NAME            an exchange with the empty routing key
    /views/NAME                the rows of a view, as a source alone; NAME is percent-encoded
    NAME                       a queue; where there is none, an exchange with the empty routing key; where
                               there is none either, and NAME is a source, a view
    amqp://HOST/queues/NAME    as /queues/NAME, and so with /exchanges/ and /views/
    amqp://HOST/NAME           as NAME, which is percent-encoded

Where the target is null, each message has an address
in its property `to`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from node.wire.amqp10.errors import AddressError
from node.wire.amqp10.sections import properties_of, scan_sections

QUEUE_PATH: Final = "/queues/"
EXCHANGE_PATH: Final = "/exchanges/"
VIEW_PATH: Final = "/views/"
SCHEMES: Final = ("amqp://", "amqps://")


def destination_of(address: str | None) -> tuple[str, str]:
    """The exchange and the routing key that an address stands for; a queue is reached by its name through the
    default exchange. Raises AddressError.
    """
    if not address:
        raise AddressError("there is no address")
    path = _path(address)
    if path.startswith(QUEUE_PATH):
        name = _decoded(path[len(QUEUE_PATH) :], address)
        if not name or "/" in path[len(QUEUE_PATH) :]:
            raise AddressError(f"the address {address!r} names no queue")
        return "", name
    if path.startswith(EXCHANGE_PATH):
        exchange, _, key = path[len(EXCHANGE_PATH) :].partition("/")
        if not exchange or "/" in key:
            raise AddressError(f"the address {address!r} names no exchange, or more than one routing key")
        return _decoded(exchange, address), _decoded(key, address)
    if path.startswith(VIEW_PATH):
        raise AddressError(f"the address {address!r} names a view, to which nothing is sent")
    if path.startswith("/"):
        raise AddressError(f"the address {address!r} begins with none of /queues/ and /exchanges/")
    return "", path


def view_named(address: str) -> str:
    """The view that an address of the form /views/NAME names; empty for an address of another form. Raises
    AddressError.
    """
    path = _path(address)
    if not path.startswith(VIEW_PATH):
        return ""
    name = _decoded(path[len(VIEW_PATH) :], address)
    if not name or "/" in path[len(VIEW_PATH) :]:
        raise AddressError(f"the address {address!r} names no view")
    return name


def exchange_named(address: str) -> str:
    """The address of the exchange that a plain name names; empty for an address that is no plain name. Where
    there is a queue of that name, the name stands for the queue. Raises AddressError.
    """
    path = _path(address)
    return "" if not path or path.startswith("/") else EXCHANGE_PATH + quote(path, safe="")


def address_in(data: bytes, at: int, end: int) -> str | None:
    """The property `to` of the message from `at` to `end`; None without one. Raises SectionError."""
    return properties_of(data, scan_sections(data, at, end)).to


def _path(address: str) -> str:
    """The address without scheme and host. A path of /queues/, /exchanges/ or /views/ keeps its encoding."""
    for scheme in SCHEMES:
        if address.startswith(scheme):
            _, slash, path = address[len(scheme) :].partition("/")
            for whole in (slash + path, path):
                if whole.startswith((QUEUE_PATH, EXCHANGE_PATH, VIEW_PATH)):
                    return whole
            return _decoded(path, address)
    return address


def _decoded(text: str, address: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise AddressError(f"the address {address!r} is no percent-encoded UTF-8") from None
