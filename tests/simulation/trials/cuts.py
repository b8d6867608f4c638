"""Consistent cuts through the logs of several partitions (X9)."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.owner.cuts import CUT_S, Position
from cluster.owner.partition import PartitionOwner
from node.message.bookmarks import number_of_bookmark
from node.wire.amqp091 import methods as m
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover
from tests.simulation.trials.trial import PAUSE_S, Trial

PATIENCE_S = 0.8 * CUT_S
"""Seconds that a cut waits for the positions of all owners, as the HTTP API does."""


class Cut:
    """A cut through the partitions of some queues, whose owners are asked one after the other."""

    def __init__(self, trial: Trial, partitions: set[int]) -> None:
        self._trial, self._partitions = trial, partitions
        self._number = trial.chance.getrandbits(60)
        self._reached: dict[tuple[str, int, int], Position] = {}
        self._held: set[tuple[str, int, int]] = set()
        self._left = sorted(partitions)
        trial.chance.shuffle(self._left)
        self._until = trial.now + PATIENCE_S
        self.ended = False

    def step(self) -> None:
        """Ask one more owner to hold still. Once all do, or too late, let them go on."""
        if self._left:
            self._begin(self._left.pop())
        elif not self.ended and (self._all(self._reached) or self._trial.now >= self._until):
            self.ended = True
            for partition in self._partitions:
                self._end(partition)

    def _all(self, keys: Any) -> bool:
        return {partition for _, partition, _ in keys} == self._partitions

    def _owners(self, partition: int) -> list[tuple[SimulatedNode, PartitionOwner]]:
        """The nodes that think that they own the partition."""
        found = [(node, node.broker.owners.get(partition)) for node in self._trial.nodes.ready_nodes()]
        return [(node, owner) for node, owner in found if owner is not None and owner.active]

    def _begin(self, partition: int) -> None:
        for node, owner in self._owners(partition):
            reached = partial(self._reach, (node.name, partition, owner.term))
            node.input(partial(owner.begin_cut, self._number, reached))
            node.wanted()

    def _reach(self, key: tuple[str, int, int], position: Position) -> None:
        if not self.ended:
            self._reached[key] = position

    def _end(self, partition: int) -> None:
        for node, owner in self._owners(partition):
            held = partial(self._held.add, (node.name, partition, owner.term))
            node.input(partial(owner.end_cut, self._number, held))
            node.wanted()

    @property
    def positions(self) -> dict[int, Position]:
        """By partition, those that their owners have confirmed."""
        return {key[1]: position for key, position in self._reached.items() if key in self._held}


def cuts(trial: Trial) -> Steps:
    """The messages in front of a cut are the first of a chain, in which each is published once the one before
    is confirmed.
    """
    chance = trial.chance
    declarers = [trial.prover() for _ in range(3)]
    suffixes = [f" {number}" for number in range(4)]
    for number, suffix in enumerate(suffixes):
        yield trial.queue(declarers[number % 3], suffix)
    queues = [f"{trial.name}{suffix}" for suffix in suffixes]
    known = declarers[0].node.broker.catalog.state.queues
    if any(("/", queue) not in known for queue in queues):
        return
    partitions = {queue: known["/", queue].partition for queue in queues}
    ids = {queue: known["/", queue].id for queue in queues}
    cut, answer = Cut(trial, set(partitions.values())), Answer()
    answer.give()
    left, began, haste = numbered("m", chance.randint(20, 60)), False, chance.choice((0.02, 0.1))
    left.reverse()
    where: dict[str, str] = {}
    while left or not answer.given or not cut.ended:
        if left and answer.given:
            body = left.pop()
            where[body] = queue = chance.choice(queues)
            answer = declarers[1].publish("", queue, [body])
        began = began or len(where) > 8
        if began and chance.random() < haste:
            cut.step()
        yield from trial.pause(chance.choice((0.001, 0.005)))
    yield from trial.pause(PAUSE_S)
    positions = cut.positions
    if positions.keys() != set(partitions.values()):
        return
    numbers = yield from _numbers(trial, declarers[2], ids, where)
    front = [numbers[body] <= positions[partitions[where[body]]].message for body in where]
    trial.expect(front == sorted(front, reverse=True), f"{front} of a chain are in front of a cut")


def _numbers(trial: Trial, reader: Prover, ids: dict[str, int], where: dict[str, str]) -> Any:
    """Take all messages, and return their numbers by their bodies."""
    numbers: dict[str, int] = {}
    for queue in ids:
        answer: Any = yield reader.ask(m.BasicConsume(queue, arguments={"x-tell": True}))
        assert isinstance(answer, m.BasicConsumeOk)
    while numbers.keys() != where.keys():
        for one in reader.deliveries:
            numbers[one.body] = number_of_bookmark(ids[where[one.body]], one.headers["x-bookmark"])
            reader.ack(one)
        reader.deliveries = []
        yield from trial.pause(PAUSE_S)
    return numbers
