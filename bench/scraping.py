"""The cost of scrapes to publishers: python -m bench.scraping [--queues 10000] [--rounds 3].

One cluster with so many queues; publishers at full speed on one node, in turn without scrapes, with a
Prometheus that asks that node as deploy/prometheus/prometheus.yml has it do, and with clients that ask for
every page without a pause.
"""

from __future__ import annotations

import argparse
import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Final

from bench.brokers import Address
from bench.load import build, run_load
from bench.measures import STEADY
from bench.quorate import GUEST, temporary
from bench.raw import RawClient

EVERY_S: Final = {"/metrics": 5.0, "/metrics/queues": 15.0}
"""Seconds between two scrapes of a page."""
WINDOW_S: Final = 44.0
"""A window of a little less than some intervals has as many scrapes of each page as Prometheus makes in that
time. Every window begins with one.
"""

PAGES: Final = (*EVERY_S, "/metrics/per-object")


def scrape(address: Address, stopped: threading.Event, page: str, pause_s: float) -> None:
    """Ask for a page, and again after a pause, until it is enough."""
    while not stopped.is_set():
        connection = http.client.HTTPConnection(address.host, address.port, timeout=60)
        connection.request("GET", page, headers=GUEST)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200, (page, answer.status)
        stopped.wait(pause_s)


@contextmanager
def scraped(address: Address, clients: Sequence[tuple[str, float]]) -> Iterator[None]:
    """`clients`: the page that each asks for, and the seconds between."""
    stopped = threading.Event()
    threads = [threading.Thread(target=scrape, args=(address, stopped, *client)) for client in clients]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        stopped.set()
        for one in threads:
            one.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=WINDOW_S)
    options = parser.parse_args()
    build()
    kinds: dict[str, list[tuple[str, float]]] = {
        "nobody": [],
        "Prometheus": list(EVERY_S.items()),
        "clients without a pause": [(page, 0.0) for page in PAGES],
    }
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    with temporary() as cluster:
        with RawClient(cluster.address(0)) as client:
            for number in range(options.queues):
                client.declare(f"scraped-{number}", "quorum")
        owner = cluster.owner("scraped-0", 0)
        address, pages = cluster.address(owner), cluster.http(owner)
        for number in range(options.rounds):
            for kind, clients in kinds.items():
                with scraped(pages, clients):
                    result = run_load(
                        options.seconds, queue="scraped-0", type="quorum", publish_to=str(address),
                        consume_from=str(address), **STEADY,
                    )  # fmt: skip
                rates[kind].append(result.publish_rate)
                print(f"round {number + 1}, scraped by {kind}: {result.publish_rate:,.0f} /s", flush=True)
    base = median(rates["nobody"])
    for kind, found in rates.items():
        print(f"{kind}: median {median(found):,.0f} /s, {median(found) / base:.3f} of unscraped")


if __name__ == "__main__":
    main()
