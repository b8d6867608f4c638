"""The part of a client's session that all protocols share.

A protocol's session makes one `SessionCore`, and gives it the client's logins, commands, runs of publishes,
settlements and credit. The broker calls the protocol's session itself (`PublishingSession`) with deliveries,
confirms and the like. An `EffectLoop` carries out what the machine of the protocol asks for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

from node.delivery.settlements import Outcome, Settlement
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Numbers, Range
from node.refusal import Refusal
from node.session.commands import Answered, Command, Consuming, Result
from node.session.consumers import Released, SessionConsumers
from node.session.logins import CertifiedLogin, Login
from node.session.permissions import NOWHERE
from node.session.ports import Authenticated, BrokerPort, Done, Got, Route, Subscriber
from node.session.requests import Caller, Requests
from node.session.traffic import Traffic
from node.wire.formats import format_of


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


class HeldRun(NamedTuple):
    """A run that a transaction will publish. `route` may lead to no queue."""

    run: Run
    route: Route
    mandatory: bool


class SessionCore:
    """See the module's docstring.

    `in_use` gives the numbers of a channel's consumers that have not ended, or that have unsettled
    deliveries. A protocol without channels uses one channel number.

    `SessionCore` holds the runs of a transaction until the commit, with their routes at the time of the
    publish. The protocol's machine holds the transaction's settlements until then.
    """

    def __init__(
        self, port: BrokerPort, session: PublishingSession, in_use: Callable[[int], Collection[int]]
    ) -> None:
        self.traffic = Traffic()
        self.scope, self.holder = NOWHERE, 0
        self.ended = False
        self._port = port
        self._session = session
        self._requests = Requests(port)
        self._held: dict[int, list[HeldRun]] = {}
        """The runs that the transaction of each channel will publish."""
        self._consumers = SessionConsumers(port, in_use)

    @property
    def vhost(self) -> str:
        """The virtual host of the session; empty before `enter`."""
        return self.scope.vhost

    # -- who and where --------------------------------------------------------------------------

    def log_in(self, login: Login, remote: str, answer: Authenticated) -> None:
        """Check the client's credentials; `remote` is its IP address. `answer` is called at once or in a
        later turn.
        """
        self._port.authenticate(login, remote, answer)

    def check_user(self, user: str, remote: str, answer: Authenticated) -> None:
        """Check whether a user who has logged in may still do so. `answer` as for `log_in`."""
        self._port.authenticate(CertifiedLogin(user), remote, answer)

    def enter(self, user: str, vhost: str) -> None:
        """Open the session in a virtual host. Raises EntryRefusedError."""
        entry = self._port.enter(self._session, user, vhost)
        self.scope, self.holder = entry.scope, entry.holder

    def channel_opened(self) -> None:
        """The client has opened a channel. Raises EntryRefusedError where the user has too many."""
        self._port.channel_opened(self.scope.user)

    # -- commands -------------------------------------------------------------------------------

    def carry_out(self, channel: int, command: Command, answered: Answered) -> None:
        """Carry out a command for a channel. `answered` is called once, at once or in a later turn.

        `answered` is not called after `end`: the core then ends a consumer that the command has started, and
        returns a message that it got.
        """
        caller = Caller(self.scope, self.holder, self._session)
        self._requests.carry_out(caller, command, partial(self._answer, channel, answered))

    def _answer(self, channel: int, answered: Answered, result: Result | Refusal) -> None:
        if self.ended:
            self._answered_too_late(result)
            return
        if isinstance(result, Consuming):
            self._consumers.started(channel, result.consumer)
        answered(result)

    def _answered_too_late(self, result: Result | Refusal) -> None:
        if isinstance(result, Consuming):
            self._consumers.came_late(result.consumer)
        elif isinstance(result, Got):
            self._port.give_back(result.consumer, [(result.sequence, result.sequence)], False)

    # -- publishing -----------------------------------------------------------------------------

    def publish(self, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool = False) -> None:
        """Route a run and publish it; with `held` the channel's transaction publishes it at the commit.

        The broker confirms the messages to the session under the tags from `first_tag` on; 0: it does not.
        `mandatory`: messages that no queue takes are returned to the client.
        """
        tag = first_tag
        try:
            names = self._port.header_names(self.scope, run.exchange)
            copied, only_key = run.special and format_of(run).may_have_copies(run), run.routing_key
            if only_key is None and names is None and not copied and self._port.keeps_keys:
                self._publish_by_keys(channel, run, mandatory, first_tag, held)
                return
            for key, piece in format_of(run).by_key(run) if only_key is None else ((only_key, run),):
                if copied:
                    self._publish_one_by_one(channel, key, piece, names is not None, mandatory, tag, held)
                elif names is not None:
                    self._publish_by_headers(channel, key, piece, names, mandatory, tag, held)
                else:
                    route = self._port.route(self.scope, piece.exchange, key)
                    self._publish_along(route, channel, piece, mandatory, tag, held)
                tag += piece.count if tag else 0
        except Refusal as refusal:
            self._session.publish_refused(channel, refusal)

    def hold_publish(self, channel: int, run: Run, mandatory: bool) -> None:
        """Route a run, and publish it when the channel's transaction is committed."""
        self.publish(channel, run, mandatory, 0, True)

    def _publish_along(
        self, route: Route, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        if held:
            self._held.setdefault(channel, []).append(HeldRun(run, route, mandatory))
            return
        session, traffic, count = self._session, self.traffic, run.count
        traffic.published += count
        if first_tag > 0:
            traffic.confirmable += count
        route.flow.published += count
        if route:
            if not self._port.publish(session, channel, run, route, first_tag):
                session.hold(channel)
            return
        self._unroutable(channel, run, mandatory)
        if first_tag:
            # A message that no queue takes is confirmed at once: no node has to store it.
            session.confirm(channel, first_tag, first_tag + run.count - 1)

    def _publish_by_keys(self, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool) -> None:
        """Route messages by their routing keys, and publish each stretch of messages that have one route.

        Raises Refusal, after the messages before the refused one are published.
        """
        keys, first = format_of(run).routing_keys(run), 0
        routes, refusal = self._port.route_keys(self.scope, run.exchange, keys)
        for count, route in routes:
            tag = first_tag + first if first_tag else 0
            self._publish_along(route, channel, run.slice(first, count), mandatory, tag, held)
            first += count
        if refusal is not None:
            raise refusal

    def _publish_one_by_one(
        self, channel: int, key: str, run: Run, by_headers: bool, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        """Route each stretch of messages with the same properties by its own headers and further keys."""
        messages = format_of(run)
        for first, count, properties in messages.properties_in(run):
            headers = messages.headers(properties) if by_headers else None
            copies = messages.copies(properties)
            route = self._port.route(self.scope, run.exchange, key, headers, copies.keys)
            tag = first_tag + first if first_tag else 0
            piece = run.slice(first, count)
            if copies.blind:
                piece = messages.without_blind_copies(piece)
            self._publish_along(route, channel, piece, mandatory, tag, held)

    def _publish_by_headers(
        self, channel: int, key: str, run: Run, names: tuple[str, ...], mandatory: bool, first_tag: int,
        held: bool,
    ) -> None:  # fmt: skip
        """Route messages by their headers, and publish each stretch of messages that have one route."""
        port, scope, begin, latest = self._port, self.scope, 0, None
        for first, _, alike in format_of(run).header_keys(run, names):
            headers = partial(_headers_at, run, first)
            route = port.route_alike(scope, run.exchange, key, alike, headers)
            if latest is not None and route is not latest:
                piece, tag = run.slice(begin, first - begin), first_tag + begin if first_tag else 0
                self._publish_along(latest, channel, piece, mandatory, tag, held)
                begin = first
            latest = route
        if latest is not None:
            piece, tag = run.slice(begin, run.count - begin), first_tag + begin if first_tag else 0
            self._publish_along(latest, channel, piece, mandatory, tag, held)

    def _unroutable(self, channel: int, run: Run, mandatory: bool) -> None:
        if mandatory:
            self.traffic.returned += run.count
            self._session.return_unroutable(channel, run)
        else:
            self.traffic.dropped += run.count

    def roll_back(self, channel: int) -> None:
        """Discard the runs of the channel's transaction."""
        self._held.pop(channel, None)

    def commit(self, channel: int, settled: Sequence[Settlement], done: Done) -> None:
        """Publish the runs of the channel's transaction and settle, atomically.

        `done` is called without a refusal once a majority of each partition has everything on disk; with a
        refusal nothing has been published or settled. The session returns mandatory messages that no queue
        takes to the client before `done` is called.
        """
        publishes: list[tuple[Run, Route]] = []
        lost: list[HeldRun] = []
        for one in self._held.pop(channel, []):
            self.traffic.published += one.run.count
            one.route.flow.published += one.run.count
            # A queue may have been deleted since; only mandatory messages are returned then, as by RabbitMQ.
            if one.route and (not one.mandatory or self._port.still_leads(one.route)):
                publishes.append((one.run, one.route))
            else:
                lost.append(one)

        def answered(refusal: Refusal | None) -> None:
            if refusal is None:
                for one in lost:
                    self._unroutable(channel, one.run, one.mandatory)
            done(refusal)

        self._port.commit(publishes, settled, answered)

    # -- consuming ------------------------------------------------------------------------------

    def credit(self, consumer: int, limit: int) -> None:
        """The consumer takes `limit` messages in all since it began. A lower limit revokes credit."""
        self._port.credit(consumer, limit)

    def drain(self, consumer: int, limit: int, done: Callable[[], None]) -> None:
        """As `credit`; then take away the credit for which the queue has no message.

        `done` is called once, at once or in a later turn, and not after `end`: see `BrokerPort.drain`.
        """
        self._port.drain(consumer, limit, partial(self._drained, done))

    def _drained(self, done: Callable[[], None]) -> None:
        if not self.ended:
            done()

    def settle(self, consumer: int, ranges: list[Range], outcome: Outcome) -> None:
        """Settle deliveries, or messages that the client got, by ranges of their sequence numbers.

        A consumer settles only what it still has: the front end ignores other numbers.
        """
        if outcome is Outcome.ACCEPTED:
            self._port.settle(consumer, ranges)
        elif outcome is Outcome.REJECTED:
            self._port.discard(consumer, ranges)
        else:
            self._port.give_back(consumer, ranges, outcome.failed, outcome.undeliverable_here)

    # -- the end --------------------------------------------------------------------------------

    def close_channel(self, channel: int, unsettled: UnsettledRanges, done: Released) -> None:
        """End the channel's consumers, and return the unsettled deliveries to the queues.

        `done` is called when the auto-delete queues that lose their last consumer are deleted.
        """
        self._consumers.channel_closed(channel, unsettled, done)

    def end(self, unsettled: UnsettledRanges, done: Released) -> None:
        """End the session, for any reason: its consumers end, and its unsettled deliveries return to the
        queues. A second call does nothing.

        `done` is called when the session's exclusive queues, and the auto-delete queues that lose their last
        consumer, are deleted.
        """
        if self.ended:
            return
        self.ended = True
        if not self.holder:
            self._consumers.connection_closed(unsettled, done)
            return
        release = partial(self._port.release_holder, self.holder, done)
        self._consumers.connection_closed(unsettled, release)

    def forget(self) -> None:
        """Drop the references to the session, so that it is freed at once and not by the garbage
        collector.
        """
        self._session = ENDED_SESSION
        self._held = {}
        self._consumers = SessionConsumers(self._port, none_in_use)


class GoneSession:
    """Stands for the session of a client that has left: ignores every call."""

    channel_count = 0

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None: ...
    def confirm(self, channel: int, first: int, last: int) -> None: ...
    def reject(self, channel: int, first: int, last: int) -> None: ...
    def consumer_cancelled(self, consumer: int) -> None: ...
    def unblocked(self) -> None: ...
    def force_close(self, reason: str) -> None: ...
    def hold(self, channel: int) -> None: ...
    def return_unroutable(self, channel: int, run: Run) -> None: ...
    def publish_refused(self, channel: int, refusal: Refusal) -> None: ...


ENDED_SESSION: Final = GoneSession()


def none_in_use(_: int) -> Collection[int]:
    """For a client that has left, which has no consumers."""
    return ()


class Containment:
    """A context that calls `failed` with an exception of its body, and does not let the exception pass.

    The broker's turn calls many sessions: a defect in one of them must not keep it from calling the others.
    """

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """End the session after a defect, and return what it holds. Raises nothing."""

    def __enter__(self) -> None:
        """Nothing to do on entry."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed(error)
        return True


class EffectLoop:
    """Carries out the effects of a protocol's machine in one loop, so that pipelined requests do not grow
    the stack.

    `more` takes the effects that the machine has made meanwhile; `giving_back` are the kinds of effects that
    return something from the session to the broker.
    """

    def __init__(
        self,
        handlers: Mapping[type[Any], Callable[[Any], None]],
        more: Callable[[], list[Any]],
        giving_back: frozenset[type[Any]],
    ) -> None:
        self.running = self.closed = False
        self.failed = False
        """The session has failed: only `giving_back` is carried out, and an exception of one effect does not
        stop the next one.
        """
        self._handlers = handlers
        self._more = more
        self._giving_back = giving_back
        self._due: deque[Any] = deque()

    def close(self) -> None:
        """Carry out nothing more, and drop the references to the handlers."""
        self._handlers = {}
        self._due.clear()
        self.closed = True

    def carry_out(self, wanted: list[Any], contained: Containment) -> bool:
        """Carry out these effects and all that follow from them. False where the loop runs already, further
        up the stack, or is closed.

        A request that the broker answers at once calls back from inside the loop. The loop carries out the
        effects of that answer after the call: otherwise a client could overflow the stack with pipelined
        requests. After an exception the remaining effects stay in the loop.
        """
        due = self._due
        if self.closed:
            return False
        due.extend(wanted)
        if self.running:
            return False
        self.running = True
        try:
            while due:
                effect = due.popleft()
                if not self.failed:
                    self._handlers[type(effect)](effect)
                elif type(effect) in self._giving_back:
                    with contained:
                        self._handlers[type(effect)](effect)
                if not due:
                    due.extend(self._more())
        finally:
            self.running = False
        return True


def _headers_at(run: Run, index: int) -> Mapping[str, Any]:
    """The headers of one message of a run."""
    messages = format_of(run)
    _, _, properties = next(messages.properties_in(run.slice(index, 1)))
    return messages.headers(properties)
