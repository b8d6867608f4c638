"""The curves of docs/scaling.md as data, and how each of their points is measured, with mixed messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.brokers import Address, processor_seconds, resident_bytes
from bench.growth import Cost, Figure, Point
from bench.load import LoadResult, run_load
from bench.measures import STEADY, UNLIMITED_SECONDS, Samples
from bench.quorate import Quorate
from bench.raw import DECLARED, RawClient, declaration

CLIENTS = 10
"""Publishers, and as many consumers, of each curve about something else."""
WINDOW = 100
SMALL_WINDOW = 10
CHANNELS = 200
QUEUES = 15
IN_FLIGHT = 64 << 20
"""Octets of messages of one size that may be unconfirmed."""
REST_S = 1.0
WEIGHABLE = 50
"""The memory of a node says nothing about fewer units."""
WEIGHABLE_MESSAGES = 100_000
COUNTABLE_MESSAGES = 50_000
"""The kernel counts processor time in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The cluster of a point."""

    nodes: int = 3
    cores: str = ""
    memory: bool = False
    """Whether the data is in memory (tmpfs) and not on the disk."""


@dataclass(slots=True)
class Ground:
    """A running cluster, and what the points of this round have left there."""

    cluster: Quorate
    pids: Sequence[int]
    seconds: float
    clients: ExitStack
    problems: list[str]
    declared: int = 0
    connected: int = 0
    waiting: int = 0
    before: int = 0

    def address(self, node: int) -> Address:
        return self.cluster.address(node % self.cluster.nodes)

    def everywhere(self) -> str:
        return ",".join(str(self.address(node)) for node in range(self.cluster.nodes))

    def watched(self) -> str:
        """The processes whose processor time the load generator reads."""
        return ",".join(map(str, self.pids))

    def memory(self) -> int:
        """The resident octets of all nodes, at rest."""
        time.sleep(REST_S)
        return sum(map(resident_bytes, self.pids))

    def at_rest(self) -> float:
        """The share of one core, in percent, that all nodes take together while no client does anything."""
        time.sleep(REST_S)
        began, before = time.monotonic(), sum(map(processor_seconds, self.pids))
        time.sleep(REST_S)
        return 100 * (sum(map(processor_seconds, self.pids)) - before) / (time.monotonic() - began)

    def load(self, what: str, **options: int | str) -> LoadResult:
        """Mixed messages from and to clients of all nodes, acknowledged one by one."""
        everywhere = self.everywhere()
        defaults: dict[str, int | str] = {
            "queue": "bench", "declare": 0, "mixed": 1, "ack_every": 1, "publish_to": everywhere,
            "consume_from": everywhere, "publishers": CLIENTS, "consumers": CLIENTS, "window": WINDOW,
            "prefetch": WINDOW, "watch": self.watched(),
        }  # fmt: skip
        result = run_load(self.seconds, **{**defaults, **options})
        if result.broken_promises:
            self.problems.append(f"{what}: {', '.join(result.broken_promises)}")
        return result


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure or several over points. `measure` is asked for the points of a round one after the other, on
    one cluster as long as the layout is the same.
    """

    id: str
    title: str
    axis: str
    points: Sequence[Point]
    figures: Sequence[Figure]
    measure: Callable[[Ground, Point], Samples]
    layouts: Sequence[Layout] = field(default_factory=lambda: (Layout(),))
    """The layout of each point, or the one of all points."""

    def layout(self, place: int) -> Layout:
        return self.layouts[place] if len(self.layouts) > 1 else self.layouts[0]


def names(queues: int) -> list[str]:
    """As the load generator calls them."""
    return ["bench"] if queues == 1 else [f"bench-{number}" for number in range(queues)]


def declare(ground: Ground, called: Sequence[str]) -> float:
    """Declares replicated queues through all nodes in turn, each after the other; seconds that it took."""
    nodes = ground.cluster.nodes
    clients = [RawClient(ground.address(node)) for node in range(nodes)]
    began = time.perf_counter()
    for number, name in enumerate(called):
        clients[number % nodes].pipeline([declaration(name, "quorum")], DECLARED)
    taken = time.perf_counter() - began
    for client in clients:
        client.close()
    return taken


def rated(result: LoadResult) -> Samples:
    """The rate, and the processor time of all nodes for a message, in microseconds."""
    messages = max(1, result.published)
    return {"rate": [result.end_to_end_rate], "cpu": [1e6 * result.processor_seconds / messages]}


