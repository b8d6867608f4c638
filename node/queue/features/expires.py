"""Queues that go when nobody has used them for a time (queue argument x-expires)."""

from __future__ import annotations

from typing import Final

from node.queue.argument_types import read_positive_time
from node.queue.features.argument import Argument, PolicyUse
from node.queue.features.feature import Declaration

EXPIRES: Final = Argument("x-expires", read_positive_time, "expires_ms", policy=PolicyUse.LIMIT)


FEATURE: Final[Declaration] = Declaration(EXPIRES)
