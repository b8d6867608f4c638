"""What `quorate logs explain` tells of an event in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Event:
    """An event. The first digit of its code tells its source: 1 the process and its disk, 2 the cluster,
    3 clients, 4 the management API, 9 libraries.
    """

    code: str
    name: str
    meaning: str
    cause: str
    remedy: str


NO_REMEDY: Final = "Nothing."
