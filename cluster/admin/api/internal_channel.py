"""A session without a connection: the management API's commands to queues, in the name of its user.

Rights, limits and refusals are those of any client. One request at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from cluster.admin.api.decision_timeout import in_time
from cluster.admin.api.errors import ApiError, bad_request
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.browsing import Bookmark, Shown
from node.delivery.settlements import Outcome
from node.message.bookmarks import bookmark_of
from node.message.run import Run
from node.ranges.range_set import Numbers
from node.refusal import Refusal
from node.session.access_checks import AccessChecks
from node.session.command_limits import CommandLimitError, check_command
from node.session.commands import Command, FindQueue, Get, Result
from node.session.consumers import nothing
from node.session.core import SessionCore
from node.session.filter_arguments import entitled
from node.session.permissions import Right
from node.session.ports import Got, Identity, QueueRef
from node.session.publishing_session import none_in_use
from node.session.transaction_runs import HeldRun

CHANNEL: Final = 1


class InternalChannel:
    """Implements `node.session.core.PublishingSession`."""

    channel_count = 1

    def __init__(self, port: FrontEnd, identity: Identity, vhost: str) -> None:
        """Raises EntryRefusedError."""
        self._core = SessionCore(port, self, none_in_use)
        self._core.enter(identity, vhost)
        self._port = port
        self._access = AccessChecks(port)
        self._answer: asyncio.Future[Any] | None = None
        self._held: list[Got] = []
        self._unconfirmed: set[int] = set()
        self._rejected: set[int] = set()
        self._returned = False

    def close(self) -> None:
        """Return unsettled messages to their queue, those that still arrive included."""
        held, self._held = self._held, []
        self._core.end([(got.lease, [(got.sequence, got.sequence)]) for got in held], nothing)

    # -- requests -------------------------------------------------------------------------------

    async def call(self, command: Command) -> Result:
        """Carry out a command; returns its result. Raises Refusal and ApiError."""
        command = checked(command)
        result: Result = await self._answered(lambda: self._core.carry_out(CHANNEL, command, self._take))
        return result

    def _take(self, result: Result | Refusal) -> None:
        if isinstance(result, Refusal):
            self._refuse(result)
        else:
            self._set(result)

    async def get(self, queue: str, settled: bool) -> Got | None:
        """One message, held until it is settled unless `settled`. Raises Refusal and ApiError."""
        command = checked(Get(queue, settled))

        def answered(result: Result | Refusal) -> None:
            if isinstance(result, Got) and not settled:
                # Not later: the request may have stopped waiting.
                self._held.append(result)
            self._take(result)

        result = await self._answered(lambda: self._core.carry_out(CHANNEL, command, answered))
        return result if isinstance(result, Got) else None

    def writable(self, queue: str) -> tuple[QueueRef, bytes]:
        """A queue that the user may write, and the condition of messages that the user may publish; empty for
        all messages. Raises Refusal.
        """
        self._port.permissions.check_queue(self._core.scope, Right.WRITE, queue)
        return self._queue(queue), self._port.permissions.write_filter(self._core.scope)

    def readable(self, queue: str) -> bytes:
        """The condition of messages of a queue that the user may read; empty for all messages. Raises
        Refusal.
        """
        self._port.permissions.check_queue(self._core.scope, Right.READ, queue)
        return self._port.permissions.read_filter(self._core.scope)

    def taking(self, queue: str) -> tuple[QueueRef, bytes]:
        """A queue that the user may read, and the condition as in `readable`. Raises Refusal."""
        readable = self.readable(queue)
        return self._queue(queue), readable

    def bookmark(self, queue: str, number: int) -> str:
        """The bookmark of a message of the queue. Raises Refusal."""
        return bookmark_of(self._queue(queue).id, number)

    def _queue(self, name: str) -> QueueRef:
        return self._port.queue(self._core.vhost, name, self._core.holder)

    async def look(
        self, queue: str, behind: Bookmark, wanted: int, filter: bytes = b""
    ) -> tuple[int, list[Shown]]:
        """The number of ready messages of a queue, and up to `wanted` behind a bookmark, those that a filter
        takes; all stay ready.

        Raises Refusal and ApiError.
        """
        self._access.check(self._core.scope, self._core.holder, checked(Get(queue)))
        ref = self._queue(queue)

        def looked(ready: int, shown: list[Shown], refusal: Refusal | None) -> None:
            if refusal is None:
                self._set((ready, shown))
            else:
                self._refuse(refusal)

        readable = self._port.permissions.read_filter(self._core.scope)
        taking = entitled(ref, filter, readable)
        ready, shown = await self._answered(lambda: self._port.browse(ref, behind, wanted, taking, looked))
        # The user may not know how many other messages there are.
        return len(shown) if readable else ready, shown

    def check_configurable(self, queue: str) -> None:
        """Raises AccessRefusedError where the user may not configure the queue."""
        self._port.permissions.check_queue(self._core.scope, Right.CONFIGURE, queue)

    async def settle_all(self, queue: str, *, requeue: bool) -> None:
        """Give back all messages of the queue that are held, or reject them for good. Returns when the queue
        has them again, or no more. Raises Refusal and ApiError.
        """
        held, self._held = self._held, []
        outcome = Outcome.RETURNED if requeue else Outcome.REJECTED
        for got in held:
            self._core.settle(got.lease, [(got.sequence, got.sequence)], outcome)
        if held:
            # The owner answers behind the settlements of this channel (0-9-1 §4.7).
            await self.call(FindQueue(queue))

    async def publish(self, run: Run) -> bool:
        """Publish one message, and wait until it is safe; whether a queue took it.

        Raises Refusal, and ApiError when the cluster does not take it.
        """
        self._returned = False
        self._await_confirms(1)
        await self._answered(lambda: self._core.publish(CHANNEL, run, True, 1))
        if self._rejected:
            raise bad_request("the message was not taken: its queue is full, or its node is down")
        return not self._returned

    def route(self, run: Run) -> list[HeldRun]:
        """The messages of a run in their order, as runs with routes, of which some may lead to no queue.
        Raises Refusal.
        """
        self._core.hold_publish(CHANNEL, run, True)
        return self._core.take_held(CHANNEL)

    def _await_confirms(self, count: int) -> None:
        self._rejected.clear()
        self._unconfirmed = set(range(1, count + 1))

    async def _answered(self, begin: Any) -> Any:
        self._answer = asyncio.get_running_loop().create_future()
        begin()
        return await in_time(self._answer)

    def _set(self, value: Any) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(value)

    def _refuse(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # -- calls of the broker (PublishingSession) -----------------------------------------------

    def confirm(self, channel: int, first: int, last: int) -> None:
        self._unconfirmed.difference_update(range(first, last + 1))
        if not self._unconfirmed:
            self._set(None)

    def reject(self, channel: int, first: int, last: int) -> None:
        self._rejected.update(range(first, last + 1))
        self.confirm(channel, first, last)

    def return_unroutable(self, channel: int, run: Run) -> None:
        self._returned = True

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        self._refuse(refusal)

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        self._refuse(refusal)

    def hold(self, channel: int) -> None:
        """See `unblocked`."""

    def force_close(self, reason: str) -> None:
        self._refuse(ApiError(404, "not_found", reason))

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        """This channel never consumes."""

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        """This channel never consumes."""

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        """This channel never consumes."""

    def unblocked(self) -> None:
        """Each request publishes little at a time, and waits for its own confirms only."""


@asynccontextmanager
async def internal_channel(port: FrontEnd, identity: Identity, vhost: str) -> AsyncIterator[InternalChannel]:
    """A channel for one request. Raises EntryRefusedError, and ApiError while the node has no lease."""
    if not port.ready():
        raise ApiError(503, "service_unavailable", "this node has no contact with a majority of the nodes")
    channel = InternalChannel(port, identity, vhost)
    try:
        yield channel
    finally:
        channel.close()


def checked(command: Command) -> Command:
    """The command, whose names and arguments are within their limits. Raises ApiError."""
    try:
        check_command(command)
    except CommandLimitError as error:
        raise bad_request(str(error)) from None
    return command
