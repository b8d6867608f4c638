"""Traces of a run: what Spark has written about its queries, in which no password may stand."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Final

EVENTS: Final = "events"
"""The folder of Spark's event logs: the plans of all batches, with their options."""

SCAN: Final = "MicroBatchScan"
"""The node of a plan that reads a source of a streaming query."""

CHECKPOINTS: Final = ("first", "second")
_PIECE: Final = 1 << 20


def trace_settings(scratch: Path) -> dict[str, str]:
    """The settings by which Spark writes plain event logs, and scratch files, into a directory."""
    (scratch / EVENTS).mkdir(exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{scratch / EVENTS}",
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(scratch / "local"),
    }


def files_with(text: str, places: Iterator[Path]) -> list[str]:
    """The files, at these places and below, that have a text."""
    files = (one for place in places for one in (place.rglob("*") if place.is_dir() else (place,)))
    return sorted(str(one) for one in files if one.is_file() and _has(one, text.encode()))


def _has(path: Path, text: bytes) -> bool:
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            if text in rest + piece:
                return True
            rest = piece[-len(text) :]
    return False


def shown_secrets(scratch: Path, user: str, password: str, file: Path) -> list[str]:
    """The files of a run that show a password. The one that has it for Spark's processes is not looked at,
    nor are those of the nodes, which know its hash. Raises AssertionError where no event log has a plan of a
    source, or no checkpoint an offset: then the look has not seen them.
    """
    assert files_with(SCAN, iter((scratch / EVENTS,))), "no event log has the plan of a source"
    assert all(any((scratch / one / "offsets").iterdir()) for one in CHECKPOINTS)
    places = [one for one in scratch.iterdir() if one not in (file, scratch / "nodes")]
    login = b64encode(f"{user}:{password}".encode()).decode()
    return files_with(password, iter(places)) + files_with(login, iter(places))
