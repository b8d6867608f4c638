"""Nodes as real processes on free loopback ports, each of which can be killed, frozen and started again."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import signal
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pika
from pika.exceptions import AMQPConnectionError

from cluster.cli.local.forked_process import ForkedProcess, run_forked_node
from cluster.cli.local.layout import KEY_FILE, PEER_OFFSET, LocalNode, PortInUseError, is_free, plan, prepare
from cluster.cli.local.supervisor import node_arguments
from cluster.config.addresses import Address
from cluster.config.models import parse
from cluster.config.passwords import PasswordHash
from cluster.config.tables import ConfigError
from cluster.config.toml_text import TomlTable, toml_text
from cluster.system.data_directory import write_private
from replication.transport import CurveKeys
from tests.processes.releases import InstalledProcess

START_S = 30.0
"""A node that is not ready after this time will never be."""

POLL_S = 0.05
"""Each look costs the node and the test some milliseconds, which other tests wait for."""

# Below what the system gives to outgoing connections (32768 and up), the peers' ports included. Runs of
# `chaos` take theirs between (chaos.targets.ports).
AMQP_PORTS = range(8000, 11400)
UP_PORTS = range(11400, 12700)
"""Of clusters that a test starts by `quorate up` and its parts (tests.operations.test_local_cluster)."""

HTTP_PORTS = range(13000, 19000)


def own_part(ports: range) -> range:
    """The ports that this worker of pytest may use: between the look at a port and its use lies a start.

    A cluster begins at one of them and takes a few that follow; those stay free between two parts.
    """
    workers, worker = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), _worker()
    size = len(ports) // workers
    return ports[worker * size : (worker + 1) * size - (MOST_NODES if workers > 1 else 0)]


def _worker() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


MOST_NODES: Final = 50
"""No test starts so many nodes at consecutive ports."""

T = TypeVar("T")

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

GUEST: Final = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
"""The credentials of guest, for pages that need a user."""


def _quick_hash(password: bytes) -> str:
    """A hash that nodes check in no time."""
    salt = b"no secret"
    return str(PasswordHash(16, 1, 1, salt, hashlib.scrypt(password, salt=salt, n=16, r=1, p=1, dklen=32)))


USERS: Final = {"guest": {"password_hash": _quick_hash(b"guest")}}
"""The users of a test's cluster. An ordinary hash would take each node some 50 ms of a processor when the
cluster is founded, and again at the first log-in after each start."""


class NotInTimeError(AssertionError):
    """Something that had to become true did not."""


def until(condition: Callable[[], T | None], what: str | Callable[[], str], seconds: float = START_S) -> T:
    """Asks again until the condition holds, and returns its value.

    Raises NotInTimeError, which says `what` was waited for, after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            raise NotInTimeError(f"{text}: not within {seconds:.0f} s")
        time.sleep(POLL_S)
    return value


def read_page(url: str, timeout_s: float) -> bytes:
    """A page of metrics, or the status, of which nothing is older than the question."""
    asked = time.monotonic()

    def young() -> bytes | None:
        request = urllib.request.Request(url, headers=GUEST)
        with _direct.open(request, timeout=timeout_s) as response:
            # The release before remembers no pages.
            age_s = int(response.headers.get("Age-Ms", "0")) / 1000
            answered = time.monotonic()
            return bytes(response.read()) if age_s <= answered - asked else None

    return until(young, f"a page of {url} that is no older than the question")


