"""The patterns of permissions, regular expressions for names of resources, and which of them were too slow.

Administrators write them and clients choose the names, so no pattern may hold up a node: RabbitMQ bounds
the steps of a match, here it is the time.
"""

from __future__ import annotations

from time import monotonic, thread_time
from typing import Any, Final

import regex

MEMORY_S: Final = 60.0
"""How long a pattern is refused names as long as the one that it took too long on."""

REMEMBERED_PATTERNS: Final = 1000
"""Patterns of which that is known; the oldest is forgotten for one more."""


class SlowPatterns:
    """For each pattern the length of the shortest name that took too long, and until when that counts.

    A match in exponential time takes more for each further character: of a pattern that was too slow on one
    name all longer ones are refused untried. Times are seconds of any clock that never goes back.
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
        """A match was given up."""
        length, until = self._shortest.pop(pattern, (len(name), 0.0))
        if len(self._shortest) >= REMEMBERED_PATTERNS:
            del self._shortest[next(iter(self._shortest))]
        shortest = min(length, len(name)) if now < until else len(name)
        self._shortest[pattern] = (shortest, now + MEMORY_S)


LONGEST: Final = 1024
"""Characters of a pattern; as in RabbitMQ."""

MATCH_TIMEOUT_S: Final = 0.01
"""A pattern that takes longer on one name permits nothing: some need exponential time."""

TRIES: Final = 5
"""How often a match is tried that the machine did not let run for as long."""

Pattern = Any
"""What `compiled` makes."""

_SLOW: Final = SlowPatterns()
_NOTHING: Final = regex.compile("(?!)")


def compiled(pattern: str) -> Pattern:
    """A pattern as names are searched for it. An empty one finds the empty name; a malformed one nothing."""
    try:
        return regex.compile(pattern or "^$")
    except regex.error:
        return _NOTHING


def permits(pattern: Pattern, name: str) -> bool:
    """Whether the pattern is found anywhere in the name, in time.

    A client chooses the name, and may ask for as many as it likes: a pattern that took too long on one is
    not tried for a minute on names as long.
    """
    if _SLOW and _SLOW.refuses(pattern.pattern, name, monotonic()):
        return False
    for _ in range(TRIES):
        began = thread_time()
        try:
            return pattern.search(name, timeout=MATCH_TIMEOUT_S) is not None
        except TimeoutError:
            # The clock goes on while other processes run: that is nothing against the pattern.
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
    """A topic permission's pattern for one user; the names stand for themselves, whatever is in them."""
    return pattern.replace("{username}", regex.escape(user)).replace("{vhost}", regex.escape(vhost))
