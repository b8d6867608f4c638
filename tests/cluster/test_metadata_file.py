"""The file of ranges and annotations: a cache that is made anew, and that may be full (D14)."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path

import pytest

from bench.queue_memory import NOW, drain, fill
from cluster.process.metadata_file import MetadataFile
from node.queue.dispatch import QueueOwner
from node.queue.features.registry import REGISTRY
from node.queue.operations import Semantics
from node.queue.queue import QueueState
from node.queue.settings import QueueSettings
from node.ranges.cold import COLD_BLOCK_OCTETS, ColdSpace

MESSAGES = 60_000


class Told:
    """The events of a file's disk."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def full(self, error: OSError) -> None:
        self.events.append(error.strerror or "")

    def room(self) -> None:
        self.events.append("room")


def file_in(directory: Path, told: Told | None = None) -> MetadataFile:
    told = told or Told()
    return MetadataFile(directory / "metadata", told.full, told.room)


@pytest.mark.requirement("D14.1")
def test_blocks_come_back_and_their_places_are_used_again(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_bytes(b"of a process that is dead")
    file = file_in(tmp_path)
    assert not (tmp_path / "metadata").exists()
    blocks = [file.put(bytes([number]) * COLD_BLOCK_OCTETS) for number in range(3)]
    assert [file.read(block)[:1] for block in blocks if block is not None] == [b"\0", b"\1", b"\2"]
    assert (tmp_path / "metadata").stat().st_mode & 0o777 == 0o600
    file.drop(1)
    assert file.put(b"short") == 1
    assert file.read(1) == b"short"
    assert (file.blocks, file.octets) == (3, 3 * COLD_BLOCK_OCTETS)
    for block in (0, 1, 2):
        file.drop(block)
    assert not (tmp_path / "metadata").exists()


@pytest.mark.requirement("D14.1")
@pytest.mark.parametrize("damage", [b"", b"other"], ids=["cut short", "changed"])
def test_a_damaged_block_is_an_error(tmp_path: Path, damage: bytes) -> None:
    file = file_in(tmp_path)
    block = file.put(b"octets")
    assert block is not None
    (tmp_path / "metadata").write_bytes(damage)
    with pytest.raises(OSError, match="does not have the octets"):
        file.read(block)


@pytest.mark.requirement("D14.1")
def test_a_full_disk_is_told_once_and_so_is_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    file = file_in(tmp_path, told)

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", refuse)
        assert [file.put(b"a"), file.put(b"b")] == [None, None]
    assert file.put(b"c") == 0
    assert told.events == ["full", "room"]


@pytest.mark.requirement("D14.1")
def test_memory_does_not_grow_with_the_messages(tmp_path: Path) -> None:
    """Each message has a priority and an expiry of its own."""
    file = file_in(tmp_path)
    state = QueueState(Semantics.AT_LEAST_ONCE)
    state.page(ColdSpace(file, hot=1000))
    settings, space = QueueSettings(max_priority=9), ColdSpace(file, hot=1000)
    owner = QueueOwner(state, REGISTRY, fresh=True, settings=settings, now=NOW, space=space)
    tracemalloc.start()
    try:
        fill(state, owner, MESSAGES)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert file.octets > 80 * MESSAGES
    assert kept < 10 * MESSAGES, f"{kept / MESSAGES:.1f} octets a message"
    drain(state, owner, MESSAGES)
    assert not state.alive
    assert file.blocks == 0
