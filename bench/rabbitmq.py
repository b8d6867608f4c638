"""Three RabbitMQ nodes of Debian's package, started and stopped by the scripts in this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.brokers import NODES, Address, BrokerError, kill_and_wait, listening, wait_until

HERE = Path(__file__).parent
PROGRAMS = Path("/usr/lib/rabbitmq/lib")
COLLECT = "[garbage_collect(P) || P <- processes()], ok."


class RabbitMQ:
    """See bench.brokers.Cluster. A quorum queue's leader starts on the node where it was declared. `streams`:
    whether the nodes speak the protocol of streams as well.
    """

    name = "RabbitMQ"
    queue_address = "/amq/queue/%s"

    def __init__(self, directory: Path, streams: bool = False) -> None:
        self._directory = directory
        self._variables = {"RMQ_DIR": str(directory), "STREAMS": str(int(streams))}

    @staticmethod
    def installed() -> bool:
        return any(PROGRAMS.glob("rabbitmq_server-*/sbin/rabbitmqctl"))

    def start(self) -> None:
        self._script("rabbitmq_up.sh")

    def stop(self) -> None:
        self._script("rabbitmq_down.sh")
        shutil.rmtree(self._directory, ignore_errors=True)

    def launch_again(self) -> None:
        self._script("rabbitmq_up.sh", KEEP="1", NOWAIT="1")

    def wait_ready(self) -> None:
        wait_until(
            lambda: all(listening(self.address(node)) for node in range(NODES)),
            "RabbitMQ does not listen",
        )
        for node in range(NODES):
            self._control(node, "await_startup", "--timeout", "120")

    def revive(self, node: int) -> None:
        self._script("rabbitmq_up.sh", KEEP="1", NODES=str(node + 1))

    def address(self, node: int) -> Address:
        return Address("127.0.0.1", 5681 + node)

    def stream_address(self, node: int) -> Address:
        """Where the node listens for clients of streams."""
        return Address("127.0.0.1", 5551 + node)

    def pid(self, node: int) -> int:
        return int((self._directory / f"r{node + 1}.pid").read_text())

    def owner(self, queue: str, declared_on: int) -> int:
        return declared_on

    def kill_all(self) -> None:
        kill_and_wait([self.pid(node) for node in range(NODES)])

    def collect_garbage(self) -> None:
        for node in range(NODES):
            self._control(node, "eval", COLLECT)

    def _script(self, name: str, **variables: str) -> None:
        self._run([str(HERE / name)], os.environ | self._variables | variables)

    def _control(self, node: int, *words: str) -> None:
        program = max(PROGRAMS.glob("rabbitmq_server-*/sbin/rabbitmqctl"))
        environment = os.environ | {"HOME": str(self._directory), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        self._run([str(program), "-q", "-n", f"r{node + 1}@localhost", *words], environment)

    def _run(self, command: list[str], environment: dict[str, str]) -> None:
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise BrokerError(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