class Node:
    """One node: its process now, its ports, its log."""

    def __init__(self, local: LocalNode) -> None:
        self.local = local
        self.process: ForkedProcess | InstalledProcess | None = None
        self.installed: Path | None = None
        """Where the packages of the release are that it runs; None: of this tree."""

    @property
    def name(self) -> str:
        return self.local.name

    @property
    def amqp(self) -> Address:
        return self.local.config.listen.amqp

    @property
    def http(self) -> str:
        return f"http://{self.local.config.listen.http}"

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.amqp}/"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} does not run"
        return self.process.pid

    def configure(self, table: str, **values: str | int | float) -> None:
        """Set keys of a table of `[node]`, for the next start."""
        tables = tomllib.loads(self.local.file.read_text(encoding="utf-8"))
        tables["node"].setdefault(table, {}).update(values)
        self.local.file.write_text(toml_text(tables), encoding="utf-8")

    def configured(self) -> dict[str, Any]:
        """The tables of its configuration file."""
        return tomllib.loads(self.local.text)

    def replace_configuration(self, tables: dict[str, Any]) -> None:
        """What `configured` gave, changed: the next start goes by it, as do the tests."""
        text = toml_text(tables)
        self.local.file.write_text(text, encoding="utf-8")
        self.local = LocalNode(parse(text, self.name), self.local.file, text, self.local.keys)

    def start(self, *options: str) -> None:
        arguments, log = [*node_arguments(self.local), *options], self.local.log_file
        if self.installed is None:
            self.process = ForkedProcess(run_forked_node, arguments, log)
        else:
            self.process = InstalledProcess(self.installed, arguments, log)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        self.send(number)
        return self.reap()

    def reap(self) -> int:
        """Returns the exit code when the process, which has been told to end, has ended."""
        assert self.process is not None
        code = self.process.wait(START_S)
        self.process = None
        return code

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None, f"{self.name} does not run"
        self.process.send(number)

    def erase(self) -> None:
        """Its disk is lost: only its configuration, its key and its log are there again."""
        for path in self.local.config.data_dir.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path not in (self.local.file, self.local.log_file, self.local.config.secret_key_file):
                path.unlink()

    def ready(self) -> bool:
        if self.process is not None and (code := self.process.exit_code()) is not None:
            raise NotInTimeError(f"{self.name} ended with {code}")
        try:
            with _direct.open(self.http + "/health/ready", timeout=2.0) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def wait_ready(self) -> None:
        until(self.ready, f"{self.name} is ready")

    @property
    def whereabouts(self) -> tuple[str, ...]:
        """What `quorate cluster add` is told of it."""
        key = self.local.keys.public.decode()
        return "--address", str(self.local.config.own.peers), f"--public-key={key}"

    def metrics(self) -> dict[str, float]:
        """Samples by name, labels included as Prometheus writes them."""
        lines = read_page(self.http + "/metrics", 5.0).decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def resident_bytes(self) -> int:
        """VmRSS."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def connect(self, **options: Any) -> pika.BlockingConnection:
        """An ordinary client; `options` are pika's connection parameters. Raises AMQPError."""
        defaults = {"blocked_connection_timeout": 30, "socket_timeout": 10, "stack_timeout": 10}
        parameters = pika.ConnectionParameters(self.amqp.host, self.amqp.port, **(defaults | options))
        try:
            return pika.BlockingConnection(parameters)
        except ValueError as error:
            # pika calls a socket wrong whose node dies between the accept and the first octet.
            raise AMQPConnectionError(str(error)) from error


