"""A network namespace for each node, joined by a switch of our own (chaos.targets.switch).

The clients are in the machine's own namespace and have a port of the switch too. The devices end with the
process that has them open, the namespaces with `remove` or with the next run's `sweep`.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from chaos.faults import Conditions, Link
from chaos.targets.leftovers import remove_namespace
from chaos.targets.switch import CLIENTS, mac
from chaos.targets.target import TargetError, shell

TUN: Final = Path("/dev/net/tun")
TUNSETIFF: Final = 0x400454CA
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
"""linux/if_tun.h: frames as they are, without a header before them."""

ROOT_DIRECTORY: Final = Path(__file__).resolve().parents[2]


class Network:
    """Needs root, iproute2 and /dev/net/tun."""

    def __init__(self, label: str, nodes: Sequence[str], seed: int) -> None:
        if os.geteuid() != 0:
            raise TargetError("network namespaces are made by root only: run it as root")
        if not TUN.exists():
            raise TargetError(f"{TUN} is not there: the network faults need the kernel's TUN driver")
        self._label = label
        self._hosts = [*nodes, CLIENTS]
        self._seed = seed
        self._subnet = ""
        self._cut: set[Link] = set()
        self._conditions = Conditions()
        self._switch: subprocess.Popen[str] | None = None

    def make(self) -> None:
        self._subnet = _free_subnet()
        ports = {host: self._plug(place, host) for place, host in enumerate(self._hosts, 1)}
        command = [sys.executable, "-m", "chaos.targets.switch", str(self._seed)]
        self._switch = subprocess.Popen(
            [*command, *(f"{host}={port}" for host, port in ports.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=tuple(ports.values()),
            cwd=ROOT_DIRECTORY,
            start_new_session=True,
        )
        for port in ports.values():
            os.close(port)
        self._tell()

    def remove(self) -> None:
        for host in self._hosts[:-1]:
            remove_namespace(self._namespace(host))
        if self._switch is not None:
            assert self._switch.stdin is not None
            self._switch.stdin.close()
            self._switch.wait()

    def address(self, host: str) -> str:
        return f"{self._subnet}.{self._hosts.index(host) + 1}"

    def prefix(self, host: str) -> tuple[str, ...]:
        """Words that run what follows in the node's namespace."""
        return ("ip", "netns", "exec", self._namespace(host))

    def cut(self, links: Iterable[Link]) -> None:
        self._cut.update(links)
        self._tell()

    def mend(self, links: Iterable[Link]) -> None:
        self._cut.difference_update(links)
        self._tell()

    def degrade(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._tell()

    def _tell(self) -> None:
        """Returns when the switch does as it was told."""
        assert self._switch is not None
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        order = {"cut": sorted(self._cut), "conditions": asdict(self._conditions)}
        self._switch.stdin.write(json.dumps(order) + "\n")
        self._switch.stdin.flush()
        if not self._switch.stdout.readline():
            raise TargetError("the switch has ended")

    def _namespace(self, host: str) -> str:
        return f"{self._label}-{host}"

    def _plug(self, place: int, host: str) -> int:
        """A TAP device, in the host's namespace; returns the switch's end."""
        device = f"ch{os.getpid()}p{place}"
        descriptor = os.open(TUN, os.O_RDWR)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
        inside: tuple[str, ...] = ()
        if host != CLIENTS:
            namespace = self._namespace(host)
            shell("ip", "netns", "add", namespace)
            shell("ip", "link", "set", device, "netns", namespace)
            inside = ("-n", namespace)
            shell("ip", *inside, "link", "set", "lo", "up")
        shell("ip", *inside, "link", "set", device, "address", mac(place), "up")
        shell("ip", *inside, "address", "add", f"{self.address(host)}/24", "dev", device)
        for other_place, other in enumerate(self._hosts, 1):
            if other != host:
                neighbour = (self.address(other), "lladdr", mac(other_place), "dev", device)
                shell("ip", *inside, "neighbour", "replace", *neighbour, "nud", "permanent")
        return descriptor


def _free_subnet() -> str:
    """The first three numbers of a /24 that no device of this machine has an address in."""
    taken = shell("ip", "-o", "-4", "address") + shell("ip", "-4", "route")
    for step in range(1 << 14):
        second, third = divmod(os.getpid() + step & 0x3FFF, 256)
        subnet = f"10.{160 + second}.{third}"
        if f" {subnet}." not in taken and f"{subnet}.0/" not in taken:
            return subnet
    raise TargetError("no subnet of 10.160.0.0/10 is free")
