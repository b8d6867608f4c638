"""Which patterns have taken too long on which names, so that no client has a node spend that time again."""

from __future__ import annotations

from typing import Final

MEMORY_S: Final = 60.0
"""How long a pattern is refused names as long as the one that it took too long on."""

REMEMBERED: Final = 1000
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
        if len(self._shortest) >= REMEMBERED:
            del self._shortest[next(iter(self._shortest))]
        shortest = min(length, len(name)) if now < until else len(name)
        self._shortest[pattern] = (shortest, now + MEMORY_S)
