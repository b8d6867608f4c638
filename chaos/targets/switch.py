"""The switch between the namespaces of a run: a process with the other end of each namespace's TAP device.

`python -m chaos.targets.switch SEED NAME=DESCRIPTOR …` reads one JSON object a line from standard input,
`cut` and `conditions` as chaos.targets.packets.Fabric has them, and answers each with an empty line. It
ends when standard input does. Frames are sent by their destination's MAC address, whose last octet is the
port's place, from 1 on.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import selectors
import sys
import time
from typing import Final

from chaos.faults import Conditions
from chaos.targets.packets import Fabric

CLIENTS: Final = "clients"
"""The port of all devices that are no node."""

FRAME_BYTES: Final = 65536
BATCH: Final = 64
_DESTINATION: Final = 5
_SOURCE: Final = 11


def mac(place: int) -> str:
    """The MAC address of the port at this place. Its first octet says local and unicast."""
    return f"02:00:00:00:00:{place:02x}"


class Switch:
    """The switch. `ports` are the devices' descriptors by name, in the order of their places."""

    def __init__(self, ports: dict[str, int], seed: int) -> None:
        nodes = frozenset(ports) - {CLIENTS}
        self.fabric = Fabric(nodes, random.Random(seed))
        self._descriptors = ports
        self._names = ["", *ports]
        self._selector = selectors.DefaultSelector()
        for descriptor in (0, *ports.values()):
            os.set_blocking(descriptor, descriptor == 0)
            self._selector.register(descriptor, selectors.EVENT_READ)

    def run(self) -> None:
        while True:
            due = self.fabric.next_due
            wait = None if due is None else max(0.0, due - time.monotonic())
            for key, _ in self._selector.select(wait):
                if key.fd != 0:
                    self._forward(key.fd)
                elif not self._obey():
                    return
            for destination, frame in self.fabric.due(time.monotonic()):
                self._write(destination, frame)

    def _forward(self, descriptor: int) -> None:
        for _ in range(BATCH):
            try:
                frame = os.read(descriptor, FRAME_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # The device has ended with its namespace: the run is over.
                self._selector.unregister(descriptor)
                return
            source, destination = frame[_SOURCE], frame[_DESTINATION]
            # Neighbour tables are permanent, so broadcasts have no use.
            if not 0 < destination < len(self._names) or not 0 < source < len(self._names):
                continue
            there = self._names[destination]
            for copy in self.fabric.send(self._names[source], there, frame, time.monotonic()):
                self._write(there, copy)

    def _write(self, destination: str, frame: bytes) -> None:
        # A full queue drops packets, as a switch does, and so does a device that has ended.
        with contextlib.suppress(OSError):
            os.write(self._descriptors[destination], frame)

    def _obey(self) -> bool:
        line = sys.stdin.buffer.readline()
        if not line:
            return False
        order = json.loads(line)
        self.fabric.cut = {(link[0], link[1]) for link in order["cut"]}
        self.fabric.conditions = Conditions(**order["conditions"])
        sys.stdout.write("\n")
        sys.stdout.flush()
        return True


def main() -> None:
    seed, *ports = sys.argv[1:]
    named = (port.split("=") for port in ports)
    Switch({name: int(descriptor) for name, descriptor in named}, int(seed)).run()


if __name__ == "__main__":
    main()
