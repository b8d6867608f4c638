"""The interface of a broker cluster to the bench, and the process and socket handling both sides share."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

NODES = 3
START_SECONDS = 120.0


class BrokerError(Exception):
    """A cluster did not start, or did not answer."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens for AMQP clients."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Cluster(Protocol):
    """Three local nodes of one broker; nodes are counted from 0."""

    name: str
    queue_address: str
    """The address of a queue in AMQP 1.0, with %s for its name."""

    def start(self) -> None:
        """Fresh nodes on empty directories. Returns when all take clients."""

    def stop(self) -> None:
        """Ends every node and removes the data."""

    def launch_again(self) -> None:
        """Starts all nodes on the data that is there and returns at once."""

    def wait_ready(self) -> None:
        """Returns when every node takes clients and is in the cluster."""

    def revive(self, node: int) -> None:
        """Brings a killed node back and returns when the cluster is whole."""

    def address(self, node: int) -> Address: ...

    def pid(self, node: int) -> int: ...

    def owner(self, queue: str, declared_on: int) -> int:
        """The node that owns a replicated queue that was declared through `declared_on`."""

    def kill_all(self) -> None:
        """SIGKILL to every node, as a power failure does it."""

    def collect_garbage(self) -> None:
        """Whatever makes the memory of the nodes comparable: nothing where nothing is needed."""


def resident_bytes(pid: int) -> int:
    """The resident memory of a process in bytes (VmRSS in /proc)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise BrokerError(f"no VmRSS for process {pid}")


def processor_seconds(pid: int) -> float:
    """The processor time that a process has taken, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """The time that all processors of the machine have worked since its start, whatever for."""
    user, nice, system, _, _, interrupts, soft = Path("/proc/stat").read_text().split()[1:8]
    return sum(map(int, (user, nice, system, interrupts, soft))) / os.sysconf("SC_CLK_TCK")


def kill_and_wait(pids: Sequence[int], sig: signal.Signals = signal.SIGKILL, seconds: float = 30.0) -> None:
    """Sends the signal to the processes and returns when they are gone.

    Raises BrokerError when one is still there after `seconds`.
    """
    for pid in pids:
        if alive(pid):
            os.kill(pid, sig)
    wait_until(lambda: not any(alive(pid) for pid in pids), f"processes {list(pids)} do not end", seconds)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def listening(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port), timeout=1.0).close()
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], bool], complaint: str, seconds: float = START_SECONDS) -> None:
    """Asks again every 50 ms. Raises BrokerError with the complaint after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BrokerError(f"{complaint} (waited {seconds:.0f} s)")
        time.sleep(0.05)
