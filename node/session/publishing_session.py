"""A protocol's session, as `SessionCore` and the broker call it about publishes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from node.message.run import Run
from node.ranges.range_set import Numbers
from node.refusal import Refusal
from node.session.subscriber import Subscriber


class PublishingSession(Subscriber, Protocol):
    """A protocol's session, as `SessionCore` and the broker call it about publishes.

    A channel orders publishes: the broker keeps the order of the publishes on one channel.
    """

    def hold(self, channel: int) -> None:
        """A link is full: the session publishes nothing more of the channel before `unblocked` is called."""

    def return_unroutable(self, channel: int, run: Run) -> None:
        """No queue takes these mandatory messages. Called before they are confirmed."""

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        """The run is not published: the exchange does not exist, or the user may not publish to it."""

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        """The batch of commands in this publish is refused, and has changed nothing."""


class GoneSession:
    """Stands for the session of a client that has left: ignores every call."""

    channel_count = 0

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None: ...
    def confirm(self, channel: int, first: int, last: int) -> None: ...
    def reject(self, channel: int, first: int, last: int) -> None: ...
    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None: ...
    def backlog_changed(self, consumer: int, backlog: int) -> None: ...
    def unblocked(self) -> None: ...
    def force_close(self, reason: str) -> None: ...
    def hold(self, channel: int) -> None: ...
    def return_unroutable(self, channel: int, run: Run) -> None: ...
    def publish_refused(self, channel: int, refusal: Refusal) -> None: ...
    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None: ...


ENDED_SESSION: Final = GoneSession()


def none_in_use(_: int) -> Collection[int]:
    """For a client that has left, which has no consumers."""
    return ()
