"""Clients that consume and publish in transactions, which touch one partition or several."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from cluster.front_end.commits import Share, Shares
from cluster.links.ports import Delivery
from node.engine.errors import Refusal
from node.frontend.ports import Outcome
from node.numbers import Numbers
from node.runs import Run
from tests.simulation.clients import Consumer, ranges_of, run_of
from tests.simulation.history import History, QueueTerms, Transaction
from tests.simulation.node import SimulatedNode

KEEPING = ("orders", "invoices", "local")
"""Queues that keep what they have: what was committed into them is delivered some time."""

TARGETS = (("orders",), ("invoices",), ("local",), ("orders", "local"), ("invoices", "orders"))


class Transactor(Consumer):
    """Settles what it gets, and publishes, with one commit after the other."""

    def __init__(
        self, node: SimulatedNode, history: History, chance: random.Random, terms: QueueTerms
    ) -> None:
        super().__init__(node, history, chance, terms)
        self.interval_s = chance.choice((0.0, 0.002, 0.02, 0.1))
        self.committing = False
        self.after(chance.uniform(0.1, 0.3), self._work)

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        self.receive(run, numbers, redelivered, consumer)
        if self.finishing:
            self.hurry()

    def _attached(self, value: Any, delivery: Delivery | None) -> None:
        super()._attached(value, delivery)
        if self.finishing:
            self.hurry()

    def _work(self) -> None:
        """Commit something, and go on when that is answered."""
        if not (self.finishing or (self.attached and self._commit())):
            self.after(0.05, self._work)

    def _commit(self) -> bool:
        """Whether there was something to commit."""
        shares: Shares = {}
        published: list[tuple[int, int]] = []
        for queues in self.chance.sample(TARGETS, self.chance.choice((1, 2, 3))):
            found = [one for one in map(self.find, queues) if one is not None]
            if len(found) < len(queues) or any(link.unreachable or link.full for _, link in found):
                continue
            quantity = self.chance.choice((1, 1, 3))
            first = self.history.published(self.id, quantity, queues, persistent=True)
            run = run_of(self.id, first, quantity, True, self.chance)
            published.append((first, quantity))
            for definition, link in found:
                shares.setdefault(link, Share()).publishes.append((run, [definition.id]))
        if not published:
            return False
        settled = self.chance.sample(sorted(self.unsettled), self.chance.randint(0, len(self.unsettled)))
        receipts = [self.unsettled.pop(sequence) for sequence in settled]
        for part in ranges_of(sorted(settled)):
            share = shares.setdefault(self.link, Share())
            share.settled.append((self.definition.id, Outcome.ACCEPTED, [part]))
        self.committing = True
        transaction = self.history.begin(self.id, published, receipts, self.node.name, self.life)
        self.node.commits.commit(shares, partial(self._answered, transaction))
        return True

    def _answered(self, transaction: Transaction, refusal: Refusal | None) -> None:
        if self.node.life == self.life:
            self.committing = False
            self.history.answered(transaction, refusal is None)
            self._grant()
            self.after(self.interval_s * self.chance.uniform(0.5, 1.5), self._work)