def full_load(ground: Ground, point: Point, each: int, **options: int | str) -> list[float]:
    """The processor time for a message where no fewer than `each` messages of each queue are under way: the
    cost of a turn is then that of as many messages at each point.
    """
    window = max(WINDOW, point.number * each // CLIENTS)
    result = ground.load(f"{point}, window {window}", window=window, prefetch=window, **options)
    return rated(result)["cpu"]


def queues(ground: Ground, point: Point) -> Samples:
    """Each publisher publishes to its share of the queues in turn, a message each."""
    called = names(point.number)
    new = called if ground.declared <= 1 else called[ground.declared :]
    taken = declare(ground, new)
    ground.declared = point.number
    result = ground.load(f"{point} queues", queues=point.number)
    full = full_load(ground, point, 10, queues=point.number)
    return {**rated(result), "full": full, "declare": [taken * 1000 / len(new)]}


def beside(ground: Ground, point: Point) -> Samples:
    """Queues that no client uses, beside a load that stays the same."""
    if not ground.declared:
        declare(ground, names(CLIENTS))
        ground.load("warming up", queues=CLIENTS)
    before, nodes = ground.memory(), ground.cluster.nodes
    new = range(ground.declared, point.number)
    for node in range(nodes):
        with RawClient(ground.address(node)) as client:
            client.open_channels(CHANNELS)
            client.pipeline(
                [
                    declaration(f"idle-{one}", "quorum", 1 + one % CHANNELS)
                    for one in new
                    if one % nodes == node
                ],
                DECLARED,
            )
    ground.declared = point.number
    found: Samples = {}
    if len(new) >= WEIGHABLE:
        found["bytes"] = [(ground.memory() - before) / len(new) / 1000]
    found["idle"] = [ground.at_rest()]
    return {**found, **rated(ground.load(f"beside {point} queues", queues=CLIENTS))}


def connections(ground: Ground, point: Point) -> Samples:
    """Half of the connections publish and half consume, each with a small window."""
    half = point.number // 2
    called = names(min(half, CLIENTS))
    if ground.declared < len(called):
        declare(ground, called)
        ground.declared = len(called)
    result = ground.load(
        f"{point} connections", queues=len(called), publishers=half, consumers=half, window=SMALL_WINDOW,
        prefetch=SMALL_WINDOW,
    )  # fmt: skip
    return {**rated(result), "p50": [result.confirm_p50]}


def idle(ground: Ground, point: Point) -> Samples:
    """Connections with a channel that do nothing, beside a load that stays the same."""
    if not ground.connected:
        declare(ground, names(CLIENTS))
        ground.load("warming up", queues=CLIENTS)
    before, new = ground.memory(), point.number - ground.connected
    while ground.connected < point.number:
        client = RawClient(ground.address(ground.connected))
        ground.clients.callback(client.close)
        ground.connected += 1
    found: Samples = {}
    if new >= WEIGHABLE:
        found["bytes"] = [(ground.memory() - before) / new / 1000]
    found["idle"] = [ground.at_rest()]
    return {**found, **rated(ground.load(f"beside {point} connections", queues=CLIENTS))}


def sizes(ground: Ground, point: Point) -> Samples:
    """One queue, its clients on its owner's node. The mean of the lengths is the point's size."""
    if not ground.declared:
        declare(ground, ["bench"])
        ground.declared = 1
    address = str(ground.address(0))
    window = max(2, min(STEADY["window"], IN_FLIGHT // point.number))
    prefetch = max(2, window // 2)
    result = ground.load(
        f"{point} octets", publish_to=address, consume_from=address, publishers=1, consumers=1,
        size=point.number, window=window, prefetch=prefetch, ack_every=max(1, min(50, prefetch // 2)),
    )  # fmt: skip
    mean = result.octets / max(1, result.delivered)
    return {
        "rate": [result.end_to_end_rate],
        "mb": [result.end_to_end_rate * mean / 1e6],
        "cpu": [1e9 * result.processor_seconds / max(1, result.octets)],
    }


def waiting(ground: Ground, point: Point) -> Samples:
    """Publishes to a queue that no client consumes from, from the point before to this one."""
    address = str(ground.address(0))
    if not ground.declared:
        declare(ground, ["bench"])
        ground.declared = 1
        ground.load("warming up", publish_to=address, consume_from=address, publishers=1, consumers=1)
        ground.memory()
        ground.before = resident_bytes(ground.pids[0])
    count = point.number - ground.waiting
    result = run_load(
        UNLIMITED_SECONDS, queue="bench", declare=0, purge=0, mixed=1, publish_to=address, consumers=0,
        count=count, window=min(STEADY["window"], count // 10), watch=ground.watched(),
    )  # fmt: skip
    ground.waiting = point.number
    found: Samples = {"rate": [result.publish_rate]}
    if count >= COUNTABLE_MESSAGES:
        found["cpu"] = rated(result)["cpu"]
    if point.number >= WEIGHABLE_MESSAGES:
        ground.memory()
        found["bytes"] = [(resident_bytes(ground.pids[0]) - ground.before) / point.number]
    return found


def partitions(ground: Ground, point: Point) -> Samples:
    """Partitions of one owner, with a queue each. Queues for another number of replicas are in another
    partition, so each queue asks for a number of its own, of which three can be had.
    """
    before, others = ground.memory(), ground.declared > 0
    called = names(point.number)
    new = called if ground.declared <= 1 else called[ground.declared :]
    with RawClient(ground.address(0)) as client:
        for place, name in enumerate(new, point.number - len(new)):
            replicas = 3 + place if point.number > 1 else 1000
            client.pipeline([declaration(name, "quorum", replicas=replicas)], DECLARED)
    ground.declared = point.number
    grown = ground.memory() - before
    # The first partition brings code and buffers of the whole node with it.
    found: Samples = {"bytes": [grown / len(new) / 1000]} if others else {}
    found["idle"] = [ground.at_rest()]
    address = str(ground.address(0))
    result = ground.load(f"{point} partitions", queues=point.number, publish_to=address, consume_from=address)
    full = full_load(ground, point, 60, queues=point.number, publish_to=address, consume_from=address)
    return {**found, **rated(result), "full": full}


def crowd(ground: Ground, point: Point) -> Samples:
    """Clients of all nodes on queues of all nodes."""
    if not ground.declared:
        declare(ground, names(QUEUES))
        ground.declared = QUEUES
    return rated(ground.load(str(point), queues=QUEUES))


def directory(layout: Layout, disk: Path) -> Path:
    return (Path("/dev/shm") if layout.memory else disk) / "quorate-scaling"


RATE = Figure("rate", "messages/s", Cost.RATE)
CPU = Figure("cpu", "processor time of all nodes a message, µs", Cost.EACH, 1)
IDLE = Figure("idle", "processor at rest, all nodes, % of a core", Cost.SHARED, 1)


COMPARED = (Figure("rate", "messages/s", Cost.NONE), Figure("cpu", CPU.title, Cost.NONE, 1))

SIZES = tuple(
    Point(size << shift, f"{size} {unit}")
    for size, shift, unit in (
        (64, 0, "B"), (256, 0, "B"), (1, 10, "KiB"), (16, 10, "KiB"), (256, 10, "KiB"), (1, 20, "MiB"),
        (16, 20, "MiB"),
    )
)  # fmt: skip


def points(*numbers: int) -> tuple[Point, ...]:
    return tuple(map(Point, numbers))


CURVES: tuple[Curve, ...] = (
    Curve(
        "queues",
        f"Queues, with {CLIENTS} publishers and {CLIENTS} consumers",
        "queues",
        points(1, 10, 100, 1000),
        (
            RATE,
            CPU,
            Figure("full", "the same with 10 messages of each queue under way, µs", Cost.EACH, 1),
            Figure("declare", "declaring one, ms", Cost.EACH, 2),
        ),
        queues,
    ),
    Curve(
        "beside",
        f"Queues that no client uses, beside {CLIENTS} queues in use",
        "unused queues",
        points(1, 100, 1000, 10_000),
        (RATE, CPU, Figure("bytes", "memory of each on all nodes, kB", Cost.EACH, 1), IDLE),
        beside,
    ),
    Curve(
        "connections",
        f"Connections with a window of {SMALL_WINDOW}, on {CLIENTS} queues",
        "connections",
        points(2, 10, 100, 1000, 5000),
        (RATE, CPU, Figure("p50", "confirm p50, ms", Cost.SHARED, 2)),
        connections,
    ),
    Curve(
        "idle",
        f"Idle connections, beside {CLIENTS} publishers and {CLIENTS} consumers",
        "idle connections",
        points(1, 10, 100, 1000, 5000),
        (RATE, CPU, Figure("bytes", "memory of each, kB", Cost.EACH, 1), IDLE),
        idle,
    ),
    Curve(
        "sizes",
        "Sizes of messages, one queue",
        "octets",
        SIZES,
        (
            Figure("rate", "messages/s", Cost.NONE, 1),
            Figure("mb", "MB/s", Cost.RATE, 1),
            Figure("cpu", "processor time of all nodes an octet, ns", Cost.EACH, 2),
        ),
        sizes,
    ),
    Curve(
        "waiting",
        "Waiting messages in one queue",
        "messages",
        points(*(10**power for power in range(3, 8))),
        (
            Figure("rate", "published on the way there, messages/s", Cost.RATE),
            CPU,
            Figure("bytes", "owner's memory a message, B", Cost.EACH),
        ),
        waiting,
    ),
    Curve(
        "partitions",
        "Partitions of one owner, a queue each",
        "partitions",
        points(1, 4, 16, 64),
        (
            RATE,
            CPU,
            Figure("full", "the same with 60 messages of each partition under way, µs", Cost.EACH, 1),
            Figure("bytes", "memory of each on all nodes, kB", Cost.EACH, 1),
            IDLE,
        ),
        partitions,
    ),
    Curve(
        "nodes",
        f"Nodes, {QUEUES} queues, all on the same cores",
        "nodes",
        points(1, 3, 5),
        COMPARED,
        crowd,
        tuple(Layout(nodes=nodes) for nodes in (1, 3, 5)),
    ),
    Curve(
        "cores",
        f"Cores of three nodes, {QUEUES} queues",
        "cores",
        points(1, 2),
        COMPARED,
        crowd,
        (Layout(cores="0"), Layout(cores="0,1")),
    ),
    Curve(
        "disk",
        f"Where the data is, {QUEUES} queues",
        "data",
        (Point(1, "disk"), Point(2, "memory (tmpfs)")),
        COMPARED,
        crowd,
        (Layout(), Layout(memory=True)),
    ),
)
