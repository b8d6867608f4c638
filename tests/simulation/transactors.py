"""Clients that consume and publish in transactions, which touch one partition or several."""

from __future__ import annotations

from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.simulation.clients import Place, publishes_of
from tests.simulation.consumers import Consumer
from tests.simulation.history import QueueTerms, Receipt, Transaction
from tests.simulation.routes import Path

KEEPING = ("orders", "invoices", "local")
"""Queues that keep their messages, so that every committed message is delivered at some time."""

TARGETS = (("orders",), ("invoices",), ("local",), ("orders", "local"), ("invoices", "orders"))


class Transactor(Consumer):
    """Settles its deliveries, and publishes, with one commit after the other."""

    def __init__(self, place: Place, terms: QueueTerms, paths: dict[tuple[str, ...], Path]) -> None:
        super().__init__(place, terms)
        self.paths = paths
        self.interval_s = self.chance.choice((0.0, 0.002, 0.02, 0.1))
        self.transaction: Transaction | None = None
        """The current transaction, until its commit is answered."""
        self._taken: dict[int, Receipt] = {}

    @property
    def committing(self) -> bool:
        return self.transaction is not None

    def opened(self) -> None:
        self.request(m.TxSelect(), self._selected)

    def _selected(self, answer: Method) -> None:
        super().opened()

    def _attached(self, answer: Method) -> None:
        super()._attached(answer)
        if self.finishing:
            self.close()
        else:
            self.after(self.chance.uniform(0.1, 0.3), self._work)

    def read(self) -> None:
        """Nothing to do: a later commit settles the deliveries."""
        self._fresh.clear()

    def hurry(self) -> None:
        self.finishing = True
        if self.transaction is None:
            self.close()

    def _work(self) -> None:
        """Do something in one transaction, and go on when it has ended."""
        if self.finishing or not self.attached or self.transaction is not None:
            return
        published: list[tuple[int, int]] = []
        for queues in self.chance.sample(TARGETS, self.chance.choice((1, 2, 3))):
            quantity = self.chance.choice((1, 1, 3))
            first = self.history.published(self.id, quantity, queues, persistent=True)
            published.append((first, quantity))
            self.connection.send_octets(
                publishes_of(self.id, first, quantity, True, self.paths[queues], self.chance)
            )
        tags = self.chance.sample(list(self.unsettled), self.chance.randint(0, len(self.unsettled)))
        self._taken = {tag: self.unsettled.pop(tag) for tag in sorted(tags)}
        for tag in tags:
            self.send(m.BasicAck(tag))
        receipts = list(self._taken.values())
        self.transaction = self.history.begin(self.id, published, receipts, self.node.name, self.life)
        if self.chance.random() < 0.1:
            self.request(m.TxRollback(), self._rolled_back)
        else:
            self.request(m.TxCommit(), self._committed)

    def _rolled_back(self, answer: Method) -> None:
        """The publishes are discarded, and the settled deliveries are unsettled again."""
        taken = self._taken
        self._conclude(done=False)
        for tag, receipt in taken.items():
            receipt.outcome, receipt.transaction = None, None
            self.unsettled[tag] = receipt
        self._go_on()

    def refused(self, code: int, text: str) -> None:
        """The broker has refused a commit that needs a queue whose only node is down, or settles a message
        that the owner has given up.
        """
        if self.transaction is None or code != m.ReplyCode.PRECONDITION_FAILED:
            super().refused(code, text)
        else:
            self._conclude(done=False, refused=True)
            self.after(self.interval_s * self.chance.uniform(0.5, 1.5), self._work)
            self.start_again()

    def _committed(self, answer: Method) -> None:
        self._conclude(done=True)
        self._go_on()

    def _conclude(self, *, done: bool, refused: bool = False) -> None:
        transaction, self.transaction, self._taken = self.transaction, None, {}
        assert transaction is not None
        self.history.answered(transaction, done=done, refused=refused)

    def _go_on(self) -> None:
        if self.finishing:
            self.close()
        else:
            self.after(self.interval_s * self.chance.uniform(0.5, 1.5), self._work)
