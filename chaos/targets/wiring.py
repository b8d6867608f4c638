"""TAP devices, and the control of the switch that joins them (chaos.targets.switch)."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from chaos.faults import Conditions, Link
from chaos.targets.target import TargetError

TUN: Final = Path("/dev/net/tun")
TUNSETIFF: Final = 0x400454CA
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
"""linux/if_tun.h: frames without a header before them."""

ROOT_DIRECTORY: Final = Path(__file__).resolve().parents[2]


def tap(place: int) -> tuple[str, int]:
    """A new device: its name, and the switch's end. The device ends when no process has that end open."""
    device = f"ch{os.getpid()}p{place}"
    descriptor = os.open(TUN, os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return device, descriptor


class Wiring:
    """The switch of a run. Needs root and /dev/net/tun."""

    def __init__(self, seed: int) -> None:
        if os.geteuid() != 0:
            raise TargetError("networks are made by root only: run it as root")
        if not TUN.exists():
            raise TargetError(f"{TUN} is not there: the network faults need the kernel's TUN driver")
        self._seed = seed
        self._cut: set[Link] = set()
        self._conditions = Conditions()
        self._switch: subprocess.Popen[str] | None = None

    def join(self, ports: Mapping[str, int]) -> None:
        """Start the switch with these ports, in the order of their places. Ends the former switch."""
        self.part()
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

    def part(self) -> None:
        """End the switch, and the devices with it."""
        if self._switch is not None:
            assert self._switch.stdin is not None
            self._switch.stdin.close()
            self._switch.wait()
            self._switch = None

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
        """Send the switch its orders; returns when the switch follows them."""
        assert self._switch is not None
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        order = {"cut": sorted(self._cut), "conditions": asdict(self._conditions)}
        self._switch.stdin.write(json.dumps(order) + "\n")
        self._switch.stdin.flush()
        if not self._switch.stdout.readline():
            raise TargetError("the switch has ended")
