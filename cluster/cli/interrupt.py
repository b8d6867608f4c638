"""Handles Ctrl-C before a command has begun, and after."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""Exit code of a command that Ctrl-C ended; a shell gives the same for a process that SIGINT ends."""


def leave(number: int, frame: FrameType | None) -> None:
    """End the process at once: before a command has begun, KeyboardInterrupt would break an import and print
    a traceback.
    """
    os._exit(INTERRUPTED)


def begin() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from now on: the command's code is loaded, and cleans up."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
