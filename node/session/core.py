"""One client's session at the broker, whatever protocol it speaks.

A protocol's session makes one of these, and gives it what the client asks for: logins, commands, runs of
publishes, settlements and credit. What the broker says comes to the session itself (`PublishingSession`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from node.message.run import Run
from node.ranges.numbers import Numbers, Range
from node.refusal import Refusal
from node.session.commands import Answered, Command, Consuming, Result
from node.session.consumers import Released, SessionConsumers, Unsettled
from node.session.logins import CertifiedLogin, Login
from node.session.permissions import NOWHERE
from node.session.ports import Authenticated, BrokerPort, Done, Got, Outcome, Settlement
from node.session.publishes import Publishes, PublishingSession
from node.session.requests import Caller, Requests
from node.session.traffic import Traffic


class SessionCore:
    """See the module's docstring.

    `in_use` tells which of a channel's consumers go on, or have left something to settle. A protocol without
    channels has one.
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
        self._publishes = Publishes(port, session, self.traffic)
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

    def publish(self, channel: int, run: Run, mandatory: bool, first_tag: int) -> None:
        """Publish a run. Its messages are confirmed under the tags from `first_tag` on; 0: not."""
        self._publishes.publish(self.scope, channel, run, mandatory, first_tag)

    def hold_publish(self, channel: int, run: Run, mandatory: bool) -> None:
        """Publish a run when the channel's transaction is committed."""
        self._publishes.publish(self.scope, channel, run, mandatory, 0, True)

    def roll_back(self, channel: int) -> None:
        """Nothing of the channel's transaction is published."""
        self._publishes.roll_back(channel)

    def commit(self, channel: int, settled: Sequence[Settlement], done: Done) -> None:
        """Publish what the channel's transaction holds, and settle: all of it, or with a refusal nothing."""
        self._publishes.commit(channel, settled, done)

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
        self._publishes = Publishes(self._port, ENDED_SESSION, self.traffic)
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
