"""One client's session at the broker, whatever protocol it speaks.

A protocol's session makes one of these, and gives it what the client asks for: logins, commands, runs of
publishes, settlements and credit. What the broker says comes to the session itself (`PublishingSession`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Protocol

from node.message.run import Run
from node.ranges.numbers import Numbers, Range
from node.refusal import Refusal
from node.session.commands import Answered, Command, Consuming, Result
from node.session.consumers import Released, SessionConsumers, Unsettled
from node.session.logins import CertifiedLogin, Login
from node.session.permissions import NOWHERE
from node.session.ports import Authenticated, BrokerPort, Done, Got, Outcome, Route, Settlement, Subscriber
from node.session.requests import Caller, Requests
from node.session.traffic import Traffic
from node.wire.formats import format_of


class PublishingSession(Subscriber, Protocol):
    """What becomes of what was published. A channel is what a client publishes on in one order."""

    def hold(self, channel: int) -> None:
        """What the channel has published fills a link: it is to publish no more before `unblocked`."""

    def return_unroutable(self, channel: int, run: Run) -> None:
        """No queue takes the messages, and the client wants to know. Comes before they are confirmed."""

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        """There is no such exchange, or the user may not publish there: the run is not published."""


class HeldRun(NamedTuple):
    """A run of a transaction; `route` may lead nowhere."""

    run: Run
    route: Route
    mandatory: bool


class SessionCore:
    """See the module's docstring.

    `in_use` tells which of a channel's consumers go on, or have left something to settle. A protocol without
    channels has one.

    A transaction holds its runs back until it is committed, with the routes that they had when they were
    published. Its settlements are with the protocol's machine until then.
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
        """What the transaction of each channel will publish."""
        self._consumers = SessionConsumers(port, in_use)

    @property
    def vhost(self) -> str:
        """The virtual host of the session; empty before `enter`."""
        return self.scope.vhost

    # -- who and where --------------------------------------------------------------------------

    def log_in(self, login: Login, remote: str, answer: Authenticated) -> None:
        """Who the client says to be; `remote` is its address."""
        self._port.authenticate(login, remote, answer)

    def check_user(self, user: str, remote: str, answer: Authenticated) -> None:
        """Whether a user who has logged in is still let in."""
        self._port.authenticate(CertifiedLogin(user), remote, answer)

    def enter(self, user: str, vhost: str) -> None:
        """Be in a virtual host from now on. Raises EntryRefusedError."""
        entry = self._port.enter(self._session, user, vhost)
        self.scope, self.holder = entry.scope, entry.holder

    def channel_opened(self) -> None:
        """Raises EntryRefusedError where that was one channel too many for the user."""
        self._port.channel_opened(self.scope.user)

    # -- commands -------------------------------------------------------------------------------

    def carry_out(self, channel: int, command: Command, answered: Answered) -> None:
        """Have a command carried out for a channel; one answer comes, at once or in a later turn.

        After `end` none comes: what a command has come to is given back.
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
        """Route a run, and publish it, or hold it back for the channel's transaction.

        Its messages are confirmed under the tags from `first_tag` on; 0: not. `mandatory`: the client is told
        of messages that no queue takes.
        """
        try:
            copied = run.special and format_of(run).may_have_copies(run)
            if copied or self._port.needs_headers(self.scope, run.exchange):
                self._publish_one_by_one(channel, run, mandatory, first_tag, held)
                return
            route = self._port.route(self.scope, run.exchange, run.routing_key)
        except Refusal as refusal:
            self._session.publish_refused(channel, refusal)
            return
        self._publish_along(route, channel, run, mandatory, first_tag, held)

    def hold_publish(self, channel: int, run: Run, mandatory: bool) -> None:
        """Publish a run when the channel's transaction is committed."""
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
            # A message that no queue takes is confirmed at once: nothing more will happen to it.
            session.confirm(channel, first_tag, first_tag + run.count - 1)

    def _publish_one_by_one(
        self, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        """Messages with headers of their own have routes of their own."""
        by_headers = self._port.needs_headers(self.scope, run.exchange)
        messages = format_of(run)
        for first, count, properties in messages.properties_in(run):
            headers = messages.headers(properties) if by_headers else None
            copies = messages.copies(properties)
            route = self._port.route(self.scope, run.exchange, run.routing_key, headers, copies.keys)
            tag = first_tag + first if first_tag else 0
            piece = run.slice(first, count)
            if copies.blind:
                piece = messages.without_blind_copies(piece)
            self._publish_along(route, channel, piece, mandatory, tag, held)

    def _unroutable(self, channel: int, run: Run, mandatory: bool) -> None:
        if mandatory:
            self.traffic.returned += run.count
            self._session.return_unroutable(channel, run)
        else:
            self.traffic.dropped += run.count

    def roll_back(self, channel: int) -> None:
        """Nothing of the channel's transaction is published."""
        self._held.pop(channel, None)

    def commit(self, channel: int, settled: Sequence[Settlement], done: Done) -> None:
        """Publish what the channel's transaction holds, and settle: all of it, or with a refusal nothing.

        The client hears of messages that no queue takes before `done` is called.
        """
        publishes: list[tuple[Run, Route]] = []
        lost: list[HeldRun] = []
        for one in self._held.pop(channel, []):
            self.traffic.published += one.run.count
            one.route.flow.published += one.run.count
            # A queue may be gone since; only a client that asked to be told will be, as in RabbitMQ.
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
        """The consumer takes `limit` messages in all since it began; a lower limit revokes credit."""
        self._port.credit(consumer, limit)

    def settle(self, consumer: int, ranges: list[Range], outcome: Outcome) -> None:
        """What becomes of deliveries, or of messages that were got."""
        if outcome is Outcome.ACCEPTED:
            self._port.settle(consumer, ranges)
        elif outcome is Outcome.REJECTED:
            self._port.discard(consumer, ranges)
        else:
            self._port.give_back(consumer, ranges, outcome is Outcome.RETURNED)

    # -- the end --------------------------------------------------------------------------------

    def close_channel(self, channel: int, unsettled: Unsettled, done: Released) -> None:
        """The channel's consumers end, and what they have not settled goes back to the queues.

        `done` is called once the queues are gone that go with their last consumer.
        """
        self._consumers.channel_closed(channel, unsettled, done)

    def end(self, unsettled: Unsettled, done: Released) -> None:
        """Whatever ended the session: what it had goes back, once.

        `done` is called once the queues are gone that go with the session, or with its consumers.
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
        """Refer to the session no more: the garbage collector would come late for it."""
        self._session = ENDED_SESSION
        self._held = {}
        self._consumers = SessionConsumers(self._port, none_in_use)


class GoneSession:
    """Of a client that has left: nothing is said to it any more."""

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
    """A client that has left has no consumers."""
    return ()


class Containment:
    """`with` one of these: it is told of an exception, and the exception goes no further.

    The broker's turn calls sessions, and must not stop in the middle because of one of them.
    """

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Give back what it had. Raises nothing."""

    def __enter__(self) -> None:
        """Nothing has happened yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed(error)
        return True
