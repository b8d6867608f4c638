"""Nodes as processes of this machine: on loopback, or each in a network namespace of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from chaos.clients import Place
from chaos.scenarios import Need
from chaos.targets.brokers import Broker, Spot
from chaos.targets.equipped import EquippedTarget, needed
from chaos.targets.leftovers import mark, sweep
from chaos.targets.memory import Groups
from chaos.targets.network import Network
from chaos.targets.ports import free_ports
from chaos.targets.target import START_S, TargetError, until, words_of

STOP_S: Final = 30.0
AMQP, HTTP, PEERS = 5672, 15672, 25672


class LocalTarget(EquippedTarget):
    """See chaos.targets.target.Target. The names of all that it makes have this process's id in them."""

    def __init__(self, broker: Broker, needs: Iterable[Need], nodes: int = 3, seed: int = 0) -> None:
        needs = frozenset(needs)
        self.nodes = tuple(f"n{place + 1}" for place in range(nodes))
        self._network = Network(mark(), self.nodes, seed) if Need.NETWORK in needs else None
        super().__init__(needs, self._network)
        self._broker = broker
        self._groups = Groups(mark(), self.nodes) if Need.MEMORY in needs else None
        self._directory = Path()
        self._spots: dict[str, Spot] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def broker(self) -> str:
        return self._broker.name

    @property
    def at_most_once(self) -> dict[str, Any] | None:
        return self._broker.at_most_once

    # -- the run --------------------------------------------------------------------------------

    def start(self) -> None:
        sweep()
        self._directory = Path(tempfile.mkdtemp(prefix=mark() + "-"))
        self._directory.chmod(0o755)
        for part in (self._network, self._groups):
            if part is not None:
                part.make()
        if self._shim is not None:
            self._shim.build(self._directory)
        for name in self.nodes:
            self._spots[name] = self._spot(name)
        spots = list(self._spots.values())
        self._broker.prepare(spots)
        for name in self.nodes:
            self.start_again(name)
        self._broker.found(spots)
        until(self._all_ready, "all nodes are ready", START_S)

    def stop(self) -> None:
        for name in self._processes:
            self._signal(name, signal.SIGCONT)
            self._signal(name, signal.SIGTERM)
        for name in list(self._processes):
            try:
                self._reap(name)
            except subprocess.TimeoutExpired:
                self.kill(name)
        if self._network is not None:
            self._network.remove()
        if self._groups is not None:
            self._groups.remove()
        if self._disks is not None:
            self._disks.remove()
        if self._directory != Path():
            shutil.rmtree(self._directory, ignore_errors=True)

    def places(self) -> tuple[Place, ...]:
        return tuple(spot.place for spot in self._spots.values())

    def owners(self) -> dict[str, str]:
        return self._broker.owners(list(self._spots.values()))

    def ready(self, node: str) -> bool:
        return self._broker.ready(self._spots[node])

    def ended(self, node: str) -> int | None:
        return self._processes[node].poll()

    def _all_ready(self) -> bool:
        for node in self.nodes:
            code = self.ended(node)
            if code is not None:
                raise TargetError(f"{node} ended with {code}: {self._last_words(node)}")
        return all(map(self.ready, self.nodes))

    def keep_logs(self, directory: Path) -> None:
        for name, spot in self._spots.items():
            for file in spot.directory.glob("*.log"):
                shutil.copy(file, directory / f"{name}-{file.name}")

    # -- processes ------------------------------------------------------------------------------

    def start_again(self, node: str) -> None:
        process = self._processes.get(node)
        if process is not None and process.poll() is None:
            return
        spot = self._spots[node]
        prefixes: list[list[str]] = []
        if self._groups is not None:
            prefixes.append(self._groups.prefix(node))
        prefixes.append(list(spot.prefix))
        with (spot.directory / "node.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                [*words_of(prefixes), *self._broker.command(spot)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._broker.environment(spot) | dict(spot.environment),
                start_new_session=True,
            )

    def kill(self, node: str) -> None:
        self._signal(node, signal.SIGKILL)
        self._reap(node)

    def terminate(self, node: str) -> None:
        self._signal(node, signal.SIGTERM)
        self._reap(node)

    def pause(self, node: str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: str, number: signal.Signals) -> None:
        # A node that has ended needs no signal, and its process id may be another process's by now.
        if self._processes[node].poll() is None:
            os.killpg(self._processes[node].pid, number)

    def _reap(self, node: str) -> None:
        self._processes[node].wait(STOP_S)

    def _last_words(self, node: str) -> str:
        log = self._spots[node].directory / "node.log"
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])

    # -- surroundings ---------------------------------------------------------------------------

    def _spot(self, name: str) -> Spot:
        directory = self._directory / name
        directory.mkdir()
        environment: dict[str, str] = {}
        if self._disks is not None:
            self._disks.mount(name, directory)
        if self._shim is not None:
            environment |= self._shim.environment(name)
        small = self._disks is not None
        if self._network is None:
            amqp, http, peers = free_ports(3)
            return Spot(
                name, "127.0.0.1", amqp, http, peers, directory, environment=environment, small_disk=small
            )
        host, prefix = self._network.address(name), self._network.prefix(name)
        return Spot(name, host, AMQP, HTTP, PEERS, directory, prefix, environment, small)

    def squeeze(self, node: str) -> None:
        needed(self._groups).squeeze(node)

    def relax(self, node: str) -> None:
        needed(self._groups).relax(node)
