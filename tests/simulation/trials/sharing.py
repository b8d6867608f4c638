"""Consumers that share a queue, and the promises about their deliveries that hold under all faults.

A delivery is *void* where its consumer has left since, or was out of reach for so long, since or just before,
that an owner may have given it up: the message goes to other consumers, although the client still has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from tests.simulation.connection import Wired
from tests.simulation.history import Outcome
from tests.simulation.node import EPOCH_MS, SimulatedNode
from tests.simulation.scripts import LostError
from tests.simulation.trials.prover import Received
from tests.simulation.trials.trial import Trial

HURRY_S = 5.0
"""The age of a trial at which its consumers settle everything at once."""

ZEAL = (0.01, 0.03, 0.03, 0.3)
"""The probability that a consumer settles a message or gives it back, each time that consumers act."""

LATE_ZEAL = 0.5
"""The same for a message whose lease has lapsed."""

UNDISTURBED_S = 1.0
"""A fault so long before a delivery does not hold the delivery up."""

DELIVERED_S = 0.5
"""A delivery takes less where no fault holds it up, but slow nodes and late messages."""

CLOCKS_MS = 25
"""More than a node's time of day differs from the time of the world, where no fault sets it."""

LEAVING = 0.01
"""The probability that a consumer leaves, each time that consumers act."""


class Consuming(Protocol):
    """A client with a consumer. `deliveries` are the messages that have come and are not read."""

    deliveries: list[Received]
    node: SimulatedNode

    @property
    def connection(self) -> Wired: ...

    @property
    def alive(self) -> bool: ...

    def leave(self) -> None: ...
    def ack(self, received: Received) -> None: ...
    def nack(self, received: Received, *, requeue: bool) -> None: ...


NO_BACKLOGS: Mapping[Consuming, int] = {}


@dataclass(slots=True, eq=False)
class Held:
    """One delivery, and what its consumer has done with it so far."""

    prover: Consuming
    received: Received
    outcome: Outcome | None = None


Rule = Callable[["Held"], None]
"""Checks a delivery that has just come."""


