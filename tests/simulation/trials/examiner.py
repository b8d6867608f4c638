"""Carries out one trial after the other, and deletes the queues and exchanges of each."""

from __future__ import annotations

import random
from collections.abc import Sequence

from node.wire.amqp091 import methods as m
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import LostError, Steps
from tests.simulation.trials import (
    apart,
    barriers,
    cuts,
    epochs,
    feeding,
    filling,
    filters,
    gathering,
    histories,
    keeping,
    lending,
    limits,
    lingering,
    looks,
    moving,
    naming,
    order,
    parting,
    readers,
    refilling,
    routing,
    streams,
    summing,
    taking,
    values,
)
from tests.simulation.trials.trial import PAUSE_S, Kind, Nodes, Trial

KINDS: dict[str, Kind] = {
    "catalog": routing.catalog_changes,
    "names": routing.names_come_and_go,
    "length": limits.length_limit,
    "expiry": limits.expiry,
    "rejection": limits.rejection,
    "delivery limit": limits.delivery_limit,
    "purge": limits.purge,
    "policies": limits.policies,
    "delays": order.delays,
    "duplicates": order.duplicates,
    "priorities": order.priorities,
    "groups": order.groups,
    "single active": order.single_active,
    "gets": order.gets,
    "recoveries": keeping.recoveries,
}

OF_ANSWERS: dict[str, Kind] = {
    "counts": looks.counts,
    "redeclarations": looks.redeclarations,
    "room": looks.room,
    "removals": order.removals,
}
"""Only in seeds about answers."""

OF_LEASES: dict[str, Kind] = {"late graves": limits.late_graves}
"""Only in seeds about leases."""

OF_CONSUMERS: dict[str, Kind] = {
    "refusals": limits.refusals,
    "returns": order.returns,
    "lapses": order.lapses,
    "modifications": order.modifications,
    "posts": keeping.posts,
    "resends": keeping.resends,
    "cancels": limits.cancels,
    "backlogs": order.backlogs,
    "filters": filters.filters,
    "bookmarks": naming.bookmarks,
    "moves": moving.moves,
    "barriers": barriers.barriers,
    "cuts": cuts.cuts,
    "epochs": epochs.epochs,
    "takes": taking.taking,
    "streams": streams.streams,
    "readers": readers.readers,
    "values": values.values,
    "lingering": lingering.lingering,
    "views": summing.summing,
    "histories": histories.histories,
    "loans": lending.lending,
    "gatherings": gathering.gathering,
    "filling": filling.filling,
    "feeding": feeding.feeding,
    "refilling": refilling.refilling,
    "local queues": apart.local_queues,
    "parts": parting.parting,
}
"""Only in seeds about consumers."""

ALL: dict[str, Kind] = KINDS | OF_ANSWERS | OF_LEASES | OF_CONSUMERS
"""By name. No two kinds have the same name: one would never run."""


class Examiner:
    """Runs one trial at a time, of the seed's kinds."""

    def __init__(self, number: int, nodes: Nodes, kinds: Sequence[str]) -> None:
        self.stopped = False
        self.ended: dict[str, int] = dict.fromkeys(kinds, 0)
        """The number of finished trials, by kind."""
        self._number = number
        self._nodes = nodes
        self._kinds = kinds
        self._trial: Trial | None = None
        self._chance: random.Random = nodes.world.chance(f"trials {number}")

    @property
    def idle(self) -> bool:
        return self._trial is None

    @property
    def doing(self) -> str:
        """The name of the current trial."""
        return "" if self._trial is None else self._trial.name

    def node_died(self, node: SimulatedNode) -> None:
        """The trial's clients at the node get no answers any more."""
        for client in [] if self._trial is None else self._trial.clients:
            if client.node is node:
                client.lost()

    def run(self) -> Steps:
        """Run trials until the examiner is stopped."""
        count = 0
        while not self.stopped:
            count += 1
            kind = self._chance.choice(self._kinds)
            trial = self._trial = Trial(self._nodes, f"{kind} {self._number}.{count}", self._chance)
            try:
                yield from ALL[kind](trial)
                self.ended[kind] += 1
            except LostError:
                self._nodes.world.note(f"{trial.name} is given up")
            for client in trial.clients:
                if client.alive:
                    client.leave()
            yield from self._clean(trial)
            self._trial = None
            yield self._chance.uniform(0.0, 6 * PAUSE_S)

    def _clean(self, trial: Trial) -> Steps:
        """Delete the trial's queues and exchanges; repeat until all are deleted."""
        while True:
            yield PAUSE_S
            try:
                sweeper = trial.prover()
                for policy in list(trial.policies):
                    yield trial.drop_policy()
                    trial.policies.remove(policy)
                for name in trial.queues:
                    self._nodes.groups.forget(name)
                    yield sweeper.ask(m.QueueDelete(name))
                for name in trial.exchanges:
                    yield sweeper.ask(m.ExchangeDelete(name))
            except LostError:
                continue
            sweeper.leave()
            return
