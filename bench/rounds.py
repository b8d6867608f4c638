"""Running the rows on each cluster in turn, round after round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pika.exceptions import AMQPError

from bench.brokers import BrokerError, Cluster
from bench.figures import Row
from bench.load import LoadError
from bench.measures import Samples, Stage


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure: `seconds` of load a run, `waiting` messages in a full queue."""

    rows: Sequence[Row]
    rounds: int
    seconds: float
    waiting: int
    kills: int

    @property
    def kills_a_round(self) -> int:
        return -(-self.kills // self.rounds)


@dataclass(slots=True)
class Results:
    """Samples by row and cluster over all rounds, and what went wrong on the way."""

    samples: dict[tuple[str, str], Samples] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, row: str, cluster: str, samples: Samples) -> None:
        kept = self.samples.setdefault((row, cluster), defaultdict(list))
        for name, values in samples.items():
            kept[name] += values


def run_rounds(plan: Plan, clusters: Sequence[Cluster], tell: Callable[[str], None]) -> Results:
    """All rounds: every cluster runs alone, one after the other, so that both see the same machine."""
    results = Results()
    for number in range(1, plan.rounds + 1):
        for cluster in clusters:
            tell(f"round {number} of {plan.rounds}: {cluster.name}")
            run_round(plan, cluster, results, tell)
    return results


def run_round(plan: Plan, cluster: Cluster, results: Results, tell: Callable[[str], None]) -> None:
    """Each row once. A row that fails is a problem of the results, and the next gets a fresh cluster."""
    stage = Stage(cluster, plan.seconds, plan.waiting, plan.kills_a_round, results.problems)
    running = False
    try:
        for row in plan.rows:
            if row.fresh and running:
                cluster.stop()
                running = False
            try:
                if not running:
                    cluster.start()
                    running = True
                samples = row.measure(stage)
            except (LoadError, BrokerError, AMQPError, OSError) as error:
                results.problems.append(f"{cluster.name}, {row.id}: {error or repr(error)}")
                tell(f"  {row.id}: {error or repr(error)}")
                cluster.stop()
                running = False
                continue
            results.add(row.id, cluster.name, samples)
            tell(f"  {row.id}: {describe(samples)}")
    finally:
        cluster.stop()


def describe(samples: Samples) -> str:
    return ", ".join(
        f"{name} " + " ".join(f"{value:,.3g}" if value < 100 else f"{value:,.0f}" for value in values)
        for name, values in samples.items()
    )