class Sharing:
    """The deliveries of one queue to the consumers of a trial."""

    def __init__(
        self,
        trial: Trial,
        provers: Sequence[Consuming],
        rule: Rule = lambda held: None,
        given_back: float = 0.4,
        period_s: float = inf,
        backlogs: Mapping[Consuming, int] = NO_BACKLOGS,
    ) -> None:
        """`rule` is asked about each delivery besides the rules of every queue. A void delivery follows
        no rule: its node has got it late. `given_back` is the share of the messages that consumers give back.
        `period_s` is the queue's lease period, in seconds. Consumers answer soon after it. `backlogs` are
        those of the consumers that have one.
        """
        self.deliveries: list[Held] = []
        self.excuses: Callable[[Held], bool] = lambda held: False
        """Whether another client may have given the message of a delivery back."""
        self._trial = trial
        self._provers = list(provers)
        self._rule = rule
        self._given_back = given_back
        self._period_s = period_s
        self._backlogs = backlogs
        self._zeal = {prover: trial.chance.choice(ZEAL) for prover in provers}

    def join(self, prover: Consuming) -> None:
        """A consumer more gets messages of the queue."""
        self._provers.append(prover)
        self._zeal[prover] = self._trial.chance.choice(ZEAL)

    def read(self) -> None:
        """Check what has come since the last call, in the order of arrival."""
        come: list[Held] = []
        for prover in self._provers:
            come += [Held(prover, received) for received in prover.deliveries]
            prover.deliveries = []
        for held in sorted(come, key=lambda one: one.received.time):
            if not self.void(held):
                self._check_again(held)
                self._rule(held)
            self.deliveries.append(held)
            self._check_backlog(held)

    def act(self) -> None:
        """Have each consumer settle some messages, give some back, and keep others; sometimes one leaves.

        Raises LostError where no consumer is left.
        """
        there = [prover for prover in self._provers if prover.alive]
        if not there:
            raise LostError
        if len(there) > 1 and self._trial.chance.random() < LEAVING:
            self._trial.chance.choice(there).leave()
        chance, hurry = self._trial.chance, self._trial.now - self._trial.began > HURRY_S
        for held in self.unsettled():
            late = self._trial.now - held.received.time >= self._period_s
            if hurry or chance.random() < (LATE_ZEAL if late else self._zeal[held.prover]):
                self._finish(
                    held, Outcome.RETURNED if chance.random() < self._given_back and not hurry else None
                )

    def _finish(self, held: Held, outcome: Outcome | None) -> None:
        held.outcome = outcome or Outcome.SETTLED
        if held.outcome is Outcome.RETURNED:
            held.prover.nack(held.received, requeue=True)
        else:
            held.prover.ack(held.received)

    def unsettled(self) -> list[Held]:
        """The messages that consumers have, in the order of arrival."""
        return [held for held in self.deliveries if held.outcome is None and held.prover.alive]

    def missing(self, bodies: Iterable[str]) -> set[str]:
        """The bodies that have not come yet."""
        return set(bodies).difference(held.received.body for held in self.deliveries)

    def void(self, held: Held) -> bool:
        """See the module's docstring."""
        prover = held.prover
        ended = not prover.alive or prover.connection.gone
        return ended or self._trial.nodes.given_up(prover.node.name, held.received.time)

    def contested(self, held: Held) -> bool:
        """Whether another client may have come back with the message, which had been given up before. A new
        owner takes the message for that client's, where the node of `held` has not greeted it.
        """
        trial, body = self._trial, held.received.body
        others = [one for one in self.deliveries if one.received.body == body and one is not held]
        back = any(trial.nodes.given_up(one.prover.node.name, one.received.time) for one in others)
        return back and trial.nodes.world.disturbed >= held.received.time

    def lapsed(self, held: Held) -> bool:
        """Whether the owner may have ended the lease. The delivery took its time, and a fault may have held
        it up, or set the owner's time of day.
        """
        if self._period_s == inf:
            return False
        told_ms = held.received.headers.get("x-locked-until")
        if isinstance(told_ms, int) and self._trial.times_hold:
            # The end holds whatever becomes of owners.
            return EPOCH_MS + 1000 * self._trial.now >= told_ms - CLOCKS_MS
        disturbed = self._trial.nodes.world.disturbed >= held.received.time - UNDISTURBED_S
        late = self._trial.now - held.received.time >= self._period_s - DELIVERED_S
        return late or disturbed or not self._trial.times_hold

    # -- the rules of every queue ---------------------------------------------------------------

    def _check_again(self, held: Held) -> None:
        """D2: only a message that was given back comes again, or one of a consumer that was given up or whose
        lease has lapsed. The message says so.
        """
        body = held.received.body
        earlier = [one for one in self.deliveries if one.received.body == body]
        for one in earlier:
            who = f"a consumer on {one.prover.node.name} {'has' if one.outcome is None else 'has settled'} it"
            self._trial.expect(
                one.outcome is Outcome.RETURNED or self.excuses(one) or self.void(one) or self.lapsed(one),
                f"{body} comes again on {held.prover.node.name}, and {who}",
            )
        self._trial.expect(not earlier or held.received.redelivered, f"{body} comes again without saying so")

    # -- backlogs -------------------------------------------------------------------------------

    def _check_backlog(self, held: Held) -> None:
        """D6: a consumer has no more unsettled messages than its backlog, void ones included."""
        most = self._backlogs.get(held.prover)
        if most is not None:
            mine = [one for one in self.deliveries if one.prover is held.prover and one.outcome is None]
            self._trial.expect(
                len(mine) <= most,
                f"a consumer on {held.prover.node.name} has {len(mine)} messages, and may have {most}",
            )

    # -- groups ---------------------------------------------------------------------------------

    def check_group(self, held: Held, group: Mapping[str, str], published: Sequence[str]) -> None:
        """X3: no other consumer has messages of the group, and first deliveries come in the order of their
        publishes. `group` is the group of each body.
        """
        body = held.received.body
        for one in self.deliveries:
            if group[one.received.body] != group[body]:
                continue
            self._trial.expect(
                one.prover is held.prover or one.outcome is not None or self.void(one),
                f"{body} comes on {held.prover.node.name}, while a consumer on {one.prover.node.name} has "
                f"{one.received.body}",
            )
            if not (held.received.redelivered or one.received.redelivered or self.void(one)):
                in_order = published.index(one.received.body) < published.index(body)
                self._trial.expect(in_order, f"{body} comes after {one.received.body}")

    # -- single active consumers ----------------------------------------------------------------

    def check_turn(self, held: Held) -> None:
        """One consumer is active until it ends, or is given up after its last delivery. Without faults the
        consumers take turns in the order in which they have subscribed.
        """
        first = next((prover for prover in self._provers if prover.alive), held.prover)
        self._trial.expect(
            not self._trial.calm or held.prover is first, f"{held.received.body} comes out of turn"
        )
        latest = {one.prover: one for one in self.deliveries}
        for prover, last in latest.items():
            self._trial.expect(
                prover is held.prover or self.void(last),
                f"{held.received.body} comes on {held.prover.node.name}, while the active consumer is on "
                f"{prover.node.name}",
            )
