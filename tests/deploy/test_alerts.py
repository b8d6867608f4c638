"""Each alert is fired by a fault of real nodes: run by `make test-watch`, as root, which full disks take."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Final

import pika
import pytest

from chaos.clients import ClientLoop, PublisherTerms
from chaos.faults import Fsync
from chaos.history import Recorder
from chaos.scenarios import Need
from chaos.targets.local import LocalTarget
from chaos.targets.quorate import Quorate
from tests.deploy.prometheus import RULES, Prometheus
from tests.processes.nodes import until

pytestmark = [pytest.mark.watch]

QUEUES: Final = 96
"""So many that there are as many partitions as three nodes ever get."""

RATE: Final = 20.0
"""Messages a second of each publisher: every disk is asked to sync all the time."""

PATIENCE_S: Final = 300.0
STOPPED_S: Final = 0.4
"""How long a node stands still at a time: that is the fault itself, nothing is waited for by it."""

SLOW: Final = Fsync(delay_s=0.4)
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)

Step = Callable[[], None]
"""The action that keeps a fault going, repeated while the fault lasts."""


class Watched:
    """Three nodes that can be hurt, under a steady load, and the Prometheus that looks at them."""

    def __init__(self, target: LocalTarget, prometheus: Prometheus) -> None:
        self.target = target
        self.prometheus = prometheus

    def connect(self, place: int) -> pika.BlockingConnection:
        there = self.target.places()[place]
        return pika.BlockingConnection(pika.ConnectionParameters(there.host, there.port))

    def whole(self) -> bool:
        return all(map(self.target.ready, self.target.nodes))

    def owns_most(self) -> str:
        return Counter(self.target.owners().values()).most_common(1)[0][0]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    target = LocalTarget(Quorate(), {Need.SHIM, Need.DISK})
    try:
        target.start()
        addresses = [f"{spot.host}:{spot.http}" for spot in target._spots.values()]
        prometheus = Prometheus(addresses, tmp_path_factory.mktemp("prometheus"))
        clients = ClientLoop(Recorder())
        try:
            watched = Watched(target, prometheus)
            declare(watched)
            clients.start()
            for number in range(3):
                terms = PublisherTerms(f"steady-{number}", f"watched-{number}", target.places(), RATE)
                clients.publish(terms)
            yield watched
        finally:
            clients.abandon()
            prometheus.stop()
    finally:
        target.stop()


def declare(watched: Watched) -> None:
    for place in range(3):
        with closing(watched.connect(place)) as connection:
            channel = connection.channel()
            for number in range(place, QUEUES, 3):
                channel.queue_declare(f"watched-{number}", durable=True)


def nothing() -> None:
    """The fault lasts by itself."""


@contextmanager
def two_nodes_are_killed(watched: Watched) -> Iterator[Step]:
    for node in ("n2", "n3"):
        watched.target.kill(node)
    yield nothing
    for node in ("n2", "n3"):
        watched.target.start_again(node)


@contextmanager
def a_disk_is_full(watched: Watched) -> Iterator[Step]:
    watched.target.fill("n1")
    yield nothing
    watched.target.free("n1")


@contextmanager
def a_disk_is_slow(watched: Watched) -> Iterator[Step]:
    watched.target.sync("n1", SLOW)
    yield nothing
    watched.target.sync("n1", Fsync())


@contextmanager
def a_node_gets_no_processor(watched: Watched) -> Iterator[Step]:
    """For moments too short for the others to miss it."""

    def stutter() -> None:
        watched.target.pause("n2")
        time.sleep(STOPPED_S)
        watched.target.resume("n2")

    yield stutter


@contextmanager
def a_follower_hangs(watched: Watched) -> Iterator[Step]:
    """While a client publishes message by message on the owner's node: each message makes an entry."""
    watched.target.pause("n3")
    until(lambda: "n3" not in watched.target.owners().values(), "the others own everything")
    owner = watched.target.owners()["watched-0"]
    with closing(watched.connect(watched.target.nodes.index(owner))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()

        def publish() -> None:
            for _ in range(500):
                channel.basic_publish("", "watched-0", b"", PERSISTENT)

        yield publish
    watched.target.resume("n3")


@contextmanager
def one_owner_after_the_other_hangs(watched: Watched) -> Iterator[Step]:
    def hang() -> None:
        owner = watched.owns_most()
        watched.target.pause(owner)
        until(lambda: owner not in watched.target.owners().values(), f"others own what {owner} did")
        watched.target.resume(owner)
        until(watched.whole, "all nodes are ready")

    yield hang


FAULTS: Final[dict[Callable[[Watched], AbstractContextManager[Step]], set[str]]] = {
    one_owner_after_the_other_hangs: {"QuorateElections"},
    a_disk_is_full: {"QuorateResourceAlarm"},
    a_disk_is_slow: {"QuorateSlowDisk"},
    a_node_gets_no_processor: {"QuorateEventLoopLate"},
    a_follower_hangs: {"QuorateReplicationLag"},
    two_nodes_are_killed: {
        "QuorateNodeDown", "QuorateNotReady", "QuorateNoLeader", "QuoratePeerDisconnected",
    },
}  # fmt: skip
"""The alerts that each fault fires. Elections first: other faults make some too, and ten minutes count."""


@pytest.mark.requirement("F3.3")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fires_its_alerts(
    watched: Watched, fault: Callable[[Watched], AbstractContextManager[Step]]
) -> None:
    alerts, firing = FAULTS[fault], watched.prometheus.firing
    until(watched.whole, "all nodes are ready", PATIENCE_S)
    until(lambda: not firing() & alerts, lambda: f"{firing()} fire before the fault", PATIENCE_S)
    with fault(watched) as step:

        def fired() -> bool:
            step()
            return firing() >= alerts

        until(fired, lambda: f"{alerts} fire: {firing()}", PATIENCE_S)


def test_each_alert_has_its_fault() -> None:
    named = set(re.findall(r"alert: (\w+)", (RULES / "alerts.yml").read_text(encoding="utf-8")))
    assert named == set().union(*FAULTS.values())
