"""Writes epochs of a sink over the log API (docs/log-api.md, "Epochs"): tasks stage branches, and one commit
makes all of them visible.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from pipeline.log.nodes import LogApiError, NodesClient
from pipeline.log.posting import FIRST_OCTETS, BlockBuilder, place_of
from pipeline.message.encoding import UnfitError

FAIL, DROP = "fail", "drop"
"""The fate of a message that no queue takes: the epoch fails, or the sink counts the message."""

COMMITTED: Final = "committed"


class RowError(Exception):
    """A row cannot be written. The epoch fails."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row} of the task: {reason}")
        self.row, self.reason = row, reason


class Staged(NamedTuple):
    """The branches that a task has staged, 0 to `branches` - 1. `unroutable` rows were dropped."""

    task: int
    attempt: int
    branches: int
    rows: int
    unroutable: int


class SinkClient(NodesClient):
    """A client of one sink. Every request may be repeated. Methods raise LogApiError and NoNodeError."""

    rounds = 9
    timeout_s = 60.0
    passing = frozenset((502, 503, 504))

    def make(self, vhost: str, sink: str) -> None:
        """Make the sink's ledger, if it is not there."""
        self.json("PUT", _path(vhost, sink))

    def stage(
        self, vhost: str, sink: str, epoch: int, name: Sequence[int], block: bytes, unroutable: str
    ) -> Mapping[str, Any]:
        """Stage a branch: (task, attempt, number)."""
        where = f"epochs/{epoch}/branches/{'/'.join(map(str, name))}?unroutable={unroutable}"
        found: Mapping[str, Any] = self.json("POST", f"{_path(vhost, sink)}/{where}", block)
        return found

    def commit(self, vhost: str, sink: str, epoch: int, staged: Sequence[Staged]) -> None:
        """Make what was staged visible as one, and drop all else of the epoch."""
        self._commit(vhost, sink, epoch, {"branches": _rows(staged)})

    def commit_after(
        self, vhost: str, sink: str, epoch: int, staged: Sequence[Staged], after: int | None
    ) -> None:
        """As `commit`, where the last committed epoch is `after`, None for none. Raises LogApiError with the
        error `overtaken` elsewhere.
        """
        self._commit(vhost, sink, epoch, {"branches": _rows(staged), "after": after})

    def _commit(self, vhost: str, sink: str, epoch: int, asked: Mapping[str, Any]) -> None:
        self.json("POST", f"{_path(vhost, sink)}/epochs/{epoch}/commit", json.dumps(asked).encode())

    def abort(self, vhost: str, sink: str, epoch: int) -> str:
        """Drop an epoch. Returns `committed` for one that is committed, which is not touched."""
        told: Mapping[str, str] = self.json("POST", f"{_path(vhost, sink)}/epochs/{epoch}/abort")
        return told["state"]

    def show(self, vhost: str, sink: str) -> Mapping[str, Any]:
        """The ledger."""
        found: Mapping[str, Any] = self.json("GET", _path(vhost, sink))
        return found

    def forget(self, vhost: str, sink: str) -> None:
        """Delete the ledger of a sink that writes no epoch any more."""
        try:
            self.json("DELETE", _path(vhost, sink))
        except LogApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def _rows(staged: Sequence[Staged]) -> list[list[int]]:
    return [[one.task, one.attempt, one.branches] for one in staged if one.branches]


def _path(vhost: str, sink: str) -> str:
    return "/api/sinks/" + "/".join(quote(one, safe="") for one in (vhost, sink))


class SinkPlace(NamedTuple):
    """Where tasks stage, and how: in blocks of so many octets."""

    vhost: str
    sink: str
    epoch: int
    unroutable: str
    block_octets: int


class BranchWriter:
    """Writes the rows of one attempt at one task. No other attempt has the number `attempt`: attempts of
    another run of the same job, whose rows may come in another order, included.
    """

    def __init__(self, client: SinkClient, place: SinkPlace, task: int, attempt: int) -> None:
        self._client, self._place = client, place
        self._task, self._attempt = task, attempt
        self._builder = BlockBuilder(place.block_octets)
        self._branches = self._rows = self._unroutable = 0
        self.committed = False
        """Whether the epoch is committed already: then nothing more is staged."""

    def write(self, exchange: str, routing_key: str, raw: bytes) -> None:
        """Write a row. Raises RowError, and as the client."""
        try:
            place = place_of(exchange, routing_key, raw)
            if not self._builder.takes(place, raw):
                self._stage()
                self._builder.takes(place, raw)
        except UnfitError as error:
            raise RowError(self._rows + self._builder.rows, str(error)) from None
        self._builder.add(place, raw)

    def write_alike(self, exchange: str, routing_key: str, raws: memoryview, lengths: array[int]) -> None:
        """Write rows of these lengths, end to end in `raws`, with one target, one format and one channel
        number. Raises as `write`.
        """
        ends, index = [0, *accumulate(lengths)], 0
        while index < len(lengths):
            try:
                place = place_of(exchange, routing_key, bytes(raws[:FIRST_OCTETS]))
                count = self._builder.room_for(place, ends, index)
            except UnfitError as error:
                raise RowError(self.row, str(error)) from None
            if count:
                behind = index + count
                self._builder.add_alike(place, raws[ends[index] : ends[behind]], lengths[index:behind])
                index = behind
            else:
                self._stage()

    @property
    def row(self) -> int:
        """The number of the next row."""
        return self._rows + self._builder.rows

    def finish(self) -> Staged:
        """Stage what is left. Raises RowError, and as the client."""
        if self._builder.rows:
            self._stage()
        return Staged(self._task, self._attempt, self._branches, self._rows, self._unroutable)

    def _stage(self) -> None:
        rows, block = self._builder.rows, self._builder.take()
        if not self.committed:
            told = self._post(block)
            self.committed = told["state"] == COMMITTED
            self._unroutable += told["unroutable"]
            self._branches += 1
        self._rows += rows

    def _post(self, block: bytes) -> Mapping[str, Any]:
        vhost, sink, epoch, unroutable, _ = self._place
        name = self._task, self._attempt, self._branches
        try:
            return self._client.stage(vhost, sink, epoch, name, block, unroutable)
        except LogApiError as error:
            row = error.facts.get("row")
            if error.status != HTTPStatus.BAD_REQUEST or not isinstance(row, int):
                raise
            raise RowError(self._rows + row, str(error.facts.get("reason", error))) from None
