"""The latency of a client alone, and beside floods of other clients: one program for each kind of flood.

The client publishes a hundred messages a second, each after the confirm of the one before. In turn it is
alone, and beside four processes that do one thing as fast as the node lets them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any, Final

from bench.quorate import Quorate, temporary
from bench.raw import ACK, RawClient

FLOODS: Final = 4
PAUSE_S: Final = 0.01
ALONE: Final = "alone"

Flood = tuple[Callable[..., None], Any]
"""A function that floods until its process is ended, with its argument behind the node's address."""


@contextmanager
def flooded(cluster: Quorate, flood: Flood | None) -> Iterator[None]:
    """Four processes flood the first node meanwhile; none without a flood."""
    processes = []
    if flood is not None:
        spawn = multiprocessing.get_context("spawn")
        target, argument = flood
        arguments = (cluster.address(0), argument)
        processes = [spawn.Process(target=target, args=arguments) for _ in range(FLOODS)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


def latencies(client: RawClient, seconds: float) -> list[float]:
    """The milliseconds from each publish to its confirm."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        client.publish("good", b"x" * 100)
        client.expect(ACK)
        found.append((time.monotonic() - begun) * 1000)
        time.sleep(PAUSE_S)
    return found


def compare(
    text: str | None, floods: Mapping[str, Flood], prepare: Callable[[Quorate, RawClient], None]
) -> None:
    """Measure and print the client's p99 alone and beside each flood. `prepare` declares what floods use."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    kinds: dict[str, Flood | None] = {ALONE: None, **floods}
    p99: dict[str, list[float]] = {kind: [] for kind in kinds}
    with temporary() as cluster, RawClient(cluster.address(0)) as client:
        client.declare("good", "quorum")
        client.confirm()
        prepare(cluster, client)
        latencies(client, 2.0)
        for number in range(options.rounds):
            for kind, flood in kinds.items():
                with flooded(cluster, flood):
                    latencies(client, 1.5)
                    p99[kind].append(quantiles(latencies(client, options.seconds), n=100)[-1])
                print(f"round {number + 1}, {kind}: p99 {p99[kind][-1]:.2f} ms", flush=True)
    base = median(p99[ALONE])
    for kind, found in p99.items():
        print(f"{kind}: median p99 {median(found):.2f} ms, {median(found) / base:.2f} x alone")
