"""A stream that a view feeds: its log has each change of a row once, and in the end all rows (D15)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from node.queue.dispatch import QueueOwner
from node.wire.formats import format_of
from tests.inside import state_of
from tests.simulation.scripts import Steps
from tests.simulation.trials.prover import Prover

if TYPE_CHECKING:
    from tests.simulation.trials.summing import Summing

TRIES: Final = 400
"""The stream has the rows of its view within so many pauses, once nothing changes any more."""

Rows = dict[str, dict[str, Any]]
"""Rows by the texts of their keys."""


class RowStream:
    """The stream of a trial's view, and a queue over it."""

    def __init__(self, summing: Summing) -> None:
        self.trial, self._summing = summing.trial, summing
        self.name, self.over = f"{summing.trial.name} told", f"{summing.trial.name} over"

    def declare(self, prover: Prover) -> Steps:
        """The stream, and a queue that has all of it."""
        yield self.trial.queue(prover, " told", queue_type="stream", view=self._summing.view)
        yield self.trial.queue(prover, " over", underlying_topic=self.name, recovery_point="epoch")

    def last(self) -> Rows | None:
        """The rows that the log of the stream's owner tells, whose changes are checked; None where no node is
        the owner.
        """
        for node in self.trial.nodes.ready_nodes():
            state = node.broker.catalog.state
            stream, over = (state.queues.get(("/", name)) for name in (self.name, self.over))
            owner = None if stream is None else node.broker.owners.get(stream.partition)
            if stream is None or over is None or owner is None or not owner.active:
                continue
            queues = state_of(owner).queues
            if stream.id in queues and over.id in queues:
                copied = list(queues[over.id].delivery.state.alive.ranges())
                whole = list(queues[stream.id].delivery.state.alive.ranges())
                self.trial.expect(copied == whole, f"the queue over the stream has {copied}, not {whole}")
                return self._followed(node.name, queues[stream.id])
        return None

    def _followed(self, node: str, queue: QueueOwner) -> Rows:
        rows, told = Rows(), queue.delivery.state.rows
        for key, row in _changes(queue):
            self.trial.expect(rows.get(key) != row, f"the stream at {node} tells {key} {row} again")
            if row is None:
                del rows[key]
            else:
                rows[key] = row
        known = sorted(str(json.loads(key)) for key in (told.digests if told else ()))
        self.trial.expect(sorted(rows) == known, f"the stream at {node} tells {sorted(rows)}, not {known}")
        return rows

    def until_it_has_the_rows(self) -> Steps:
        """Wait until the stream has the rows of its view."""
        last: Rows | None = None
        for _ in range(TRIES):
            yield from self._summing.read()
            last = self.last()
            if self._summing.rows is not None and last == self._summing.told:
                return
            yield from self.trial.pause()
        self.trial.expect(False, f"the stream has {last}, and the view {self._summing.told}")


def _changes(queue: QueueOwner) -> list[tuple[str, dict[str, Any] | None]]:
    """The key and the row of each message of a stream."""
    found = list[tuple[str, dict[str, Any] | None]]()
    for first, last in queue.delivery.state.alive.ranges():
        while first <= last:
            for start, run in queue.read_messages(first, last):
                for index in range(run.count):
                    one = run.slice(index, 1)
                    properties, body = format_of(one).contents(one)
                    key, row = json.loads(properties["headers"]["view_key"]), json.loads(body)
                    found.append((str(key), row))
                first = start + run.count
    return found
