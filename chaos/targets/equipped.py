"""The means that all targets share: a switch, a library before the system's, small disks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from chaos.faults import Conditions, Fsync, Link, Skew
from chaos.scenarios import Need
from chaos.targets.disks import SmallDisks
from chaos.targets.shim import Shim
from chaos.targets.wiring import Wiring

T = TypeVar("T")


class EquippedTarget:
    """A target with those of the means that its run's scenario needs (part of chaos.faults.Means)."""

    def __init__(self, needs: frozenset[Need], wiring: Wiring | None) -> None:
        self._wiring = wiring
        self._shim = Shim() if Need.SHIM in needs else None
        self._disks = SmallDisks() if Need.DISK in needs else None

    def cut(self, links: Iterable[Link]) -> None:
        needed(self._wiring).cut(links)

    def mend(self, links: Iterable[Link]) -> None:
        needed(self._wiring).mend(links)

    def degrade(self, conditions: Conditions) -> None:
        needed(self._wiring).degrade(conditions)

    def sync(self, node: str, how: Fsync) -> None:
        needed(self._shim).sync(node, how)

    def skew(self, node: str, by: Skew) -> None:
        needed(self._shim).skew(node, by)

    def fill(self, node: str) -> None:
        needed(self._disks).fill(node)

    def free(self, node: str) -> None:
        needed(self._disks).free(node)


def needed(part: T | None) -> T:
    """The means that a fault needs. The scenario must have stated the need
    (chaos.scenarios.Scenario.needs).
    """
    assert part is not None, "the scenario does not say that it needs this"
    return part
