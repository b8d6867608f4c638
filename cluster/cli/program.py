"""The `quorate` program as it is installed: what happens until a command's code is there."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""Exit code of a command that Ctrl-C ended; a shell gives the same for a process that SIGINT ends."""


def run() -> None:
    """Run the command that the process's arguments name. Does not return."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from cluster.cli.main import main

    main(prog_name="quorate")


def leave(number: int, frame: FrameType | None) -> None:
    """Nothing has begun: a KeyboardInterrupt would come out of some import, as a traceback."""
    os._exit(INTERRUPTED)


def begin() -> None:
    """The code is there, and what it begins it ends: Ctrl-C raises KeyboardInterrupt from now on."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
