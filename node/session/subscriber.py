"""Sessions, as the broker calls them."""

from __future__ import annotations

from typing import Protocol

from node.message.run import Run
from node.ranges.range_set import Numbers


class Subscriber(Protocol):
    """A session, as the broker sees it. Its methods raise nothing: a defect ends the session."""

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        """Deliver the messages of a run, with their sequence numbers, to a consumer that has credit
        for them. The session settles them under the number `lease`
        (`node.delivery.settlements.TOKEN_SHIFT`).
        """

    def confirm(self, channel: int, first: int, last: int) -> None:
        """The publishes with the tags `first` to `last` of the channel are safe in their queues: a persistent
        message of a replicated queue is on the disks of a majority.
        """

    def reject(self, channel: int, first: int, last: int) -> None:
        """A queue has refused the publishes with the tags `first` to `last`, or may not have taken them."""

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        """The broker has ended the consumer: its queue is deleted or lost, or, if the consumer is `stolen`,
        its link has been attached elsewhere.
        """

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        """The consumer may have so many unsettled messages from now on (`node.delivery.backlog`)."""

    def unblocked(self) -> None:
        """The session may publish again, after a `publish` that returned False, or after `wait_ready`."""

    def force_close(self, reason: str) -> None:
        """Close the connection, with a reason for the client."""

    @property
    def channel_count(self) -> int: ...
