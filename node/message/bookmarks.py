"""Bookmarks: the names of messages in a queue, for clients.

A bookmark has 24 hexadecimal digits: eight that stand for the queue, and sixteen of the message's number in
the queue. So bookmarks of a queue sort as its messages do. A queue that was deleted and declared again has
other bookmarks.
"""

from __future__ import annotations

import re
from typing import Final

LAST_NUMBER: Final = (1 << 64) - 1
"""No message has a higher number."""

_QUEUE_MASK: Final = 0xFFFFFFFF
_QUEUE_DIGITS: Final = 8
_BOOKMARK: Final = re.compile("[0-9a-f]{24}")


class BookmarkError(ValueError):
    """The text is no bookmark of the queue."""


def bookmark_of(queue: int, number: int) -> str:
    """The bookmark of the message with this number in the queue with this id."""
    return f"{queue & _QUEUE_MASK:08x}{number:016x}"


def is_bookmark(text: str) -> bool:
    """Whether a text has the form of a bookmark, of any queue."""
    return _BOOKMARK.fullmatch(text) is not None


def queue_in(bookmark: str) -> int:
    """The lower 32 bits of the queue's id."""
    return int(bookmark[:_QUEUE_DIGITS], 16)


def number_in(bookmark: str) -> int:
    """The number of the message in its queue, whichever that is."""
    return int(bookmark[_QUEUE_DIGITS:], 16)


def number_of_bookmark(queue: int, bookmark: str) -> int:
    """The number of the message in the queue. Raises BookmarkError."""
    if not is_bookmark(bookmark):
        raise BookmarkError(
            f"{bookmark!r} is no bookmark: a bookmark has 24 hexadecimal digits, in lower case"
        )
    if int(bookmark[:_QUEUE_DIGITS], 16) != queue & _QUEUE_MASK:
        raise BookmarkError(f"{bookmark!r} is a bookmark of another queue, or of one that was deleted")
    return number_in(bookmark)
