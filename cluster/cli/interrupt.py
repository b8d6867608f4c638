"""Ctrl-C before a command has begun, and after."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""Exit code of a command that Ctrl-C ended; a shell gives the same for a process that SIGINT ends."""


def leave(number: int, frame: FrameType | None) -> None:
    """Nothing has begun: a KeyboardInterrupt would come out of some import, as a traceback."""
    os._exit(INTERRUPTED)


def begin() -> None:
    """The code is there, and what it begins it ends: Ctrl-C raises KeyboardInterrupt from now on."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
