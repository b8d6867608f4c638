"""raftos has no snapshots: its log only grows, and every start reads all of it."""

from __future__ import annotations

import asyncio
from typing import Any

from evidence import Wire, mentions, raftos_directory, settle, verdict

COMMANDS = 200


async def kept_entries() -> int:
    """Entries in the log after all of them were committed and applied."""
    from raftos.state import State

    # raftos' apply step names an exception by a place that Python 3.8 removed.
    asyncio.futures.InvalidStateError = asyncio.InvalidStateError  # type: ignore[attr-defined]
    wire = Wire(0)
    state: Any = State(wire)
    state.start()
    term = 1
    append = {
        "type": "append_entries", "term": term, "leader_id": "127.0.0.1:8001", "request_id": 1,
        "sender": ("127.0.0.1", 8001), "prev_log_term": term,
    }  # fmt: skip
    for number in range(COMMANDS):
        entry = {"term": term, "command": {"key": number}}
        previous = {"prev_log_index": number, "prev_log_term": term if number else 0}
        state.request_handler(append | previous | {"entries": [entry], "commit_index": number})
    last = {"prev_log_index": COMMANDS, "entries": [], "commit_index": COMMANDS}
    state.request_handler(append | last)
    state.request_handler(append | last)
    await settle()
    state.stop()
    assert state.state_machine["key"] == COMMANDS - 1
    return len(state.log.read())


with raftos_directory():
    kept = asyncio.run(kept_entries())

lines = mentions("raftos", "snapshot", "compact")
verdict(
    "raftos has no snapshots",
    kept == COMMANDS and not lines,
    f"{COMMANDS} commands applied to one key, {kept} entries kept",
    f"{len(lines)} places in its source that name a snapshot or a compaction",
)
