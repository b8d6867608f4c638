"""A queue keeps ranges and annotations of its messages beyond a hot part in a file of each replica's node, a
cache of the log (queue argument x-file-backed-metadata, D14). Nothing that a client sees depends on it.
"""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_boolean
from node.queue.feature import Declaration

FILE_BACKED: Final = Argument(
    "x-file-backed-metadata", read_boolean, "file_backed", policy=PolicyUse.USER, default=False
)

FEATURE: Final[Declaration] = Declaration(FILE_BACKED)
