"""The patterns of permissions, regular expressions for names of resources, and which of them were too slow.

Administrators write patterns and clients choose names, so no pattern may hold up a node. RabbitMQ bounds the
steps of a match; quorate bounds its time.
"""

from __future__ import annotations

from time import monotonic, thread_time
from typing import Any, Final

import regex

MEMORY_S: Final = 60.0
"""For so long a pattern that was too slow on a name is not tried on names of that length or more."""

REMEMBERED_PATTERNS: Final = 1000
"""Slow patterns that are remembered; another one displaces the oldest."""


class SlowPatterns:
    """For each pattern the length of the shortest name that took too long, and until when that counts.

    A match in exponential time takes longer for each further character: a pattern that was too slow on one
    name is not tried on longer names. Times are seconds of any clock that never goes back.
    """

    def __init__(self) -> None:
        self._shortest: dict[str, tuple[int, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._shortest)

    def refuses(self, pattern: str, name: str, now: float) -> bool:
        """Whether the pattern is not to be tried on the name."""
        known = self._shortest.get(pattern)
        return known is not None and len(name) >= known[0] and now < known[1]

    def took_too_long(self, pattern: str, name: str, now: float) -> None:
        """Remember that a match of the pattern on the name was given up."""
        length, until = self._shortest.pop(pattern, (len(name), 0.0))
        if len(self._shortest) >= REMEMBERED_PATTERNS:
            del self._shortest[next(iter(self._shortest))]
        shortest = min(length, len(name)) if now < until else len(name)
        self._shortest[pattern] = (shortest, now + MEMORY_S)


LONGEST: Final = 1024
"""Most characters of a pattern; as in RabbitMQ."""

MATCH_TIMEOUT_S: Final = 0.01
"""A pattern that takes longer on a name does not permit it: some patterns need exponential time."""

TRIES: Final = 5
"""How often a match is tried that timed out because other processes had the processor."""

Pattern = Any
"""A result of `compiled`."""

_SLOW: Final = SlowPatterns()
_NOTHING: Final = regex.compile("(?!)")


def compiled(pattern: str) -> Pattern:
    """The compiled pattern. An empty pattern finds the empty name only; a malformed one finds nothing."""
    try:
        return regex.compile(pattern or "^$")
    except regex.error:
        return _NOTHING


def permits(pattern: Pattern, name: str) -> bool:
    """Whether the pattern is found anywhere in the name within `MATCH_TIMEOUT_S`.

    Clients choose names, as many as they like: a pattern that took too long on one name is not tried on names
    of that length or more for `MEMORY_S`.
    """
    if _SLOW and _SLOW.refuses(pattern.pattern, name, monotonic()):
        return False
    for _ in range(TRIES):
        began = thread_time()
        try:
            return pattern.search(name, timeout=MATCH_TIMEOUT_S) is not None
        except TimeoutError:
            # The timeout counts time in which other processes ran: only this thread's time is the pattern's.
            if thread_time() - began > MATCH_TIMEOUT_S / 2:
                _SLOW.took_too_long(pattern.pattern, name, monotonic())
                break
    return False


def mistake_in(pattern: str) -> str | None:
    """The defect of a pattern, in words; None for a pattern that can be used."""
    if len(pattern) > LONGEST:
        return f"a pattern has more than {LONGEST} characters"
    try:
        regex.compile(pattern)
    except regex.error as error:
        return f"invalid regular expression '{pattern}': {error}"
    return None


def expanded(pattern: str, user: str, vhost: str) -> str:
    """A topic permission's pattern for one user. Characters of the names have no meaning in the pattern."""
    return pattern.replace("{username}", regex.escape(user)).replace("{vhost}", regex.escape(vhost))
