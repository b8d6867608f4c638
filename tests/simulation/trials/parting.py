"""Queues with a part for each node, while the nodes that have a part change (D20).

The cluster's members stay: the trial gives the commands of the catalog's leader itself, so that parts come
and go often, and while nodes are down.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from cluster.catalog.definitions import PartState, QueueDefinition
from cluster.catalog.placement import ring
from cluster.catalog.state import CatalogState
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import LostError, Steps
from tests.simulation.trials.lending import Lending, lent
from tests.simulation.trials.trial import PAUSE_S, Trial

DELAYS_MS: Final = (0, 1000, 4000)

PACE: Final = 0.1
"""The probability of a publish, each time that clients act: new parts are to get some, too."""

OF_FILTERS: Final = 0.4
"""The share of trials whose consumers have filters."""

CHANGES: Final = 0.1
"""The probability that other nodes are to have a part, each time that clients act."""

MOST_CHANGES: Final = 8

GOING_S: Final = 8.0
"""So long after the last fault, and the end of all consumers, a part that closes is gone."""


def parting(trial: Trial) -> Steps:
    """Every confirmed message comes once, as with a fixed number of owners, also a dead letter of another
    queue, and is in one part at each moment. In the end each part that closes goes.
    """
    source, changing = f"{trial.name} source", Changing(trial)
    clients = Lending(trial, [trial.name, source], DELAYS_MS, PACE, OF_FILTERS)
    trial.timed = True
    yield trial.queue(clients.publisher, owners="each-node")
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": trial.name}
    yield trial.queue(clients.publisher, " source", max_length=0, **dead)
    yield from lent(trial, clients, changing.change)
    for consumer in clients.alive():
        consumer.leave()
    since = trial.now
    while changing.closing():
        since = max(since, trial.nodes.world.disturbed)
        trial.expect(trial.now - since < GOING_S, f"{changing.closing()} do not go")
        yield PAUSE_S


class Changing:
    """The nodes that have a part of a trial's queue."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._left = trial, MOST_CHANGES

    def change(self) -> None:
        """Sometimes have other nodes have a part. Raises LostError where no node is ready, or where a time of
        day was set, so that delayed messages may not come.
        """
        chance, ready = self._trial.chance, self._trial.nodes.ready_nodes()
        if not self._trial.times_hold:
            raise LostError
        if not self._left or chance.random() >= CHANGES:
            return
        if not ready:
            raise LostError
        self._left -= 1
        node = chance.choice(ready)
        queue = self._queue(node.broker.catalog.state)
        if queue is not None:
            names = sorted(node.broker.catalog.state.nodes)
            nodes = sorted(chance.sample(names, chance.randint(1, len(names))))
            self._trial.nodes.world.note(f"{self._trial.name}: {', '.join(nodes)} have a part")
            places = {one: [list(ring(one, names))[:3], []] for one in nodes}
            wanted = {"queue": queue.id, "nodes": nodes, "places": places, "share": 1}
            node.input(partial(_submit, node, wanted))

    def _queue(self, state: CatalogState) -> QueueDefinition | None:
        return state.queues.get(("/", self._trial.name))

    def closing(self) -> list[QueueDefinition]:
        """The parts that are to go, by the newest catalog."""
        ready = self._trial.nodes.ready_nodes()
        if not ready:
            return []
        state = max(ready, key=lambda one: one.broker.catalog.applied_index).broker.catalog.state
        queue = self._queue(state)
        parts = [] if queue is None else state.owner_parts.of(queue)
        return [one for one in parts if one.part is PartState.CLOSING]


def _submit(node: SimulatedNode, wanted: dict[str, Any]) -> None:
    node.broker.catalog.submit("follow_members", wanted, lambda _value, _refusal: None)
    node.wanted()
