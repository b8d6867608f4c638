"""Which messages of a source a replay takes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pipeline.options import OptionError
from pipeline.sources.message_log import Rows

_BOOKMARK: Final = re.compile("[0-9a-f]{24}")


class Selection(NamedTuple):
    """The messages that are taken; None takes all. `key` is a pattern as in bindings of topic exchanges:
    words between dots, `*` for one word and `#` for any number of words. Times are in milliseconds since the
    epoch, `before` excluded; bookmarks are both included.
    """

    queue: str | None = None
    key: str | None = None
    since: int | None = None
    before: int | None = None
    first: str | None = None
    last: str | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that decide."""
        wanted = {
            "queue": self.queue,
            "routing_key": self.key,
            "time": self.since if self.before is None else self.before,
            "bookmark": self.first or self.last,
        }
        return [name for name, one in wanted.items() if one is not None]

    def takes(self, rows: Rows, count: int) -> list[int]:
        """The places of the messages that are taken, of columns with so many messages. A message whose time
        is not known is in no span of time.
        """
        found = list(range(count))
        if self.queue is not None:
            queues, queue = rows["queue"], self.queue
            found = [place for place in found if queues[place] == queue]
        if self.key is not None:
            keys, pattern = rows["routing_key"], key_pattern(self.key)
            found = [place for place in found if pattern.fullmatch("." + keys[place])]
        if self.since is not None or self.before is not None:
            times = rows["time"]
            found = [place for place in found if self._has_time(times[place])]
        if self.first is not None or self.last is not None:
            low, high = self.first or "", self.last or "g"
            bookmarks = rows["bookmark"]
            found = [place for place in found if low <= bookmarks[place] <= high]
        return found

    def _has_time(self, time: int | None) -> bool:
        if time is None:
            return False
        return (self.since is None or time >= self.since) and (self.before is None or time < self.before)


def key_pattern(key: str) -> re.Pattern[str]:
    """The routing keys, with a dot in front, that a pattern of a topic exchange takes (AMQP 0-9-1, section
    3.1.3.3): so each word is behind a dot.
    """
    parts = list[str]()
    for word in key.split("."):
        if word == "#":
            parts.append(r"(?:\.[^.]*)*")
        else:
            parts.append(r"\." + (r"[^.]*" if word == "*" else re.escape(word)))
    return re.compile("".join(parts), re.DOTALL)


def time_of(text: str) -> int:
    """A time as in ISO 8601, of UTC unless it says otherwise, in milliseconds since the epoch.

    Raises OptionError.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{text} is no time as in ISO 8601") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def checked_bookmark(text: str) -> str:
    """A bookmark. Raises OptionError."""
    if not _BOOKMARK.fullmatch(text):
        raise OptionError(f"{text} is no bookmark: 24 hexadecimal digits")
    return text
