"""A job whose process is killed at its n-th step: `python -m tests.pipeline.killed_job JOB N OPTIONS`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pipeline.archive.parquet import WritesPiece
from pipeline.archive.table import DeltaArchive
from pipeline.jobs.archive import archive
from pipeline.jobs.replay import replay
from pipeline.log.nodes import NodesClient


class Steps:
    """Kills the process at a step; 0 for never."""

    def __init__(self, last: int) -> None:
        self._last, self._done = last, 0

    def step(self) -> None:
        self._done += 1
        if self._done == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, of: type, name: str) -> None:
        """Make a step in front of each call of a method, and one behind it."""
        whole: Callable[..., Any] = getattr(of, name)

        def stepping(*arguments: Any, **named: Any) -> Any:
            self.step()
            found = whole(*arguments, **named)
            self.step()
            return found

        setattr(of, name, stepping)


if __name__ == "__main__":
    job, last, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    steps = Steps(last)
    requests = ((NodesClient, "open"), (NodesClient, "_answer"))
    for of, name in (*requests, (WritesPiece, "__call__"), (DeltaArchive, "_commit")):
        steps.around(of, name)
    if job == "archive":
        archive(options.pop("table"), options)
    else:
        replay(options)
