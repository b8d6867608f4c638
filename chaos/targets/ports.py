"""Free ports of loopback for the nodes of a run."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

FIRST: Final = 19_000
LAST: Final = 27_999

_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Ports without a listener now. Neither the system gives them to outgoing connections, nor do tests take
    them (tests.processes.nodes).
    """
    found: list[int] = []
    # The search begins at another port in each run, so that two runs that start together do not collide.
    port = FIRST + os.getpid() * 97 % (LAST - FIRST)
    while len(found) < count:
        port = port + 1 if port < LAST else FIRST
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                found.append(port)
                _given.add(port)
    return found
