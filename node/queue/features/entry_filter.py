"""Keeps messages out of the queue that its filter does not take (queue argument x-filter, D9).

The owner decides once, when a message is published, and no replica evaluates anything: the log has the
messages that enter. A message that the filter leaves out is confirmed, and leaves no trace but a count.
"""

from __future__ import annotations

from typing import Final

from node.expressions.selector import Selector
from node.queue.argument import Argument
from node.queue.argument_types import read_expression
from node.queue.feature import Declaration, Incoming, KeptOut, Rule
from node.queue.filtering import Looking
from node.queue.settings import QueueSettings
from node.ranges.range_set import Range

ENTRY_FILTER: Final = Argument("x-filter", read_expression, "entry_filter")


class EntryFilter(Rule):
    """Looks at each run once. Messages in a row with equal properties are looked at once, unless the filter
    has a path into their bodies.
    """

    def __init__(self, condition: bytes) -> None:
        super().__init__()
        self._looking = Looking(Selector(condition))

    def leave(self, incoming: Incoming) -> KeptOut:
        looking, unreadable = self._looking, self._looking.unreadable
        matching, _ = looking.look(0, incoming.run)
        return KeptOut(_others(matching, incoming.run.count), looking.unreadable - unreadable)


def _others(matching: list[Range], count: int) -> list[Range]:
    """The ranges below `count` that are not in `matching`, which is ascending."""
    found, behind = [], 0
    for first, last in [*matching, (count, count)]:
        if behind < first:
            found.append((behind, first - 1))
        behind = last + 1
    return found


def _rule(settings: QueueSettings) -> Rule | None:
    condition = ENTRY_FILTER.of(settings)
    return None if condition is None else EntryFilter(condition)


FEATURE: Final[Declaration] = Declaration(ENTRY_FILTER, rule=_rule)
