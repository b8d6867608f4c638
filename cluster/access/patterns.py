"""The patterns of permissions: regular expressions that the names of resources are searched for.

Administrators write them and clients choose the names, so no pattern may hold up a node: RabbitMQ bounds
the steps of a match, here it is the time.
"""

from __future__ import annotations

from typing import Any, Final

import regex

LONGEST: Final = 1024
"""Characters of a pattern; as in RabbitMQ."""

TIMEOUT_S: Final = 0.05
"""A pattern that takes longer on one name permits nothing: some need exponential time."""

Pattern = Any
"""What `compiled` makes."""

_NOTHING: Final = regex.compile("(?!)")


def compiled(pattern: str) -> Pattern:
    """A pattern as names are searched for it. An empty one finds the empty name; a malformed one nothing."""
    try:
        return regex.compile(pattern or "^$")
    except regex.error:
        return _NOTHING


def permits(pattern: Pattern, name: str) -> bool:
    """Whether the pattern is found anywhere in the name, in time."""
    try:
        return pattern.search(name, timeout=TIMEOUT_S) is not None
    except TimeoutError:
        return False


def mistake_in(pattern: str) -> str | None:
    """What is wrong with a pattern; None for one that can be used."""
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
