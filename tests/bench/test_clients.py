"""Which clients are measured, where each of them connects, and which messages count."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain, repeat

import pytest

from bench import __main__, clients
from bench.brokers import Address
from bench.client_programs import WARM_UP_S, Meter
from bench.measures import Stage
from bench.rows import CLIENTS
from tests.bench.test_rounds import Recorded


def test_rows_of_clients_that_are_not_installed_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "installed", lambda client: client != "celery")
    assert {row.client for row in __main__.measurable(CLIENTS)} == {"pika", "aio_pika"}
    assert "celery-publish-sink is left out: celery is not installed" in capsys.readouterr().err


def test_only_packages_that_are_there_are_installed() -> None:
    assert clients.installed("json")
    assert not clients.installed("no_such_client")


def test_each_node_is_compared_with_the_sink_and_owns_no_queue_of_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Address] = []

    def run(program: str, address: Address, queue: str, seconds: float, brokers: Sequence[int]) -> object:
        ran.append(address)
        return {"rate": 90.0 if address.port in nodes else 100.0, "client": 1.0, "broker": 0.5, "others": 0.0}

    cluster = Recorded()
    nodes = [cluster.address(node).port for node in range(3)]
    for name in ("declare", "delete", "fill"):
        monkeypatch.setattr(clients, name, lambda *_, **__: None)
    monkeypatch.setattr(clients, "run", run)
    samples = clients.share_of_sink(Stage(cluster, 1.0, 1, 1), "pika-publish")
    assert samples["share"] == [0.9, 0.9, 0.9]
    assert [address.port in nodes for address in ran] == [False, True] * 3
    # The recorded cluster's owners are the nodes 0, 1 and 2, in turn.
    assert [nodes.index(address.port) for address in ran[1::2]] == [1, 0, 0]


def test_a_meter_counts_after_the_warm_up_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = chain([10.0, 10.1, 10.0 + WARM_UP_S, 11.0, 12.5], repeat(99.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    meter = Meter(2.0)
    assert [meter.more(10) for _ in range(6)] == [True, True, True, True, False, False]
    assert meter.result["rate"] == 10.0
