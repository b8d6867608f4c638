"""A small file system in memory for each node, which can be filled to the last octet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from chaos.targets.target import TargetError, shell

SIZE_BYTES: Final = 384 << 20
_STEP: Final = 1 << 20


class SmallDisks:
    """Needs root, to mount."""

    def __init__(self) -> None:
        self._mounted: dict[str, Path] = {}
        if os.geteuid() != 0:
            raise TargetError("small disks are mounts, which only root can make: run it as root")

    def mount(self, node: str, directory: Path) -> None:
        shell("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "chaos", directory)
        self._mounted[node] = directory

    def fill(self, node: str) -> None:
        """Fill the file system with a file beside the node's own."""
        descriptor = os.open(self._filler(node), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        step = _STEP
        try:
            while step:
                try:
                    os.write(descriptor, bytes(step))
                except OSError:
                    step //= 2
        finally:
            os.close(descriptor)

    def free(self, node: str) -> None:
        self._filler(node).unlink(missing_ok=True)

    def remove(self) -> None:
        for directory in self._mounted.values():
            shell("umount", "--lazy", directory)
        self._mounted.clear()

    def _filler(self, node: str) -> Path:
        return self._mounted[node] / "filler"
