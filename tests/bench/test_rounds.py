"""How the rounds treat clusters: fresh ones where asked, another one after a failure, stopped at the end."""

from __future__ import annotations

from collections.abc import Callable

from bench.brokers import Address, BrokerError
from bench.figures import Row
from bench.measures import Place, Samples, Stage, clients_at
from bench.rounds import Plan, run_rounds


class Recorded:
    """A cluster that writes down what it is told."""

    name = "recorded"
    queue_address = "%s"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def launch_again(self) -> None:
        self.calls.append("launch again")

    def wait_ready(self) -> None:
        self.calls.append("wait ready")

    def revive(self, node: int) -> None:
        self.calls.append(f"revive {node}")

    def address(self, node: int) -> Address:
        return Address("127.0.0.1", 5000 + node)

    def pid(self, node: int) -> int:
        return node

    def owner(self, queue: str, declared_on: int) -> int:
        return declared_on

    def kill_all(self) -> None:
        self.calls.append("kill all")

    def collect_garbage(self) -> None:
        self.calls.append("collect garbage")


def row(name: str, cluster: Recorded, fresh: bool = False, fail: bool = False) -> Row:
    def measure(stage: Stage) -> Samples:
        cluster.calls.append(name)
        if fail:
            raise BrokerError("no answer")
        return {"rate": [1.0]}

    return Row(name, (), measure, fresh)


def calls_of(rows: Callable[[Recorded], list[Row]], rounds: int = 1) -> tuple[list[str], list[str]]:
    cluster = Recorded()
    results = run_rounds(Plan(rows(cluster), rounds, 1, 1, 1), [cluster], lambda line: None)
    return cluster.calls, results.problems


def test_rows_share_a_cluster_unless_one_wants_it_fresh() -> None:
    calls, _ = calls_of(lambda c: [row("one", c), row("two", c), row("three", c, fresh=True)])
    assert calls == ["start", "one", "two", "stop", "start", "three", "stop"]


def test_every_round_starts_anew() -> None:
    calls, _ = calls_of(lambda c: [row("one", c)], rounds=2)
    assert calls == ["start", "one", "stop"] * 2


def test_after_a_failure_the_next_row_gets_a_fresh_cluster() -> None:
    calls, problems = calls_of(lambda c: [row("one", c, fail=True), row("two", c)])
    assert calls == ["start", "one", "stop", "start", "two", "stop"]
    assert problems == ["recorded, one: no answer"]


def test_clients_are_placed_relative_to_the_owner() -> None:
    cluster = Recorded()
    assert clients_at(cluster, Place.OWNER, [1]) == ("127.0.0.1:5001", "127.0.0.1:5001")
    assert clients_at(cluster, Place.OTHERS, [1]) == ("127.0.0.1:5002", "127.0.0.1:5000")
    publish_to, consume_from = clients_at(cluster, Place.ROTATED, [0, 1, 2])
    assert publish_to == consume_from == "127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5000"
