"""Log events of owners: work of the data pipeline that has come to its end without the jobs, and the past of
queues.
"""

from __future__ import annotations

from cluster.log.event_log import EventLog
from cluster.owner.context import (
    FedByView,
    Feeding,
    OverdueEpoch,
    OverdueTake,
    OvertakenReader,
    PassedFeed,
    Past,
    PastNews,
)
from cluster.owner.lost_entries import QueueName
from node.message.bookmarks import bookmark_of


class OverdueLog:
    """Tells of epochs that are dropped, takes that end by their time, readers that retention passes, and the
    past that comes into queues.
    """

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

    def past(self, change: PastNews) -> None:
        """A queue has got another recovery point, or retention has passed messages that it was to have."""
        if isinstance(change, FedByView):
            self._fed(change)
            return
        if isinstance(change, PassedFeed):
            self._passed(change)
            return
        vhost, queue = self._name(change.queue)
        told = {"vhost": vhost, "queue": queue, "messages": change.messages}
        for name, number in (("had_from", change.first), ("oldest", change.oldest)):
            told[name] = bookmark_of(change.queue, number) if number else None
        if change.outcome is Past.REFILLED:
            self.log.info("queue_refilled", **told)
        else:
            self.log.info("queue_goes_on", **told, known=change.outcome is not Past.UNKNOWN)

    def _fed(self, change: FedByView) -> None:
        vhost, stream = self._name(change.stream)
        told = {"vhost": vhost, "stream": stream, "view": change.view}
        if change.feeding is Feeding.FED:
            self.log.info("stream_fed", **told)
        else:
            self.log.warning("stream_not_fed", **told, cause=change.feeding.name.lower())

    def _passed(self, feed: PassedFeed) -> None:
        vhost, stream = self._name(feed.stream)
        _, queue = self._name(feed.queue)
        oldest = bookmark_of(feed.stream, feed.oldest) if feed.oldest else None
        self.log.warning("past_passed", vhost=vhost, stream=stream, queue=queue, oldest=oldest)
