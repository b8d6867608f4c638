"""PySyncObj never asks the operating system to write its journal or its vote to the disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evidence import counted_syncs, mentions, verdict

with tempfile.TemporaryDirectory() as directory, counted_syncs() as calls:
    from pysyncobj.journal import createJournal

    journal = createJournal(str(Path(directory) / "journal"))
    journal.setCurrentTerm(1, "node")
    for number in range(100):
        journal.add(b"command", number, 1)
    journal.onOneSecondTimer()
    while_running = list(calls)
    journal._destroy()

lines = mentions("pysyncobj", "fsync", "fdatasync", "o_sync", "o_dsync")
verdict(
    "PySyncObj never calls fsync",
    not while_running and not lines,
    f"{len(journal)} entries and a vote written, {len(while_running)} syncs",
    f"{len(lines)} places in its source that name one",
    f"only closing the journal writes its pages back: {calls}",
)
