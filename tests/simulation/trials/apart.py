"""Local queues: under one name each node has a queue of its own (D20)."""

from __future__ import annotations

from typing import Final

from node.wire.amqp091 import methods as m
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.trial import PAUSE_S, Trial

PUBLISHES: Final = (1, 1, 3, 10)
"""Messages at a time."""


class Part:
    """A node's part of the queue, and its client, which is replaced when it is lost with its node."""

    def __init__(self, trial: Trial, node: SimulatedNode, count: int) -> None:
        self._trial, self.node = trial, node
        self.left = [f"{node.name} {number}" for number in range(count)]
        self.published: list[str] = []
        self._answers: list[tuple[Answer, list[str]]] = []
        self._prover: Prover | None = None

    def client(self) -> Steps:
        """Have a client at the node that has declared the queue. Raises LostError where there is none."""
        if self._prover is None or self._prover.gone:
            if self.node not in self._trial.nodes.ready_nodes():
                raise LostError
            self._prover = Prover(self._trial.nodes.place(self.node))
            self._trial.provers.append(self._prover)
            yield self._trial.queue(self._prover, replication="local")
            # The parts of all nodes are bound to one exchange.
            name = self._trial.name
            yield self._prover.ask(m.ExchangeDeclare(name, "fanout", durable=True))
            yield self._prover.ask(m.QueueBind(name, name))

    @property
    def prover(self) -> Prover:
        assert self._prover is not None
        return self._prover

    def publish(self, exchange: str, count: int) -> None:
        some, self.left = self.left[:count], self.left[count:]
        self.published += some
        self._answers.append((self.prover.publish(exchange, self._trial.name, some), some))

    @property
    def idle(self) -> bool:
        return all(answer.given for answer, _ in self._answers)

    def confirmed(self) -> set[str]:
        """The messages that are confirmed, and so are in the part, whatever becomes of the node."""
        return {body for answer, some in self._answers if answer.error is None for body in some}

    def leave(self) -> None:
        if self._prover is not None and self._prover.alive:
            self._prover.leave()


def local_queues(trial: Trial) -> Steps:
    """A node's clients get what clients of the node have published, all that is confirmed, and nothing else,
    whatever becomes of the node and of the others.
    """
    chance = trial.chance
    nodes = trial.nodes.ready_nodes()
    trial.exchanges.append(trial.name)
    parts = [Part(trial, node, chance.randint(2, 12)) for node in nodes]
    try:
        while any(part.left or not part.idle for part in parts):
            part = chance.choice(parts)
            try:
                yield from part.client()
                if part.left:
                    part.publish(chance.choice(("", trial.name)), chance.choice(PUBLISHES))
            except LostError:
                trial.nodes.world.note(f"{trial.name}: {part.node.name} is lost")
            yield chance.choice((0.0, PAUSE_S))
        for part in parts:
            yield from _taken(trial, part)
    finally:
        for part in parts:
            part.leave()


def _taken(trial: Trial, part: Part) -> Steps:
    """Take all from a part, and delete it, with as many clients as it takes."""
    taken: list[Received] = []
    while True:
        try:
            yield from part.client()
            came = {one.body for one in taken}
            yield from trial.take(part.prover, trial.name, part.confirmed() - came, taken)
            yield part.prover.ask(m.QueueDelete(trial.name))
            break
        except LostError:
            yield PAUSE_S
    # A message whose client was lost before it was confirmed may be there.
    trial.check_taken(part.published, taken)
