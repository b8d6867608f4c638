"""Messages that clients settle by bookmark, while other clients have them (D8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from node.delivery.deeds import Became, Deed, Named
from node.message.bookmarks import number_of_bookmark
from node.ranges.range_set import Range
from node.refusal import Refusal
from node.session.ports import QueueRef
from node.wire.amqp091 import methods as m
from tests.simulation.history import Outcome
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Received
from tests.simulation.trials.sharing import HURRY_S, Held, Sharing
from tests.simulation.trials.trial import PAUSE_S, Trial

UNDER_WAY_S = 0.5
"""A delivery that was sent before a cancel comes within this time after the answer."""

QUICK_S = 0.1
"""An answer within this time has crossed no fault."""

NAMING = 0.06
"""The probability that a client names a message, each time that consumers act."""


def settle_named(
    trial: Trial,
    received: Received,
    deed: Deed,
    answered: Callable[[dict[Became, list[Range]], Refusal | None], None],
) -> None:
    """Settle a message of the trial's queue by the bookmark that its consumer was told, at any node. Raises
    LostError where no node is ready.
    """
    nodes = trial.nodes.ready_nodes()
    if not nodes:
        raise LostError
    node = trial.chance.choice(nodes)
    port = trial.nodes.place(node).front_ends.of(node)
    bookmark = received.headers["x-bookmark"]
    assert isinstance(bookmark, str)

    def ask() -> None:
        try:
            queue: QueueRef = port.queue("/", trial.name, 0)
        except Refusal:
            return
        number = number_of_bookmark(queue.id, bookmark)
        port.settle_named(queue, Named(deed, [(number, number)]), answered)

    node.input(ask)


class Namer:
    """Settles messages of a trial's queue by bookmark, at any node.

    `settled` has the messages that a client has settled for good, with the time at which it was told.
    `touched` are those of which a client may have done so, and `cancelled` the deliveries whose messages may
    have gone back.
    """

    def __init__(self, trial: Trial) -> None:
        self.settled: dict[str, float] = {}
        self.touched: set[str] = set()
        self.cancelled: list[Held] = []
        self._trial = trial
        # By the delivery whose message is to be cancelled, until when that may happen.
        self._open: dict[Held, float] = {}
        self._asked: dict[Held, float] = {}
        self._quick: set[Held] = set()

    def settle(self, held: Held, deed: Deed) -> None:
        """Name the message of a delivery."""
        trial, body = self._trial, held.received.body
        if deed is Deed.CANCEL:
            # From now on the message may come to another consumer.
            held.outcome, self._open[held] = Outcome.RETURNED, inf
            self._asked[held] = trial.now
            self.cancelled.append(held)
        else:
            self.touched.add(body)
        settle_named(trial, held.received, deed, partial(self._answered, held, deed))

    def _answered(
        self, held: Held, deed: Deed, became: dict[Became, list[Range]], refusal: Refusal | None
    ) -> None:
        if deed is Deed.CANCEL:
            self._open[held] = self._trial.now + UNDER_WAY_S
            if self._trial.now - self._asked[held] < QUICK_S:
                # No other delivery has come meanwhile, unless the consumer had lost the message before.
                self._quick.add(held)
        if refusal is None and deed is not Deed.CANCEL and Became.SETTLED in became:
            self.settled.setdefault(held.received.body, self._trial.now)

    def excuses(self, sharing: Sharing, held: Held) -> bool:
        """Whether a cancel may have taken the message of a delivery that it was not meant for: its own
        consumer had lost the message before, or a fault has held the cancel up.
        """
        body, time = held.received.body, held.received.time
        return any(
            target.received.body == body
            and until >= time
            and (target not in self._quick or sharing.void(target) or sharing.contested(target))
            for target, until in self._open.items()
        )


def bookmarks(trial: Trial) -> Steps:
    """A message that a client has acknowledged or expired by its bookmark does not come to a consumer that
    comes later. A cancelled one goes to one other consumer, whatever the first one says late. No other
    message is lost.
    """
    chance = trial.chance
    publisher, *provers = (trial.prover() for _ in range(7))
    yield trial.queue(publisher, lease_period=chance.choice((None, 60_000)))
    for prover in provers:
        yield prover.ask(m.BasicQos(0, chance.randint(2, 6)))
        yield prover.ask(m.BasicConsume(trial.name, arguments={"x-tell": True}))
    sharing, namer = Sharing(trial, provers, given_back=0.5), Namer(trial)
    sharing.excuses = partial(namer.excuses, sharing)
    bodies = numbered("m", chance.randint(4, 24))
    answers: list[Answer] = []
    left = list(bodies)
    while left or sharing.missing(bodies) - namer.touched or sharing.unsettled():
        if left and chance.random() < 0.3:
            size = chance.choice((1, 1, 3, 10))
            answers.append(publisher.publish("", trial.name, left[:size]))
            del left[:size]
        sharing.read()
        for held in sharing.unsettled():
            if chance.random() < NAMING:
                namer.settle(held, chance.choice((Deed.ACKNOWLEDGE, Deed.CANCEL, Deed.CANCEL, Deed.EXPIRE)))
        _answer_late(trial, sharing, namer)
        sharing.act()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    while answers:
        yield answers.pop(0)
    yield from _check_rest(trial, sharing, namer, bodies)


def _answer_late(trial: Trial, sharing: Sharing, namer: Namer) -> None:
    """Give back messages that other clients have cancelled, once others have them. The late outcome of a
    consumer that has got the message again would count for that delivery, and one after the next outcome at
    the same node for the latest delivery there. Deliveries without an outcome fill
    their consumer's prefetch: in the end it acknowledges them.
    """
    hurry = trial.now - trial.began > HURRY_S
    for held in list(namer.cancelled):
        same = [one for one in sharing.deliveries if one.received.body == held.received.body]
        behind = same[same.index(held) + 1 :]
        if hurry and held.prover.alive:
            namer.cancelled.remove(held)
            namer.touched.add(held.received.body)
            held.prover.ack(held.received)
            continue
        if behind and held.prover.alive and trial.chance.random() < NAMING:
            namer.cancelled.remove(held)
            mine = [one for one in behind if one.prover.node is held.prover.node]
            if all(one.prover is not held.prover and one.outcome is None for one in mine):
                held.prover.nack(held.received, requeue=True)


def _check_rest(trial: Trial, sharing: Sharing, namer: Namer, bodies: list[str]) -> Steps:
    """Take the rest once all consumers have left: messages that no client has settled, and no others."""
    fresh = trial.prover()
    settled = {one.received.body for one in sharing.deliveries if one.outcome is Outcome.SETTLED}
    for prover in trial.provers:
        if prover is not fresh and prover.alive:
            prover.leave()
    yield from trial.pause(2 * PAUSE_S)
    taken: list[Received] = []
    yield from trial.take(fresh, trial.name, set(bodies) - settled - namer.touched, taken)
    again = [one.body for one in taken if one.time > namer.settled.get(one.body, inf) + UNDER_WAY_S]
    trial.expect(not again, f"{again} come, which are settled by bookmark")
