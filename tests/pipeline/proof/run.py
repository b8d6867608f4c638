"""One run of the proof: kills of one kind at points that a seed chooses, and the messages at the end."""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pipeline.log.takes import TakeClient
from tests.pipeline.proof.messages import Publisher, in_queue, in_topic
from tests.pipeline.proof.processes import Driver, executor_of, kill
from tests.pipeline.proof.stops import Point, Stopped, Stops
from tests.pipeline.proof.traces import shown_secrets
from tests.pipeline.spark_master import running_master, spark_environment
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node

TOPIC, BETWEEN, TARGET = "topic", "between", "target"
"""The stream, the queue that the second query takes from, and the queue at the end."""

WORKER, EXECUTOR, DRIVER, OWNER, FOLLOWER = KINDS = ("worker", "executor", "driver", "owner", "follower")

READS: Final = ("before read", "in read")
TASKS: Final = (*READS, "before stage", "after stage")
CALLS: Final = ("plan", "advance", "take", "settle", "commit")
EVERYWHERE: Final = (*TASKS, *(f"{side} {call}" for call in CALLS for side in ("before", "after")))
POINTS: Final = {WORKER: TASKS, EXECUTOR: TASKS, DRIVER: EVERYWHERE, OWNER: EVERYWHERE, FOLLOWER: READS}
"""The points at which each kind is killed. `after take` is between a take and Spark's offset log, `after
commit` between the commit of the sink and Spark's commit log.
"""

MOST_NTH: Final = {WORKER: 4, EXECUTOR: 4, DRIVER: 2, OWNER: 3, FOLLOWER: 3}
"""The kill is at the so manyeth process that comes to the point, at most."""

LOOKS: Final = 480
HOLDS: Final = 40
"""How many processes are let go on, where nothing of the kind is to be killed under them."""

MOST_FAILURES: Final = 10
"""How many more queries may fail than are hit by kills. On a machine that has too much to do, Spark gives up
processes of Python that need 10 s for their start.
"""

LOCAL: Final = "local[2,4]"
USER: Final = "job"


class Verdict(NamedTuple):
    """The outcome. `missing` and `doubled`: bodies that the target has less or more often than the stream;
    `left`: messages in the queue between. `failures`: queries that ended without being killed. `secrets`:
    files of Spark with the password.
    """

    kind: str
    seed: int
    kills: Counter[str]
    messages: int
    missing: list[bytes]
    doubled: list[bytes]
    left: int
    failures: int
    secrets: list[str]
    seconds: float

    @property
    def kept(self) -> bool:
        """Whether each message is in the target once, and no file of Spark has the password."""
        return not (self.missing or self.doubled or self.left or self.secrets)

    def line(self) -> str:
        points = ", ".join(f"{count} {point}" for point, count in sorted(self.kills.items()))
        return (
            f"kind {self.kind}, seed {self.seed}: {self.kills.total()} kills ({points}) in "
            f"{self.seconds:.0f} s; {self.messages} messages, {len(self.missing)} missing, "
            f"{len(self.doubled)} doubled, {self.left} left between; {self.failures} queries failed and "
            f"were started again; {len(self.secrets)} files with the password"
        )


