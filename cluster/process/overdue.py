"""Log events of the data pipeline's work that has come to its end without the jobs."""

from __future__ import annotations

from cluster.log.event_log import EventLog
from cluster.owner.context import OverdueEpoch, OverdueTake, OvertakenReader
from cluster.owner.lost_entries import QueueName


class OverdueLog:
    """Tells of epochs that are dropped, takes that end by their time, and readers that retention passes."""

    def __init__(self, log: EventLog, queue_name: QueueName) -> None:
        self.log = log
        self._queue_name = queue_name

    def _name(self, queue: int) -> tuple[str, str]:
        return self._queue_name(queue) or ("", str(queue))

    def epoch(self, epoch: OverdueEpoch) -> None:
        """The branches of an epoch are dropped."""
        vhost, ledger = self._name(epoch.queue)
        told = {"vhost": vhost, "ledger": ledger}
        self.log.warning("epoch_overdue", **told, epoch=epoch.epoch, branches=epoch.branches)

    def take(self, overdue: OverdueTake) -> None:
        """The takes of a reader have ended by their time."""
        vhost, queue = self._name(overdue.queue)
        told = {"vhost": vhost, "queue": queue, "reader": overdue.reader.decode("utf-8", "replace")}
        self.log.warning("take_overdue", **told, takes=overdue.takes, messages=overdue.messages)

    def reader(self, reader: OvertakenReader) -> None:
        """Retention has passed a reader."""
        vhost, stream = self._name(reader.queue)
        name = reader.name.decode("utf-8", "replace")
        self.log.warning("reader_overtaken", vhost=vhost, stream=stream, reader=name, lost=reader.lost)
