"""Free ports of loopback for the nodes of a run."""

from __future__ import annotations

import contextlib
import os
import socket

_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Ports without a listener now, outside of the range that the system gives to outgoing connections."""
    found: list[int] = []
    # The search begins at another port in each run, so that two runs that start together do not collide.
    port = 10_000 + os.getpid() * 97 % 15_000
    while len(found) < count:
        port = port + 1 if port < 32_000 else 10_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                found.append(port)
                _given.add(port)
    return found
