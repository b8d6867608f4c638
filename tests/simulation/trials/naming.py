"""Messages that clients settle by bookmark, while other clients have them (D8)."""

from __future__ import annotations

from functools import partial
from math import inf

from node.delivery.deeds import Became, Deed
from node.message.bookmarks import number_of_bookmark
from node.ranges.range_set import Range
from node.refusal import Refusal
from node.session.ports import Named, QueueRef
from node.wire.amqp091 import methods as m
from tests.simulation.history import Outcome
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Received
from tests.simulation.trials.sharing import Held, Sharing
from tests.simulation.trials.trial import PAUSE_S, Trial

UNDER_WAY_S = 0.5
"""A delivery that was sent before a cancel comes within this time after the answer."""

NAMING = 0.06
"""The probability that a client names a message, each time that consumers act."""


class Namer:
    """Settles messages of a trial's queue by bookmark, at any node.

    `settled` are the messages that a client has settled for good, as it was told. `touched` are those of
    which a client may have done so, and `cancelled` the deliveries whose messages may have gone back.
    """

    def __init__(self, trial: Trial) -> None:
        self.settled: set[str] = set()
        self.touched: set[str] = set()
        self.cancelled: list[Held] = []
        self._trial = trial
        # By message, until when a cancel may take it from any consumer.
        self._open: dict[str, float] = {}

    def settle(self, held: Held, deed: Deed) -> None:
        """Name the message of a delivery."""
        trial, body = self._trial, held.received.body
        nodes = trial.nodes.ready_nodes()
        if not nodes:
            raise LostError
        if deed is Deed.CANCEL:
            # From now on the message may come to another consumer.
            held.outcome, self._open[body] = Outcome.RETURNED, inf
            self.cancelled.append(held)
        else:
            self.touched.add(body)
        node = trial.chance.choice(nodes)
        port = trial.nodes.place(node).front_ends.of(node)
        bookmark = held.received.headers["x-bookmark"]
        assert isinstance(bookmark, str)

        def ask() -> None:
            try:
                queue: QueueRef = port.queue("/", trial.name, 0)
            except Refusal:
                return
            number = number_of_bookmark(queue.id, bookmark)
            port.settle_named(queue, Named(deed, [(number, number)]), partial(self._answered, body, deed))

        node.input(ask)

    def _answered(
        self, body: str, deed: Deed, became: dict[Became, list[Range]], refusal: Refusal | None
    ) -> None:
        if deed is Deed.CANCEL:
            self._open[body] = self._trial.now + UNDER_WAY_S
        if refusal is None and deed is not Deed.CANCEL and Became.SETTLED in became:
            self.settled.add(body)

    def excuse(self, sharing: Sharing) -> None:
        """A cancel that is under way may take a message from a consumer that has got it since."""
        for held in sharing.deliveries:
            if self._open.get(held.received.body, 0.0) >= held.received.time:
                sharing.excused.add(held)


def names(trial: Trial) -> Steps:
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
    bodies = numbered("m", chance.randint(4, 24))
    answers: list[Answer] = []
    left = list(bodies)
    while left or sharing.missing(bodies) - namer.touched or sharing.unsettled():
        if left and chance.random() < 0.3:
            size = chance.choice((1, 1, 3, 10))
            answers.append(publisher.publish("", trial.name, left[:size]))
            del left[:size]
        namer.excuse(sharing)
        sharing.read()
        namer.excuse(sharing)
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
    consumer that has got the message again would count for that delivery.
    """
    for held in list(namer.cancelled):
        same = [one for one in sharing.deliveries if one.received.body == held.received.body]
        behind = same[same.index(held) + 1 :]
        if behind and held.prover.alive and trial.chance.random() < NAMING:
            namer.cancelled.remove(held)
            if all(one.prover is not held.prover for one in behind):
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
    again = namer.settled & {one.body for one in taken}
    trial.expect(not again, f"{sorted(again)} come, which are settled by bookmark")
