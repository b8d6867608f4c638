"""Which function answers which path. Pure: paths in, operations out.

A path is matched as it came, before percent-decoding: names hold slashes as `%2F`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.errors import bad_request
from cluster.admin.api.services import Services

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


Handler = Callable[[Services, Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path.

    A `{vhost}` in the template must exist. The user must be able to see the virtual host for GET, and
    to use it for other methods.
    """

    method: str
    template: str
    audience: Audience
    handler: Handler


class Endpoints:
    """Collects the operations of a module: `@endpoints.on("GET", "/queues/{vhost}/{name}")`."""

    def __init__(self) -> None:
        self.operations: list[Endpoint] = []

    def on(
        self, method: str, template: str, audience: Audience = Audience.MANAGEMENT
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.operations.append(Endpoint(method, template, audience, handler))
            return handler

        return add


@dataclass(slots=True)
class _Place:
    """A segment of the templates: the segments that may follow, and the operations of a path ending here."""

    literal: dict[str, _Place] = field(default_factory=dict)
    named: dict[str, _Place] = field(default_factory=dict)
    operations: dict[str, Endpoint] = field(default_factory=dict)


class Router:
    """Finds the operations of a path; literal segments go before named ones."""

    def __init__(self, operations: Iterable[Endpoint]) -> None:
        self._root = _Place()
        for operation in operations:
            place = self._root
            for segment in operation.template.strip("/").split("/"):
                following = place.named if segment.startswith("{") else place.literal
                place = following.setdefault(segment.strip("{}"), _Place())
            place.operations[operation.method] = operation

    def find(self, path: str) -> tuple[Mapping[str, Endpoint], dict[str, str]] | None:
        """The operations by method, and the names in the path; None when there is no such path.

        `path` begins behind `/api`. Raises ApiError for escapes that are none, and for other octets
        than UTF-8.
        """
        segments = path.removeprefix("/").split("/")
        if len(segments) > 1 and not segments[-1]:
            segments.pop()
        found = _descend(self._root, [_decoded(segment) for segment in segments], 0, {})
        return None if found is None else (found[0].operations, found[1])


def _descend(
    place: _Place, segments: list[str], at: int, names: dict[str, str]
) -> tuple[_Place, dict[str, str]] | None:
    if at == len(segments):
        return (place, names) if place.operations else None
    segment = segments[at]
    if segment in place.literal:
        found = _descend(place.literal[segment], segments, at + 1, names)
        if found is not None:
            return found
    for name, following in place.named.items():
        found = _descend(following, segments, at + 1, {**names, name: segment})
        if found is not None:
            return found
    return None


def _decoded(segment: str) -> str:
    if _BROKEN_ESCAPE.search(segment):
        raise bad_request("a percent sign in a path must begin an escape")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise bad_request("a path must be UTF-8") from None
