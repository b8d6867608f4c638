"""The latency of a client beside floods of wide header tables: python -m bench.wide_headers [--rounds 3].

One client publishes a hundred messages a second, each after the confirm of the one before. In turn it is
alone, and beside four clients that publish tables of 4,000 values as fast as the node lets them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from bench.brokers import Address, BrokerError
from bench.quorate import Quorate
from bench.raw import ACK, RawClient, long, short

VALUES: Final = 4000
FLOODS: Final = 4
PAUSE_S: Final = 0.01
TABLES: Final = 7
"""So many tables, one after the other, are more than a connection remembers."""


def wide(number: int) -> bytes:
    """The fields of a table with values of its own."""
    return b"".join(short(f"{number}.{key}") + b"V" for key in range(VALUES))


def deep() -> bytes:
    """A wide table within tables."""
    fields = wide(0)
    for _ in range(6):
        fields = short("t") + b"F" + long(fields)
    return fields


KINDS: Final = {
    "alone": [],
    "one table": [wide(0)],
    "different tables": [wide(number) for number in range(TABLES)],
    "deep tables": [deep()],
}


def flood(address: Address, tables: list[bytes]) -> None:
    """Publish until the process is ended."""
    with RawClient(address) as client:
        try:
            while True:
                for table in tables:
                    client.publish("flooded", b"x", headers=table)
        except (BrokerError, OSError) as error:
            print(f"a flood has ended: {error}", flush=True)


@contextmanager
def flooded(address: Address, tables: list[bytes]) -> Iterator[None]:
    """Four processes publish meanwhile; none where there are no tables."""
    spawn = multiprocessing.get_context("spawn")
    count = FLOODS if tables else 0
    processes = [spawn.Process(target=flood, args=(address, tables)) for _ in range(count)]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    p99: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        cluster = Quorate(Path(directory) / "quorate")
        cluster.start()
        try:
            address = cluster.address(0)
            with RawClient(address) as client:
                client.declare("good", "quorum")
                client.declare("flooded", "quorum")
                client.confirm()
                latencies(client, 2.0)
                for number in range(options.rounds):
                    for kind, tables in KINDS.items():
                        with flooded(address, tables):
                            latencies(client, 1.5)
                            p99[kind].append(quantiles(latencies(client, options.seconds), n=100)[-1])
                        print(f"round {number + 1}, {kind}: p99 {p99[kind][-1]:.2f} ms", flush=True)
        finally:
            cluster.stop()
    base = median(p99["alone"])
    for kind, found in p99.items():
        print(f"{kind}: median p99 {median(found):.2f} ms, {median(found) / base:.2f} x alone")


if __name__ == "__main__":
    main()
