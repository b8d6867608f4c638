"""Nodes of ours, three as a rule, run by `quorate up` and asked by `quorate status` as any operator would."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.brokers import NODES, Address, BrokerError, alive, kill_and_wait, wait_until

GUEST: Final = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
"""The header of requests to the management API."""

PROGRAM = Path(sys.executable).with_name("quorate")


class Quorate:
    """See bench.brokers.Cluster. `cores`: the processor cores of all nodes, as taskset(1) takes them."""

    name = "quorate"
    queue_address = "/queues/%s"

    def __init__(
        self,
        directory: Path,
        base_port: int = 5771,
        http_port: int = 15771,
        nodes: int = NODES,
        cores: str = "",
    ) -> None:
        self.nodes = nodes
        self._cores = cores
        self._directory = directory
        self._base_port = base_port
        self._http_port = http_port
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        self.launch_again()
        self.wait_ready()

    def stop(self) -> None:
        if self._supervisor is not None and alive(self._supervisor.pid):
            kill_and_wait([self._supervisor.pid], signal.SIGTERM)
        self._forget_supervisor()
        shutil.rmtree(self._directory, ignore_errors=True)

    def launch_again(self) -> None:
        command = [
            *(["taskset", "--cpu-list", self._cores] if self._cores else []),
            str(PROGRAM), "up", "--nodes", str(self.nodes), "--data", str(self._directory / "data"),
            "--base-port", str(self._base_port), "--http-port", str(self._http_port),
        ]  # fmt: skip
        with (self._directory / "up.log").open("ab") as log:
            # A session of its own: an interrupt typed at the bench stops the nodes in its own order.
            self._supervisor = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def wait_ready(self) -> None:
        wait_until(self._all_ready, "quorate is not ready")

    def revive(self, node: int) -> None:
        """`quorate up` restarts a node that died by itself."""
        self.wait_ready()

    def address(self, node: int) -> Address:
        return Address("127.0.0.1", self._base_port + node)

    def http(self, node: int) -> Address:
        """Where the node's HTTP port is."""
        return Address("127.0.0.1", self._http_port + node)

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Make an object of the management API. Raises BrokerError."""
        self._request("PUT", path, body)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Have the management API do something; its answer. Raises BrokerError."""
        return json.loads(self._request("POST", path, body))

    def command(self, *words: str) -> Any:
        """Run a command of `quorate` with `--json`; its answer. Raises BrokerError."""
        url = f"http://{self.http(0)}"
        done = subprocess.run([str(PROGRAM), *words, "--url", url, "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise BrokerError(f"{words}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def pid(self, node: int) -> int:
        return int(self._node(node)["pid"])

    def owner(self, queue: str, declared_on: int) -> int:
        del declared_on
        names = {str(self._node(node)["name"]): node for node in range(self.nodes)}
        for row in self._status()["queues"]:
            if row["name"] == queue and row["owner"] in names:
                return names[row["owner"]]
        raise BrokerError(f"quorate status shows no owner of {queue}")

    def kill_all(self) -> None:
        nodes = [self.pid(node) for node in range(self.nodes)]
        if self._supervisor is not None:
            kill_and_wait([self._supervisor.pid])
        self._forget_supervisor()
        kill_and_wait(nodes)

    def collect_garbage(self) -> None:
        """Nothing: what a node holds is what it needs."""

    def _request(self, method: str, path: str, body: dict[str, Any]) -> str:
        address = self.http(0)
        with closing(http.client.HTTPConnection(address.host, address.port, timeout=60)) as connection:
            connection.request(method, f"/api/{path}", json.dumps(body), GUEST)
            response = connection.getresponse()
            text = response.read().decode()
            if response.status not in (200, 201, 204):
                raise BrokerError(f"{path}: {response.status} {text}")
            return text

    def _all_ready(self) -> bool:
        if self._supervisor is None or self._supervisor.poll() is not None:
            raise BrokerError(f"`quorate up` ended: {self._last_words()}")
        try:
            nodes = self._status()["nodes"]
        except BrokerError:
            return False
        # A node that was just killed may stand as ready in the status of its peers for a moment.
        return len(nodes) == self.nodes and all(node["ready"] and alive(int(node["pid"])) for node in nodes)

    def _node(self, node: int) -> dict[str, Any]:
        port = str(self.address(node).port)
        for row in self._status()["nodes"]:
            if str(row["amqp"]).rpartition(":")[2] == port:
                return dict(row)
        raise BrokerError(f"quorate status shows no node on port {port}")

    def _status(self) -> dict[str, Any]:
        """The cluster as any of its nodes shows it; the first may be the one that was killed."""
        errors = []
        for node in range(self.nodes):
            url = f"http://127.0.0.1:{self._http_port + node}"
            done = subprocess.run(
                [str(PROGRAM), "status", "--url", url, "--json"], capture_output=True, text=True
            )
            if done.returncode == 0:
                return dict(json.loads(done.stdout))
            errors.append(done.stderr.strip())
        raise BrokerError(f"no node answers `quorate status`: {errors}; {self._last_words()}")

    def _forget_supervisor(self) -> None:
        if self._supervisor is not None:
            self._supervisor.wait()
        self._supervisor = None

    def _last_words(self) -> str:
        """The end of what the supervisor printed; it quotes the logs of nodes that died."""
        return (self._directory / "up.log").read_text(errors="replace")[-1000:]


@contextmanager
def temporary() -> Iterator[Quorate]:
    """Three nodes, whose data is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        cluster = Quorate(Path(directory) / "quorate")
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