class Proof:
    """The cluster, the driver and the publisher of a run."""

    def __init__(self, kind: str, seed: int, scratch: Path, tell: Callable[[str], None]) -> None:
        self.kind, self._seed, self._scratch, self._tell = kind, seed, scratch, tell
        self._chance = random.Random(seed)
        self._cluster = Cluster(scratch / "nodes")
        self._stops = Stops()
        self._password, self._password_file = secrets.token_hex(16), scratch / "password"
        self._environment = {**spark_environment(), "STOPS": str(self._stops.address)}
        self._drivers: list[Driver] = []
        self._standby: Driver | None = None
        self._master = LOCAL
        self._kills: Counter[str] = Counter()
        self._failures = 0

    @property
    def _driver(self) -> Driver:
        return self._drivers[-1]

    def run(self, kills: int, seconds: float = float("inf")) -> Verdict:
        """Make so many kills, or as many as begin within so many seconds. Raises AssertionError where the
        queries do not go on.
        """
        begun = time.monotonic()
        with self._running() as publisher:
            points = self._points()
            for number in range(kills):
                if (started := time.monotonic()) - begun > seconds:
                    break
                stopped = self._hold(Point(next(points), self._chance.randint(1, MOST_NTH[self.kind])))
                self._kills[stopped.point] += 1
                self._tell(
                    f"{number + 1}/{kills} {self.kind} {stopped.point}, process {stopped.pid}, after "
                    f"{time.monotonic() - started:.1f} s, {publisher.confirmed} messages published"
                )
                self._kill(stopped)
            publisher.end()
            return self._verdict(begun)

    @contextmanager
    def _running(self) -> Iterator[Publisher]:
        with ExitStack() as stack:
            stack.callback(self._stops.close)
            stack.enter_context(self._cluster.running())
            if self.kind == EXECUTOR:
                self._master = stack.enter_context(running_master(self._scratch, self._environment))
            stack.callback(self._clean)
            self._declare()
            self._start_driver()
            publisher = Publisher(self._cluster, TOPIC)
            stack.callback(publisher.end)
            yield publisher

    def _declare(self) -> None:
        connection = self._cluster[0].connect()
        channel = connection.channel()
        channel.queue_declare(TOPIC, durable=True, arguments={"x-queue-type": "stream"})
        for name in (BETWEEN, TARGET):
            channel.queue_declare(name, durable=True)
        connection.close()
        api = Management(self._cluster[0])
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        told = api.call("PUT", path_of("users", USER), {"password": self._password, "tags": "management"})
        assert told.status == 201, told
        told = api.call("PUT", path_of("permissions", "/", USER), rights)
        assert told.status == 201, told
        self._password_file.write_text(self._password, encoding="utf-8")

    @property
    def _urls(self) -> list[str]:
        return [node.http for node in self._cluster.nodes]

    def _new_driver(self) -> Driver:
        options = {
            "url": ",".join(self._urls), "user": USER, "passwordFile": str(self._password_file),
            "topic": TOPIC, "between": BETWEEN, "target": TARGET, "master": self._master,
            "scratch": str(self._scratch),
        }  # fmt: skip
        return Driver(options, self._environment, self._scratch / "driver.log")

    def _start_driver(self) -> None:
        """Where drivers are killed, the next one has its session by then."""
        driver, self._standby = self._standby or self._new_driver(), None
        self._drivers.append(driver)
        driver.start_queries()
        if self.kind == DRIVER:
            self._standby = self._new_driver()

    def _look(self) -> None:
        if self._driver.has_ended():
            self._failures += 1
            assert self._failures <= MOST_FAILURES + self._kills.total(), self._log()
            self._tell("a query has failed, and is started again")
            self._start_driver()

    def _clean(self) -> None:
        for driver in [*self._drivers, *([] if self._standby is None else [self._standby])]:
            driver.clean()

    def _points(self) -> Iterator[str]:
        """All points in turn, in an order that the seed gives."""
        points = list(POINTS[self.kind])
        while True:
            self._chance.shuffle(points)
            yield from points

    def _hold(self, point: Point) -> Stopped:
        for _ in range(HOLDS):
            stopped = self._stops.hold(point, self._look, LOOKS)
            assert stopped is not None, f"no process came {point.name}: {self._log()}"
            if self._is_meant(stopped):
                return stopped
            stopped.go_on()
        raise AssertionError(f"{HOLDS} processes at {point.name}, none of which is meant")

    def _is_meant(self, stopped: Stopped) -> bool:
        """Whether a follower answers, or an executor has the task: some processes outlive theirs."""
        if self.kind == FOLLOWER:
            return self._read_node(stopped) != self._cluster.owner(_queue_of(stopped))
        return self.kind != EXECUTOR or executor_of(stopped.pid) is not None

    def _read_node(self, stopped: Stopped) -> Node:
        return next(node for node in self._cluster.nodes if node.http == stopped.url)

    def _log(self) -> str:
        return (self._scratch / "driver.log").read_text("utf-8", "replace")[-4000:]

    def _kill(self, stopped: Stopped) -> None:
        """Kill while the process waits. It goes on behind the kill, if it is there."""
        if self.kind == WORKER:
            kill(stopped.pid)
        elif self.kind == EXECUTOR:
            executor = executor_of(stopped.pid)
            assert executor is not None, "a task without an executor"
            self._kill_with(executor, stopped)
        elif self.kind == DRIVER:
            self._driver.kill()
            if self._chance.random() < 0.5:
                kill(stopped.pid)
            stopped.go_on()
            self._start_driver()
        else:
            self._kill_node(stopped)
        stopped.go_on()

    def _kill_with(self, pid: int, stopped: Stopped) -> None:
        """The process at the stop outlives its parent in half of the cases."""
        kill(pid)
        if self._chance.random() < 0.5:
            kill(stopped.pid)

    def _kill_node(self, stopped: Stopped) -> None:
        if self.kind == FOLLOWER:
            node = self._read_node(stopped)
        else:
            node = self._cluster.owner(self._chance.choice((TOPIC, BETWEEN, TARGET)))
        node.kill()
        stopped.go_on()
        node.start()
        node.wait_ready()

    def _finish(self) -> None:
        """Have the queries end. Those that fail meanwhile are started again."""
        self._look()
        while not self._driver.finish():
            self._look()

    def _verdict(self, begun: float) -> Verdict:
        seconds = time.monotonic() - begun
        self._finish()
        connection = self._cluster[0].connect(heartbeat=0)
        channel = connection.channel()
        wanted, found = in_topic(self._urls, TOPIC), in_queue(channel, TARGET)
        held = TakeClient(self._urls, "guest", "guest").depth("/", BETWEEN)
        connection.close()
        missing, doubled = sorted((wanted - found).elements()), sorted((found - wanted).elements())
        shown = shown_secrets(self._scratch, USER, self._password, self._password_file)
        return Verdict(
            self.kind, self._seed, self._kills, wanted.total(), missing, doubled, held, self._failures,
            shown, seconds,
        )  # fmt: skip


def _queue_of(stopped: Stopped) -> str:
    return BETWEEN if f"/{BETWEEN}/" in stopped.path else TOPIC


def first_of(bodies: Sequence[Any], most: int = 20) -> str:
    """The first of many bodies."""
    return ", ".join(str(int(body)) for body in bodies[:most])
