"""The leases that a front end holds, as it tells a new owner of a partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from node.ranges.range_set import Range

Holders = dict[int, list[tuple[int, int, int]]]
"""By queue, in ascending order: first and last message, and the consumer that has them."""

Tokens = dict[int, list[tuple[int, int, int]]]
"""By queue, in ascending order: first and last message, and the token of the lease."""

LeaseEnds = dict[int, list[tuple[int, int, int]]]
"""By queue, in ascending order: first and last message, and the end of the lease in milliseconds since the
epoch.
"""


class HeldLeases(NamedTuple):
    """The messages that a front end holds, by queue. For queues that keep order by key, `holders` has the
    consumer of each message; for queues whose leases have tokens, or ends, `tokens` and `ends` have these.
    """

    leases: dict[int, list[Range]]
    holders: Holders
    tokens: Tokens
    ends: LeaseEnds


@dataclass(frozen=True, slots=True)
class TellsLeases:
    """Tells whether every node that a call may reach, a later owner too, reads the `tokens` of leases, and
    their `ends`.
    """

    tokens: Callable[[], bool] = bool
    ends: Callable[[], bool] = bool


TELLS_NOTHING: Final = TellsLeases()
