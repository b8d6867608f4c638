"""raftos never asks the operating system to write its log or its vote to the disk."""

from __future__ import annotations

from evidence import counted_syncs, mentions, raftos_directory, verdict

with raftos_directory(), counted_syncs() as calls:
    from raftos.storage import FileStorage, Log

    log = Log("node")
    for number in range(100):
        log.write(1, {"key": number})
    FileStorage("node").update({"term": 1, "voted_for": "node"})

lines = mentions("raftos", "sync(", "o_sync", "o_dsync")
found = [line for line in lines if "fsync" in line or "fdatasync" in line or "o_sync" in line]
verdict(
    "raftos never calls fsync",
    not calls and not found,
    f"{len(log)} entries and a vote written, {len(calls)} syncs",
    f"{len(found)} places in its source that name one",
)
