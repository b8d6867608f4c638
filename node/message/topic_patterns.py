"""Patterns for the names of streams (queue argument x-underlying-topic; D1), in the syntax of RE2. Pure.

RE2 searches a name in a time proportional to its length, whatever the pattern. So an answer depends on no
clock, and all nodes route alike.
"""

from __future__ import annotations

from typing import Final

import re2

LONGEST_PATTERN: Final = 1024
"""Most characters of a pattern; as of those in permissions."""


class TopicPatternError(ValueError):
    """The pattern is too long, or is none of RE2."""


class TopicPattern:
    """A pattern that is searched for in names. Raises TopicPatternError."""

    __slots__ = ("_expression",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LONGEST_PATTERN:
            raise TopicPatternError(f"a pattern has more than {LONGEST_PATTERN} characters")
        options = re2.Options()
        options.log_errors = False
        try:
            self._expression = re2.compile(_octets(pattern), options)
        except re2.error as error:
            raise TopicPatternError(_words(error)) from None

    def matches(self, name: str) -> bool:
        """Whether the pattern is found in the name."""
        return self._expression.search(_octets(name)) is not None


def is_pattern(topic: str) -> bool:
    """Whether a topic is a pattern of names, and not a name: it begins with `^` and ends with `$`."""
    return len(topic) > 1 and topic.startswith("^") and topic.endswith("$")


def _octets(text: str) -> bytes:
    # Names of clients may have octets that are no UTF-8. RE2 reads UTF-8 alone.
    return text.encode("utf-8", "replace")


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else "no pattern of RE2"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
