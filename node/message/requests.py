"""Requests to the broker as messages that are published, whatever their format."""

from __future__ import annotations

from typing import Any, NamedTuple


class RequestMessage(NamedTuple):
    """A request. `identity` is the id for the response's correlation-id, as the format has it; None for none.

    `place`: the exchange and the routing key to which the response goes; None for nowhere. `content`: octets,
    or `typed` values: a map or a list of maps, with values that field tables hold. `mistake`: why the content
    cannot be read; empty where it can.
    """

    identity: Any
    place: tuple[str, str] | None
    content: Any
    typed: bool = False
    mistake: str = ""
