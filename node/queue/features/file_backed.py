"""A queue keeps ranges and annotations of its messages beyond a hot part in a file of each replica's node, a
cache of the log (queue argument x-file-backed-metadata, D14). Nothing that a client sees depends on it.
"""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_boolean
from node.queue.feature import Declaration, Description, Rule
from node.queue.settings import QueueSettings

FILE_BACKED: Final = Argument(
    "x-file-backed-metadata", read_boolean, "file_backed", policy=PolicyUse.USER, default=False
)


class _InFile(Rule):
    def describe(self, description: Description) -> None:
        description.file_backed = True


def _rule(settings: QueueSettings) -> Rule | None:
    return _InFile() if FILE_BACKED.of(settings) else None


FEATURE: Final[Declaration] = Declaration(FILE_BACKED, rule=_rule)
