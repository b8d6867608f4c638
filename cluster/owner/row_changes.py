"""Compares the rows of one reading of a view with those that a stream has told, in bounded steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.owner.context import Feeding
from node.message.json_text import to_json
from node.queue.told_rows import row_digest
from node.session.view_port import UNKNOWN_VERSION, ViewRows, ViewVersion

COMPARED_AT_ONCE: Final = 256
"""Rows of the view that a step looks at."""

OCTETS_TOLD_AT_ONCE: Final = 256 << 10
"""About so many octets of changes come of a step."""

ChangedRows = dict[bytes, bytes | None]
"""JSON texts of changed rows by those of their keys; None for a row that has gone."""


class RowChanges:
    """The comparison of one reading with the rows that a stream has told."""

    __slots__ = ("_found", "_gone", "_index", "_seen")

    def __init__(self, found: ViewRows) -> None:
        self._found, self._index = found, 0
        self._seen = set[bytes]()
        self._gone: list[bytes] | None = None
        """The keys of told rows that are not looked at yet; None until all rows of the view are."""

    @property
    def done(self) -> bool:
        """Whether all rows are compared."""
        return self._gone is not None and not self._gone

    def step(self, told: Mapping[bytes, int]) -> ChangedRows:
        """The next changes, of a few rows; there may be none. `told` has the digests of told rows by their
        keys, and all changes that earlier steps have returned.
        """
        changes = ChangedRows()
        if self._index < len(self._found.rows):
            self._look(told, changes)
            return changes
        if self._gone is None:
            self._gone = [key for key in told if key not in self._seen]
        for key in self._gone[-COMPARED_AT_ONCE:]:
            changes[key] = None
        del self._gone[-COMPARED_AT_ONCE:]
        return changes

    def _look(self, told: Mapping[bytes, int], changes: ChangedRows) -> None:
        found, octets = self._found, 0
        upto = min(self._index + COMPARED_AT_ONCE, len(found.rows))
        while self._index < upto and octets < OCTETS_TOLD_AT_ONCE:
            key = to_json(found.keys[self._index]).encode()
            row = to_json(dict(zip(found.fields, found.rows[self._index], strict=True))).encode()
            self._index += 1
            self._seen.add(key)
            if told.get(key) != row_digest(row):
                changes[key] = row
                octets += len(key) + len(row)
            else:
                # Another page may have had the row before, as it was then.
                changes.pop(key, None)


class FedStream:
    """The view that feeds a stream, as the owner of the stream knows it. Soft state.

    `version` is that of the last answer. `changes` is the comparison under way; None for none. `asking`: a
    question for rows is not answered. `logging`: the entry with the last changes is not applied yet. No
    question is asked before `resume_at`, in seconds of the owner's clock. `whole_in` is the term of the
    view's owner whose rows have lacked nothing. `withheld`: the last rows were those of another one, and lack
    something. `feeding` was told last.
    """

    __slots__ = ("asking", "changes", "feeding", "logging", "resume_at", "version", "whole_in", "withheld")

    def __init__(self) -> None:
        self.version: ViewVersion = UNKNOWN_VERSION
        self.changes: RowChanges | None = None
        self.asking = self.logging = self.withheld = False
        self.resume_at, self.whole_in, self.feeding = 0.0, 0, Feeding.FED
