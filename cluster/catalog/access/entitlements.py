"""Which messages users may get and publish by what is in them: the filters of their permissions.

A node parses the filters when the catalog has changed. Where no user has a filter, that
costs a look at two empty tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cluster.catalog.access.state import AccessState
from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.filtering import Looking
from node.ranges.range_set import Range, RangeSet
from node.session.permissions import Scope

FILTER_FIELDS: Final = ("read_filter", "write_filter")

UNCHANGED: Final[Mapping[str, str]] = {}

NOT_READ: Final = (
    "a node of the cluster runs a release without filters in permissions; upgrade all nodes first"
)

TAKES_NOTHING: Final = "FALSE"
"""The condition that stands for one that this release does not read."""


class Entitlements:
    """The filters of a node's catalog. A token's rights have none: they count in the catalog's place."""

    def __init__(self, state: AccessState, read_everywhere: Callable[[], bool]) -> None:
        """`read_everywhere`: whether every member reads filters in permissions."""
        self._state = state
        self.read_everywhere = read_everywhere
        self._version = -1
        self._reading: dict[tuple[str, str], bytes] = {}
        self._writing: dict[tuple[str, str], Looking] = {}

    def mistake_in(self, filters: Mapping[str, str]) -> str | None:
        """Why the filters cannot be set, with the column where a text is wrong; None where they can."""
        for name, text in filters.items():
            if not text:
                continue
            if not self.read_everywhere():
                return f"{name}: {NOT_READ}"
            try:
                encoded_condition(text)
            except ExpressionError as error:
                return f"{name}: {error}"
        return None

    def read_filter(self, scope: Scope) -> bytes:
        """See `node.session.permissions.Permissions`."""
        if self._version != self._state.version:
            self._read_all()
        if not self._reading or scope.rights is not None:
            return b""
        return self._reading.get((scope.vhost, scope.user), b"")

    def write_filter(self, scope: Scope) -> bytes:
        """See `node.session.permissions.Permissions`."""
        one = self._state.permissions.get((scope.vhost, scope.user))
        return _octets(one.write_filter) if one and one.write_filter and scope.rights is None else b""

    def kept_out(self, scope: Scope, run: Run) -> list[Range]:
        """See `node.session.permissions.Permissions`."""
        if self._version != self._state.version:
            self._read_all()
        if not self._writing or scope.rights is not None:
            return []
        looking = self._writing.get((scope.vhost, scope.user))
        if looking is None:
            return []
        matching, _ = looking.look(0, run)
        return list(RangeSet([(0, run.count - 1)]).without(matching).ranges())

    def _read_all(self) -> None:
        self._version = self._state.version
        permissions = self._state.permissions.items()
        self._reading = {key: _octets(one.read_filter) for key, one in permissions if one.read_filter}
        self._writing = {
            key: Looking(Selector(_octets(one.write_filter))) for key, one in permissions if one.write_filter
        }


def _octets(text: str) -> bytes:
    """The octets of a condition that was right when it was set."""
    try:
        return encoded_condition(text)
    except ExpressionError:
        return encoded_condition(TAKES_NOTHING)
