"""The part of a client's session that all protocols share.

A protocol's session makes one `SessionCore`, and gives it the client's logins, commands, runs of publishes,
settlements and credit. The broker calls the protocol's session itself (`PublishingSession`) with deliveries,
confirms and the like. An `EffectLoop` carries out what the machine of the protocol asks for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from node.delivery.settlements import Modification, Outcome, Settlement
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Range
from node.refusal import Refusal
from node.session.batch_node import AdminNode
from node.session.commands import Answered, Command, Consuming, Result
from node.session.consumers import Released, SessionConsumers, nothing
from node.session.logins import Login
from node.session.permissions import NOWHERE, publish_refusal
from node.session.ports import Authenticated, BrokerPort, Done, Got, Identity, Route
from node.session.protocol_machine import ProtocolMachine
from node.session.publish_routes import RoutedStretch, by_contents, by_keys
from node.session.publishing_session import ENDED_SESSION, PublishingSession, none_in_use
from node.session.requests import Caller, Requests
from node.session.subscriber import Subscriber
from node.session.traffic import Traffic
from node.session.transaction_runs import HeldRun, TransactionRuns
from node.session.transport import NO_TRANSPORT, Transport
from node.wire.formats import format_of


class SessionCore:
    """See the module's docstring.

    `in_use` gives the numbers of a channel's consumers that have not ended, or that have unsettled
    deliveries. A protocol without channels uses one channel number.

    `TransactionRuns` has the runs of a transaction until the commit. The protocol's machine has the
    transaction's settlements until then.
    """

    def __init__(
        self, port: BrokerPort, session: PublishingSession, in_use: Callable[[int], Collection[int]]
    ) -> None:
        self.traffic = Traffic()
        self.scope, self.holder, self.ended = NOWHERE, 0, False
        self._port, self._session = port, session
        self.subscriber: Subscriber = session
        """The session, as the broker calls it."""
        self._requests = Requests(port)
        self._transactions = TransactionRuns(port, self.traffic, self._unroutable)
        self._consumers, self._admin = SessionConsumers(port, in_use), AdminNode(port, session)

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

    def enter(self, identity: Identity, vhost: str) -> None:
        """Open the session in a virtual host. Raises EntryRefusedError."""
        entry = self._port.enter(self._session, identity, vhost)
        self.scope, self.holder = entry.scope, entry.holder

    def change_rights(self, identity: Identity) -> None:
        """The user's new token counts from the next command on. Raises EntryRefusedError."""
        self.scope = self._port.change_rights(self.holder, identity)

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
            self._port.give_back(result.lease, [(result.sequence, result.sequence)], Outcome.RELEASED)

    # -- publishing -----------------------------------------------------------------------------

    def publish(self, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool = False) -> None:
        """Route a run and publish it; with `held` the channel's transaction publishes it at the commit.

        The broker confirms the messages to the session under the tags from `first_tag` on; 0: it does not.
        `mandatory`: messages that no queue takes are returned to the client.
        """
        tag = first_tag
        try:
            port, scope = self._port, self.scope
            if port.permissions.write_filters and (kept_out := port.permissions.kept_out(scope, run)):
                if kept_out[0][0]:
                    self.publish(channel, run.slice(0, kept_out[0][0]), mandatory, tag, held)
                raise publish_refusal(scope, run.exchange)
            names = port.header_names(scope, run.exchange)
            copied, only_key = run.special and format_of(run).may_have_copies(run), run.routing_key
            if only_key is None and names is None and not copied and port.keeps_keys:
                self._publish_stretches(by_keys(port, scope, run), channel, mandatory, tag, held)
                return
            for key, piece in format_of(run).by_key(run) if only_key is None else ((only_key, run),):
                if copied or names is not None:
                    found = by_contents(port, scope, key, piece, names, copied=copied)
                    self._publish_stretches(found, channel, mandatory, tag, held)
                else:
                    route = port.route(scope, piece.exchange, key)
                    self._publish_along(route, channel, piece, mandatory, tag, held)
                tag += piece.count if tag else 0
        except Refusal as refusal:
            if held:
                self._transactions.refuse(channel, refusal)
            self._session.publish_refused(channel, refusal)

    def hold_publish(self, channel: int, run: Run, mandatory: bool) -> None:
        """Route a run, and publish it when the channel's transaction is committed."""
        self.publish(channel, run, mandatory, 0, True)

    def take_held(self, channel: int) -> list[HeldRun]:
        return self._transactions.take(channel)

    def _publish_along(
        self, route: Route, channel: int, run: Run, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        if held:
            self._transactions.hold(channel, HeldRun(run, route, mandatory))
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
        if self._admin.takes(self.scope, self.holder, channel, run, first_tag):
            return
        self._unroutable(channel, run, mandatory)
        if first_tag:
            # A message that no queue takes is confirmed at once: no node has to store it.
            session.confirm(channel, first_tag, first_tag + run.count - 1)

    def _publish_stretches(
        self, stretches: Iterable[RoutedStretch], channel: int, mandatory: bool, first_tag: int, held: bool
    ) -> None:
        """Publish stretches of a run. Raises Refusal, after the stretches before the refused one are
        published.
        """
        for first, piece, route in stretches:
            tag = first_tag + first if first_tag else 0
            self._publish_along(route, channel, piece, mandatory, tag, held)

    def _unroutable(self, channel: int, run: Run, mandatory: bool) -> None:
        if mandatory:
            self.traffic.returned += run.count
            self._session.return_unroutable(channel, run)
        else:
            self.traffic.dropped += run.count

    def roll_back(self, channel: int) -> None:
        """Discard the runs of the channel's transaction."""
        self._transactions.roll_back(channel)

    def commit(self, channel: int, settled: Sequence[Settlement], done: Done, *, whole: bool = False) -> None:
        """See `TransactionRuns.commit`. The session returns mandatory messages that no queue takes to the
        client before `done` is called.
        """
        self._transactions.commit(channel, settled, done, whole=whole)

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

    def settle(
        self, lease: int, ranges: list[Range], outcome: Outcome, change: Modification | None = None
    ) -> None:
        """Settle messages by their numbers. The broker ignores those that the consumer has no more."""
        if outcome is Outcome.ACCEPTED:
            self._port.settle(lease, ranges)
        elif outcome is Outcome.REJECTED:
            self._port.discard(lease, ranges, b"" if change is None else change.annotations)
        elif outcome is Outcome.ABANDONED:
            self._port.abandon(lease, ranges)
        else:
            self._port.give_back(lease, ranges, outcome, change)

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
        release = partial(self._port.release_holder, self.holder, done) if self.holder else done
        self._consumers.connection_closed(unsettled, release)

    def forget(self) -> None:
        """Drop the references to the session, so that it is freed at once."""
        self._session = self.subscriber = ENDED_SESSION
        self._transactions.forget()
        self._consumers = SessionConsumers(self._port, none_in_use)
        self._admin = AdminNode(self._port, ENDED_SESSION)


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


Handlers = Mapping[type[Any], Callable[[Any], None]]
"""The functions that carry out effects, by the kind of effect."""


class EffectLoop:
    """Carries out the effects of a protocol's machine in one loop, so that pipelined requests do not grow
    the stack.

    `more` takes the effects that the machine has made meanwhile; `giving_back` are the kinds of effects that
    return something from the session to the broker.
    """

    def __init__(
        self, handlers: Handlers, more: Callable[[], list[Any]], giving_back: frozenset[type[Any]]
    ) -> None:
        self.running = self.closed = False
        self.failed = False
        """After a failure: only `giving_back` is carried out, and one exception does not stop the rest."""
        self._handlers, self._more, self._giving_back = handlers, more, giving_back
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


class MachineSession(Containment):
    """Carries out the effects of a machine with a `SessionCore`.

    A protocol's session sets `_core`, and calls `_drive` with its machine, before anything else happens.
    """

    _core: SessionCore
    _machine: ProtocolMachine
    _effects: EffectLoop

    def __init__(self, port: BrokerPort, transport: Transport, clock: Callable[[], float]) -> None:
        self._port, self._transport, self._clock = port, transport, clock
        self._blocked = False
        """The node's catalog is not up to date: the session takes no input before `unblocked`."""
        self._releasing = False
        """The broker deletes the queues of the session. The session writes nothing before that is done."""
        self._gone = self._failing = self._full = False

    def _drive(self, machine: ProtocolMachine, handlers: Handlers, giving_back: frozenset[type[Any]]) -> None:
        """Carry out the effects of this machine by these handlers (`EffectLoop`)."""
        self._machine = machine
        self._effects = EffectLoop(handlers, machine.take_effects, giving_back)

    @property
    def closed(self) -> bool:
        """Whether the session has ended. It ignores later answers of the broker."""
        return self._core.ended

    @property
    def traffic(self) -> Traffic:
        """The counters of the client's publishes."""
        return self._core.traffic

    @property
    def vhost(self) -> str:
        """The virtual host of the connection; empty before it is open."""
        return self._core.vhost

    def _read_on(self) -> None:
        """Read from the socket again where the machine may take further input."""
        if self._full and not self._machine.paused:
            self._full = False
            if not self._blocked:
                self._transport.resume_reading()

    @abstractmethod
    def _drop_input(self) -> None:
        """Forget the input that is held back."""

    @property
    def has_input(self) -> bool:
        """Whether input waits for a turn: earlier turns have left it."""
        return self._machine.has_input

    def timed(self, handler: Callable[[Any], None]) -> Callable[[Any], None]:
        """The handler of a request, whose time counts as work of the client's input."""

        def handle(wanted: Any) -> None:
            began = self._clock()
            handler(wanted)
            self._machine.took(self._clock() - began)

        return handle

    @property
    def has_output(self) -> bool:
        """Whether output is left that `take_output` has not taken."""
        return self._machine.has_output

    def take_output(self, writes: bool = True) -> bytes:
        """The output to write now. After the end of the connection there is none before the broker has
        deleted the connection's exclusive and auto-delete queues for all clients.
        """
        output = b""
        with self:
            if not self._releasing:
                output = self._machine.take_output() if writes else b""
                self._go_on()
        return output

    def _go_on(self) -> None:
        """Process a share of the input that earlier turns have left, between the shares of other clients."""
        machine = self._machine
        if not machine.has_input or self._port.ready():
            machine.begin_turn(self._transport.clients_waiting)
        elif not self._blocked:
            self._wait_ready()
        if wanted := machine.take_effects():
            self._carry_out(wanted)
        self._read_on()
        if machine.has_input and not self._blocked:
            self._transport.wanted()

    def answered(self) -> None:
        """The machine has new effects; an answer lets waiting input go on."""
        self._carry_out(self._machine.take_effects())

    def _carry_out(self, wanted: list[Any]) -> None:
        if not self._effects.carry_out(wanted, self):
            return
        if self._gone:
            self._end([])
            # Drop all references, so that the session is freed at once.
            self._effects.close()
            self._core.forget()
            self._transport = NO_TRANSPORT
        self._transport.wanted()
        self._read_on()

    def _wait_ready(self) -> None:
        self._blocked = True
        self._transport.pause_reading()
        self._port.wait_ready(self._core.subscriber)

    def tick(self) -> None:
        """Run the timers that are due."""
        with self:
            if self._machine.next_deadline() <= (now := self._clock()):
                self._carry_out(self._machine.tick(now))
                if self._machine.has_input and not self._blocked:
                    self._transport.wanted()

    # -- the end --------------------------------------------------------------------------------

    def lost(self) -> None:
        """The socket is closed."""
        self._gone = True
        wanted: list[Any] = []
        with self:
            wanted = self._machine.disconnected()
        with self:
            self._carry_out(wanted)

    def failed(self, error: Exception) -> None:
        """A defect ends this session, and no other: its unsettled deliveries go back to their queues."""
        self._transport.session_failed(error)
        self._effects.failed = True
        if not self._failing:
            self._failing = True
            self.lost()
            self._failing = False

    def _end(self, unsettled: UnsettledRanges) -> None:
        """End the session and return its unsettled deliveries. A second call does nothing."""
        if self.closed:
            return
        self._drop_input()
        if self._blocked:
            self._port.wait_no_more(self._core.subscriber)
        # When a client reads the answer to its close, auto-delete and exclusive queues must be deleted
        # (0-9-1 §4.5).
        self._releasing = bool(self._core.holder)
        self._core.end(unsettled, self._released if self._releasing else nothing)

    def _released(self) -> None:
        self._releasing = False
        self._transport.wanted()

    def _close_socket(self, _: object) -> None:
        self._releasing = False
        self._transport.close_after_flush()
