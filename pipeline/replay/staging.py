"""Tasks of a replay, and its ledger, over the log API (docs/log-api.md, "Epochs")."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from pipeline.log.nodes import LogApiError
from pipeline.log.sink_options import SinkOptions, sink_client
from pipeline.log.sinks import BranchWriter, SinkClient, SinkPlace, Staged
from pipeline.replay.job import Counted, StageTask, Target
from pipeline.replay.selection import Selection
from pipeline.sources.message_log import MessageSource, Piece

_ATTEMPT_BITS: Final = 63
_NEEDED: Final = ("queue", "routing_key", "raw")


class SinkLedger:
    """The ledgers of sinks. Raises as SinkClient."""

    def __init__(self, options: SinkOptions) -> None:
        """Raises OptionError."""
        self._client: SinkClient = sink_client(options, os.environ)
        self._vhost = options.vhost

    def open(self, sink: str) -> int | None:
        """See `Ledger`. A run that was lost, and whose commit is still under way, finds nothing to commit."""
        self._client.make(self._vhost, sink)
        for one in self._client.show(self._vhost, sink)["epochs"]:
            self._client.abort(self._vhost, sink, one["epoch"])
        return self.committed(sink)

    def committed(self, sink: str) -> int | None:
        """See `Ledger`."""
        try:
            found: int | None = self._client.show(self._vhost, sink)["committed"]
        except LogApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return found

    def commit(self, sink: str, epoch: int, staged: Sequence[Staged], after: int | None) -> bool:
        """See `Ledger`."""
        try:
            self._client.commit_after(self._vhost, sink, epoch, staged, after)
        except LogApiError as error:
            if error.facts.get("error") != "overtaken":
                raise
            return False
        return True


class _Selected:
    """Reads the messages of pieces that are taken."""

    def __init__(self, source: MessageSource, selection: Selection) -> None:
        self._source, self._selection = source, selection

    def rows(self, piece: Piece) -> Iterator[tuple[str, str, bytes]]:
        """Queue, routing key and octets of each message."""
        columns = list(dict.fromkeys((*_NEEDED, *self._selection.columns)))
        for rows in self._source.read(piece, columns):
            queues, keys, raws = (rows[name] for name in _NEEDED)
            for place in self._selection.takes(rows, len(raws)):
                yield queues[place], keys[place], raws[place]


class StagesPiece(_Selected):
    """Stages the messages of pieces. Goes to executors, and has no password."""

    def __init__(
        self, source: MessageSource, selection: Selection, target: Target, options: SinkOptions
    ) -> None:
        super().__init__(source, selection)
        self._target, self._options = target, options

    def __call__(self, task: StageTask) -> Staged:
        """Stage a piece. Each attempt has a number of its own. Raises RowError, and as the source."""
        options = self._options
        place = SinkPlace(options.vhost, task.sink, task.epoch, options.unroutable, options.block_octets)
        client = sink_client(options, os.environ)
        writer = BranchWriter(client, place, task.number, secrets.randbits(_ATTEMPT_BITS))
        for queue, key, raw in self.rows(task.piece):
            writer.write(*self._target.place(queue, key), raw)
        return writer.finish()


class CountsPiece(_Selected):
    """Counts the messages of pieces."""

    def __call__(self, piece: Piece) -> Counted:
        """Count a piece. Raises as the source."""
        messages = octets = 0
        for _, _, raw in self.rows(piece):
            messages += 1
            octets += len(raw)
        return Counted(messages, octets)
