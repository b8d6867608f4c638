"""The containers of deploy/compose.yml, started and removed with docker.

For network faults each container gets a further device, over which it reaches its peers' addresses; quorate's
own switch joins these devices. Clients use free ports of loopback, which the compose file publishes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from chaos.clients import Place
from chaos.scenarios import Need
from chaos.targets.brokers import fetch
from chaos.targets.equipped import EquippedTarget
from chaos.targets.leftovers import mark, sweep
from chaos.targets.memory import margin_bytes
from chaos.targets.ports import free_ports
from chaos.targets.quorate import ROOT, SMALL_DISK_LIMIT_BYTES, Quorate, owners_told
from chaos.targets.switch import mac
from chaos.targets.target import TargetError, shell, until
from chaos.targets.wiring import Wiring, tap

FILE: Final = ROOT / "deploy" / "compose.yml"
NODES: Final = ("n1", "n2", "n3")
"""The nodes' names in the compose file."""

ACCOUNT: Final = 10001
INSIDE: Final = "/run/chaos"
"""The directory in the containers that has the library and its orders."""


class ComposeTarget(EquippedTarget):
    """See chaos.targets.target.Target."""

    def __init__(self, needs: Iterable[Need], seed: int = 0) -> None:
        needs = frozenset(needs)
        super().__init__(needs, Wiring(seed) if Need.NETWORK in needs else None)
        self.nodes = NODES
        self._ports = {node: (amqp, http) for node in NODES for amqp, http in [free_ports(2)]}
        self._directory = Path()
        self._containers: dict[str, str] = {}
        self._password = ""

    @property
    def broker(self) -> str:
        return Quorate.name

    @property
    def at_most_once(self) -> dict[str, Any] | None:
        return Quorate.at_most_once

    # -- the run --------------------------------------------------------------------------------

    def start(self) -> None:
        sweep()
        self._directory = Path(tempfile.mkdtemp(prefix=mark() + "-"))
        self._directory.chmod(0o755)
        if self._shim is not None:
            self._shim.build(self._directory)
        override = {"version": "3.9", "services": {}, "volumes": {}}
        for node in self.nodes:
            self._override(node, override)
        (self._directory / "override.json").write_text(json.dumps(override), encoding="utf-8")
        self._compose("up", "--detach", *self.nodes)
        until(lambda: all(map(self.ready, self.nodes)), "all containers are ready")
        secret = "--entrypoint", "cat", "founding", "/founding/secret/password"
        self._password = self._compose("run", "--rm", "--no-deps", "-T", *secret).strip()
        self._plug()

    def stop(self) -> None:
        if self._directory == Path():
            return
        if self._wiring is not None:
            self._wiring.part()
        self._compose("down", "--volumes", "--timeout", "5")
        if self._disks is not None:
            self._disks.remove()
        shutil.rmtree(self._directory, ignore_errors=True)

    def places(self) -> tuple[Place, ...]:
        return tuple(
            Place(node, "127.0.0.1", amqp, "quorate", self._password)
            for node, (amqp, _) in self._ports.items()
        )

    def owners(self) -> dict[str, str]:
        urls = [f"http://127.0.0.1:{http}" for _, http in self._ports.values()]
        return owners_told(urls, ("quorate", self._password))

    def ready(self, node: str) -> bool:
        return fetch(f"http://127.0.0.1:{self._ports[node][1]}/health/ready") is not None

    def ended(self, node: str) -> int | None:
        state = json.loads(self._inspect(node, "{{json .State}}"))
        return None if state["Running"] or state["Restarting"] else int(state["ExitCode"])

    def keep_logs(self, directory: Path) -> None:
        for node in self.nodes:
            text = self._compose("logs", "--no-color", node)
            (directory / f"{node}-node.log").write_text(text, encoding="utf-8")

    # -- the means ------------------------------------------------------------------------------

    def kill(self, node: str) -> None:
        shell("docker", "kill", self._container(node))

    def terminate(self, node: str) -> None:
        shell("docker", "stop", self._container(node))

    def start_again(self, node: str) -> None:
        if self.ended(node) is not None:
            shell("docker", "start", self._container(node))
        self._plug()

    def pause(self, node: str) -> None:
        shell("docker", "pause", self._container(node))

    def resume(self, node: str) -> None:
        shell("docker", "unpause", self._container(node))

    def squeeze(self, node: str) -> None:
        limit = str(margin_bytes(int(self._inspect(node, "{{.State.Pid}}"))))
        shell("docker", "update", "--memory", limit, "--memory-swap", limit, self._container(node))

    def relax(self, node: str) -> None:
        everything = str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        shell("docker", "update", "--memory", everything, "--memory-swap", everything, self._container(node))

    # -- docker ---------------------------------------------------------------------------------

    def _container(self, node: str) -> str:
        # Looked up once: a run makes no other containers later, and docker-compose takes a second to answer.
        if node not in self._containers:
            found = self._compose("ps", "--quiet", node).split()
            if not found:
                raise TargetError(f"there is no container of {node}")
            self._containers[node] = found[0]
        return self._containers[node]

    def _inspect(self, node: str, what: str) -> str:
        return shell("docker", "inspect", "--format", what, self._container(node)).strip()

    def _compose(self, *words: str) -> str:
        program = ("docker-compose",) if shutil.which("docker-compose") else ("docker", "compose")
        files = ("--file", FILE, "--file", self._directory / "override.json")
        published = {
            f"QUORATE_{node.upper()}_{protocol}_PORT": str(port)
            for node, ports in self._ports.items()
            for protocol, port in zip(("AMQP", "HTTP"), ports, strict=True)
        }
        command = (*program, "--project-name", mark(), *files, *words)
        return shell(*command, environment=os.environ | published)

    def _override(self, node: str, override: dict[str, Any]) -> None:
        """Add the scenario's means for the node's container to the compose file."""
        service: dict[str, Any] = {"environment": {}, "volumes": []}
        if self._shim is not None:
            self._shim.environment(node)
            service["environment"] = {
                "LD_PRELOAD": f"{INSIDE}/shim.so",
                "CHAOS_SHIM": f"{INSIDE}/{node}.orders",
            }
            service["volumes"] = [f"{self._directory}:{INSIDE}:ro"]
        if self._disks is not None:
            place = self._directory / node
            place.mkdir()
            self._disks.mount(node, place)
            os.chown(place, ACCOUNT, ACCOUNT)
            limit = str(SMALL_DISK_LIMIT_BYTES)
            service["environment"]["QUORATE_CLUSTER__ALARMS__DISK_FREE_LIMIT_BYTES"] = limit
            bound = {"type": "none", "o": "bind", "device": str(place)}
            override["volumes"][f"{node}-data"] = {"driver_opts": bound}
        override["services"][node] = service

    def _plug(self) -> None:
        """Route all traffic between the running containers through the switch."""
        if self._wiring is None:
            return
        running = [node for node in self.nodes if self.ended(node) is None]
        addresses = {node: self._address(node) for node in running}
        ports = {}
        self._wiring.part()
        for place, node in enumerate(self.nodes, 1):
            device, ports[node] = tap(place)
            if node in addresses:
                self._lead(node, device, place, addresses)
        self._wiring.join(ports)

    def _address(self, node: str) -> str:
        return self._inspect(node, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def _lead(self, node: str, device: str, place: int, addresses: dict[str, str]) -> None:
        pid = self._inspect(node, "{{.State.Pid}}")
        inside = ("nsenter", "--target", pid, "--net", "ip")
        shell("ip", "link", "set", device, "netns", pid)
        shell(*inside, "link", "set", device, "address", mac(place), "up")
        for peer, address in addresses.items():
            if peer != node:
                there = mac(self.nodes.index(peer) + 1)
                shell(*inside, "route", "replace", address, "dev", device, "src", addresses[node])
                known = (address, "lladdr", there, "dev", device, "nud", "permanent")
                shell(*inside, "neighbour", "replace", *known)