class Cluster:
    """Three nodes; counted from 0, named from n1."""

    def __init__(self, data: Path, settings: Mapping[str, Any] | None = None, nodes: int = 3) -> None:
        """`settings`: keys of the table `[cluster]`."""
        planned = _planned(nodes, data, {"users": USERS} | dict(settings or {}))
        self.nodes = [Node(local) for local in planned]
        self._read: dict[str, int] = {}

    def __getitem__(self, place: int) -> Node:
        return self.nodes[place]

    def newcomer(self, name: str) -> Node:
        """A node that is configured to join. It does not run yet, and is not added yet."""
        first = self.nodes[0].local
        cluster = tomllib.loads(first.text)["cluster"]
        while True:
            amqp, http = random.choice(own_part(AMQP_PORTS)), random.choice(own_part(HTTP_PORTS))
            addresses = [Address("127.0.0.1", port) for port in (amqp, http, amqp + PEER_OFFSET)]
            if all(map(is_free, addresses)):
                break
        own: TomlTable = dict(zip(("amqp", "http", "peers"), map(str, addresses), strict=True))
        directory = first.config.data_dir.parent / name
        directory.mkdir()
        keys = CurveKeys.generate()
        write_private(directory / KEY_FILE, keys.secret.decode())
        node: TomlTable = {
            "name": name, "data_dir": str(directory), "secret_key_file": str(directory / KEY_FILE),
            "listen": own, "advertised": own,
        }  # fmt: skip
        text = toml_text({"node": node, "cluster": cluster})
        (directory / "node.toml").write_text(text)
        (directory / "node.toml").chmod(0o600)
        self.nodes.append(Node(LocalNode(parse(text, name), directory / "node.toml", text, keys)))
        return self.nodes[-1]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def start(self) -> None:
        for node in self.nodes:
            if node.process is None:
                node.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        for node in self.nodes:
            node.wait_ready()

    def stop(self) -> None:
        """End every node in order."""
        running = [node for node in self.nodes if node.process is not None]
        for node in running:
            node.send(signal.SIGCONT)
            node.send(signal.SIGTERM)
        for node in running:
            node.terminate()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Started; stopped at the end, by which no node may have logged an error."""
        try:
            self.start()
            yield
            errors = self.new_errors()
            assert not errors, "\n".join(errors)
        finally:
            self.stop()

    def status(self) -> dict[str, Any]:
        """The cluster as the first node that answers sees it."""
        for node in self.nodes:
            if node.process is not None:
                try:
                    return dict(json.loads(read_page(node.http + "/api/status", 3.0)))
                except OSError:
                    continue
        raise NotInTimeError("no node answers /api/status")

    def queue(self, name: str) -> dict[str, Any] | None:
        """The queue's row of the status; None while it has no owner."""
        return next((row for row in self.status()["queues"] if row["name"] == name), None)

    def owner(self, queue: str) -> Node:
        row = until(lambda: self.queue(queue), f"{queue} has an owner")
        return self.node(row["owner"])

    def others(self, node: Node) -> list[Node]:
        return [one for one in self.nodes if one is not node]

    @contextmanager
    def frozen(self, nodes: Iterable[Node]) -> Iterator[None]:
        """Nodes that neither run nor end meanwhile: a hung machine, to the others."""
        frozen = list(nodes)
        for node in frozen:
            node.send(signal.SIGSTOP)
        try:
            yield
        finally:
            for node in frozen:
                node.send(signal.SIGCONT)

    # -- logs -----------------------------------------------------------------------------------

    def logs(self, lines: int = 40) -> str:
        """The ends of the nodes' logs."""
        parts = []
        for node in self.nodes:
            text = node.local.log_file.read_text(encoding="utf-8", errors="replace")
            state = "does not run" if node.process is None else f"pid {node.pid}"
            parts.append(f"--- {node.name} ({state})\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(parts)

    def new_errors(self) -> list[str]:
        """Lines that the nodes logged as errors, or that are no log lines at all, since the last call."""
        found = []
        for node in self.nodes:
            text = node.local.log_file.read_text(encoding="utf-8", errors="replace")
            fresh = text[self._read.get(node.name, 0) :]
            self._read[node.name] = len(text)
            found += [f"{node.name}: {line}" for line in fresh.splitlines() if _is_error(line)]
        return found


def _is_error(line: str) -> bool:
    try:
        return json.loads(line)["level"] in ("error", "critical")
    except (ValueError, KeyError, TypeError):
        return bool(line.strip())


def _planned(nodes: int, data: Path, settings: Mapping[str, Any]) -> list[LocalNode]:
    """Directories and files for nodes on ports that are free now."""
    chance = random.Random(os.getpid() * 1_000_003 + time.monotonic_ns())
    amqp, http = own_part(AMQP_PORTS), own_part(HTTP_PORTS)
    while True:
        try:
            planned = plan(nodes, data, chance.choice(amqp), chance.choice(http), settings)
            prepare(planned)
        except (PortInUseError, ConfigError) as error:
            if isinstance(error, ConfigError) and "overlap" not in str(error):
                raise
            continue
        return planned
