"""A channel without a connection: what the management API does to queues, as AMQP methods of its user.

So rights, limits and refusals are those of any AMQP client. One request at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from cluster.admin.api.decision_timeout import in_time
from cluster.admin.api.errors import ApiError, bad_request
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.browsing import Bookmark, Shown
from node.message.content import headers_in, properties_in
from node.message.rewriting import with_properties
from node.message.run import Run
from node.message.sender_selected import may_have_copies, read_copies, without_blind_copies
from node.ranges.numbers import Numbers
from node.refusal import Refusal
from node.session.amqp091.access_checks import AccessChecks
from node.session.amqp091.requests import Caller, Requests
from node.session.ports import Got, Outcome, Route, Settlement
from node.wire.amqp091 import methods
from node.wire.amqp091.codec import FRAME, decode_method, encode_method
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.primitives import Method

CHANNEL: Final = 1


class InternalChannel:
    """Implements `node.session.amqp091.requests.Answers` and `node.session.ports.Subscriber`."""

    channel_count = 1

    def __init__(self, port: FrontEnd, user: str, vhost: str) -> None:
        """Raises EntryRefusedError."""
        entry = port.enter(self, user, vhost)
        self._port = port
        self._scope = entry.scope
        self._caller = Caller(CHANNEL, entry.scope, entry.holder, self)
        self._requests = Requests(port, self)
        self._access = AccessChecks(port)
        self._answer: asyncio.Future[Any] | None = None
        self._held: list[Got] = []
        self._keeping = self._closed = False
        self._unconfirmed: set[int] = set()
        self._rejected: set[int] = set()

    def close(self) -> None:
        """What was got and not settled goes back, and so does what is still to come."""
        self._closed = True
        for got in self._held:
            self._port.give_back(got.consumer, [(got.sequence, got.sequence)], True)
        self._held.clear()
        self._port.release_holder(self._caller.holder, _nothing)

    # -- requests -------------------------------------------------------------------------------

    async def call(self, method: Method) -> Any:
        """Carry out a method; returns its answer. Raises Refusal and ApiError."""
        return await self._answered(lambda: self._requests.carry_out(self._caller, checked(method)))

    async def get(self, queue: str, no_ack: bool) -> Got | None:
        """One message, held until it is settled unless `no_ack`. Raises Refusal and ApiError."""
        self._keeping = not no_ack
        got: Got | None = await self.call(methods.BasicGet(queue, no_ack=no_ack))
        return got

    def _hold(self, got: Got) -> None:
        """Not later: whoever asked may have stopped waiting."""
        if self._closed:
            self._port.give_back(got.consumer, [(got.sequence, got.sequence)], False)
        else:
            self._held.append(got)

    async def look(self, queue: str, behind: Bookmark, wanted: int) -> tuple[int, list[Shown]]:
        """How many messages of a queue are ready, and some of them behind a bookmark; all stay as they are.

        Raises Refusal and ApiError.
        """
        self._access.check(self._scope, self._caller.holder, checked(methods.BasicGet(queue)))
        ref = self._port.queue(self._caller.vhost, queue, self._caller.holder)

        def looked(ready: int, shown: list[Shown], refusal: Refusal | None) -> None:
            if refusal is None:
                self._set((ready, shown))
            else:
                self._refuse(refusal)

        ready, shown = await self._answered(lambda: self._port.browse(ref, behind, wanted, looked))
        return ready, shown

    async def get_more(self, queue: str, count: int) -> list[Got]:
        """Up to so many messages at once, held, of a queue that `get` has checked the rights for.

        Raises Refusal and ApiError.
        """
        ref = self._port.queue(self._caller.vhost, queue, self._caller.holder)
        found: list[Got] = []
        left = count

        def answered(got: Got | None, refusal: Refusal | None) -> None:
            nonlocal left
            left -= 1
            if got is not None:
                found.append(got)
                self._hold(got)
            if refusal is not None:
                self._refuse(refusal)
            elif not left:
                self._set(found)

        def begin() -> None:
            for _ in range(count):
                self._port.get(ref, False, answered)

        return found if not count else list(await self._answered(begin))

    def settle_all(self, *, requeue: bool) -> None:
        """Give back all that is held, or reject it for good."""
        held, self._held = self._held, []
        for got in held:
            if requeue:
                self._port.give_back(got.consumer, [(got.sequence, got.sequence)], True)
            else:
                self._port.discard(got.consumer, [(got.sequence, got.sequence)])

    def keeps_until_settled(self, queue: str) -> bool:
        """Whether the queue still has what it gave out. Raises NotFoundError and ResourceLockedError."""
        ref = self._port.queue(self._caller.vhost, queue, self._caller.holder)
        return self._port.keeps_until_settled(ref)

    async def remove(self, got: Sequence[Got]) -> None:
        """Settle what was got, and wait until that is durable. Raises Refusal and ApiError."""
        removed = {(one.consumer, one.sequence) for one in got}
        self._held = [one for one in self._held if (one.consumer, one.sequence) not in removed]
        settled = [Settlement(one.consumer, [(one.sequence, one.sequence)], Outcome.ACCEPTED) for one in got]

        def done(refusal: Refusal | None) -> None:
            if refusal is None:
                self._set(None)
            else:
                self._refuse(refusal)

        await self._answered(lambda: self._port.commit([], settled, done))

    def route(self, run: Run, copies: Sequence[str] = ()) -> Route:
        """Where a run goes, also by further keys; false for nowhere. Raises NotFoundError and
        AccessRefusedError.
        """
        headers = None
        if self._port.needs_headers(self._scope, run.exchange):
            ((_, _, headers),) = headers_in(run)
        return self._port.route(self._scope, run.exchange, run.routing_key, headers, copies)

    async def publish(self, run: Run) -> bool:
        """Publish one message, and wait until it is safe; whether a queue took it.

        Raises Refusal, and ApiError when the cluster does not take it.
        """
        copies: Sequence[str] = ()
        if may_have_copies(run):
            ((_, _, properties),) = properties_in(run)
            copies = read_copies(properties).keys
            run = with_properties(run, without_blind_copies)
        route = self.route(run, copies)
        if not route:
            route.flow.published += 1
            return False
        if await self.publish_all([(run, route)]):
            raise bad_request("the message was not taken: its queue is full, or its node is down")
        return True

    async def publish_all(self, runs: Sequence[tuple[Run, Route]]) -> set[int]:
        """Publish runs of one message each along routes that lead somewhere; the places of those not taken.

        Returns once each is safe or rejected. Raises ApiError when that takes too long: some may be safe.
        """
        self._rejected.clear()
        self._unconfirmed = set(range(1, len(runs) + 1))

        def begin() -> None:
            for tag, (run, route) in enumerate(runs, 1):
                route.flow.published += 1
                self._port.publish(self, CHANNEL, run, route, tag)

        if runs:
            await self._answered(begin)
        return {tag - 1 for tag in self._rejected}

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

    # -- answers --------------------------------------------------------------------------------

    def reply(self, channel: int, method: Method) -> None:
        self._set(method)

    def fail(self, channel: int, error: Refusal) -> None:
        self._refuse(error)

    def deliver_get(self, channel: int, got: Got) -> None:
        if self._keeping:
            self._hold(got)
        self._set(got)

    def get_empty(self, channel: int) -> None:
        self._set(None)

    def consume_ok(self, channel: int, tag: str, consumer: int, returnable: bool, reply_to: str) -> None:
        """This channel never consumes."""

    # -- what the broker says (Subscriber) ------------------------------------------------------

    def confirm(self, channel: int, first: int, last: int) -> None:
        self._unconfirmed.difference_update(range(first, last + 1))
        if not self._unconfirmed:
            self._set(None)

    def reject(self, channel: int, first: int, last: int) -> None:
        self._rejected.update(range(first, last + 1))
        self.confirm(channel, first, last)

    def force_close(self, reason: str) -> None:
        self._refuse(ApiError(404, "not_found", reason))

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        """This channel never consumes."""

    def consumer_cancelled(self, consumer: int) -> None:
        """This channel never consumes."""

    def unblocked(self) -> None:
        """What is published at a time is little, and waits for its own confirmation only."""


@asynccontextmanager
async def internal_channel(port: FrontEnd, user: str, vhost: str) -> AsyncIterator[InternalChannel]:
    """A channel for as long as it is needed. Raises EntryRefusedError, and ApiError while nothing is sure."""
    if not port.ready():
        raise ApiError(503, "service_unavailable", "this node has no contact with a majority of the nodes")
    channel = InternalChannel(port, user, vhost)
    try:
        yield channel
    finally:
        channel.close()


def checked(method: Method) -> Method:
    """The method as it would come over the wire, where names and tables have their limits.

    Raises ApiError.
    """
    try:
        return decode_method(encode_method(CHANNEL, method)[FRAME.size : -1])
    except (ValueError, TypeError, ProtocolException) as error:
        raise bad_request(str(error)) from None


def _nothing() -> None:
    """Nobody waits for that."""
