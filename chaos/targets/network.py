"""A network namespace for each node, joined by quorate's own switch (docs/decisions/0008).

The clients are in the machine's own namespace, and have a port of the switch, too. `remove`, or the next
run's `sweep`, deletes the namespaces.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from chaos.targets.leftovers import remove_namespace
from chaos.targets.switch import CLIENTS, mac
from chaos.targets.target import TargetError, shell
from chaos.targets.wiring import Wiring, tap


class Network(Wiring):
    """A network namespace for each node. Needs iproute2, in addition to the needs of `Wiring`."""

    def __init__(self, label: str, nodes: Sequence[str], seed: int) -> None:
        super().__init__(seed)
        self._label = label
        self._hosts = [*nodes, CLIENTS]
        self._subnet = ""

    def make(self) -> None:
        self._subnet = _free_subnet()
        self.join({host: self._plug(place, host) for place, host in enumerate(self._hosts, 1)})

    def remove(self) -> None:
        for host in self._hosts[:-1]:
            remove_namespace(self._namespace(host))
        self.part()

    def address(self, host: str) -> str:
        return f"{self._subnet}.{self._hosts.index(host) + 1}"

    def prefix(self, host: str) -> tuple[str, ...]:
        """The words that run a command in the node's namespace."""
        return ("ip", "netns", "exec", self._namespace(host))

    def _namespace(self, host: str) -> str:
        return f"{self._label}-{host}"

    def _plug(self, place: int, host: str) -> int:
        """Make a device in the host's namespace; return the switch's end of it."""
        device, descriptor = tap(place)
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
