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

SLOW_S: Final = 0.0005
"""A match that takes longer is slow. An ordinary one takes microseconds, and some patterns need a time that
grows with a power of the name's length."""

BUDGET_S: Final = 0.1
"""So long the slow matches of one pattern may take together within `MEMORY_S`."""


class SlowPatterns:
    """For each pattern the length of the shortest name that took too long, and until when that counts.

    A match in exponential time takes longer for each further character: a pattern that was too slow on one
    name is not tried on longer names. So is a pattern whose matches were slow again and again. Times are
    seconds of any clock that never goes back.
    """

    def __init__(self) -> None:
        self._shortest: dict[str, tuple[int, float]] = {}
        self._spent: dict[str, tuple[float, int, float]] = {}
        """For each pattern the time of its slow matches, their shortest name, and until when they count."""

    def __bool__(self) -> bool:
        return bool(self._shortest)

    def refuses(self, pattern: str, name: str, now: float) -> bool:
        """Whether the pattern is not to be tried on the name."""
        known = self._shortest.get(pattern)
        return known is not None and len(name) >= known[0] and now < known[1]

    def was_slow(self, pattern: str, name: str, seconds: float, now: float) -> None:
        """Count a slow match against the pattern's budget."""
        spent, length, until = self._spent.pop(pattern, (0.0, len(name), now + MEMORY_S))
        if now >= until:
            spent, length, until = 0.0, len(name), now + MEMORY_S
        spent, length = spent + seconds, min(length, len(name))
        if spent > BUDGET_S:
            self.took_too_long(pattern, name[:length], now)
            return
        if len(self._spent) >= REMEMBERED_PATTERNS:
            del self._spent[next(iter(self._spent))]
        self._spent[pattern] = (spent, length, until)

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

    Clients choose names, as many as they like: a pattern that took too long on one name, or `BUDGET_S` on
    several, is not tried on names of that length or more for `MEMORY_S`.
    """
    if _SLOW and _SLOW.refuses(pattern.pattern, name, monotonic()):
        return False
    first = thread_time()
    for _ in range(TRIES):
        began = thread_time()
        try:
            found, taken = _searched(pattern, name)
            if taken > SLOW_S:
                # The collector may have run within the search, whose own time the second search tells.
                taken = min(taken, _searched(pattern, name)[1])
            if taken > SLOW_S:
                _SLOW.was_slow(pattern.pattern, name, taken, monotonic())
            return found
        except TimeoutError:
            # The timeout counts time in which other processes ran: only this thread's time is the pattern's.
            if thread_time() - began > MATCH_TIMEOUT_S / 2:
                _SLOW.took_too_long(pattern.pattern, name, monotonic())
                return False
    # On a busy machine no try has enough time to tell the pattern's own, and every name costs all tries.
    _SLOW.was_slow(pattern.pattern, name, thread_time() - first, monotonic())
    return False


def _searched(pattern: Pattern, name: str) -> tuple[bool, float]:
    """Whether the pattern is found in the name, and the seconds of this thread's time that the search took.

    Raises TimeoutError.
    """
    began = thread_time()
    found = pattern.search(name, timeout=MATCH_TIMEOUT_S) is not None
    return found, thread_time() - began


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
