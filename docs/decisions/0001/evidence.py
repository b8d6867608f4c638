"""What the findings share: a raftos node without a network, a count of syncs, and the verdict."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ADDRESSES = [("127.0.0.1", port) for port in (8000, 8001, 8002)]


def verdict(finding: str, reproduced: bool, *evidence: str) -> None:
    """Prints the finding with its evidence and exits: 0 when it was reproduced, 1 when not."""
    print(finding)
    for line in evidence:
        print(f"  {line}")
    print("reproduced" if reproduced else "NOT REPRODUCED")
    sys.exit(0 if reproduced else 1)


class Wire:
    """Takes the place of raftos' Node: keeps what its state machine sends instead of sending it."""

    def __init__(self, own: int) -> None:
        self.host, self.port = ADDRESSES[own]
        self.cluster = {address for address in ADDRESSES if address != ADDRESSES[own]}
        self.cluster_count = len(self.cluster)
        self.loop = asyncio.get_running_loop()
        self.sent: list[dict[str, Any]] = []

    async def send(self, data: dict[str, Any], destination: object) -> None:
        self.sent.append(data | {"destination": destination})

    def broadcast(self, data: dict[str, Any]) -> None:
        self.sent += [data | {"destination": address} for address in self.cluster]


async def settle() -> None:
    """Lets the coroutines that raftos scheduled run to their end; none of them waits for anything."""
    for _ in range(5):
        await asyncio.sleep(0)


@contextmanager
def raftos_directory() -> Iterator[Path]:
    """raftos, with its files in a directory of their own and without its warnings.

    JSON takes the place of its default encoding, whose log it cannot read back (finding 4).
    """
    logging.getLogger("raftos").addHandler(logging.NullHandler())
    logging.getLogger("raftos").propagate = False
    import raftos

    with tempfile.TemporaryDirectory() as directory:
        raftos.configure({"log_path": directory, "serializer": raftos.serializers.JSONSerializer})
        yield Path(directory)


@contextmanager
def counted_syncs() -> Iterator[list[str]]:
    """The names of the calls that would have made a file durable.

    Both libraries are pure Python, so every sync has to pass through one of these.
    """
    calls: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "fdatasync", "sync")}

    class CountedMap(mmap.mmap):
        def flush(self, *arguments: int) -> None:
            calls.append("mmap.flush")
            super().flush(*arguments)

    real_map, mmap.mmap = mmap.mmap, CountedMap  # type: ignore[misc]  # the module's only constructor
    for name in real:
        setattr(os, name, lambda *_, name=name: calls.append(name))
    try:
        yield calls
    finally:
        mmap.mmap = real_map  # type: ignore[misc]
        for name, function in real.items():
            setattr(os, name, function)


def mentions(package: str, *words: str) -> list[str]:
    """Lines of an installed package's source that contain one of the words, without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    return [
        f"{file.name}:{number}: {line.strip()}"
        for file in sorted(folder.rglob("*.py"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if any(word in line.lower() for word in words)
    ]
