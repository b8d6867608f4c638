"""The requests of front ends to the owner of a stream about its readers (docs/decisions/0079).

A request of the name `READER_REQUEST` has a queue, a deed, and what the deed says. Its answer is a list.
"""

from __future__ import annotations

from typing import Final

READER_REQUEST: Final = "reader"

MAKE_READER: Final = "make"
"""The deed: make a reader, or give a reader another max lag. The name, the kind and the value of the offset
where a new reader begins, and the messages, octets and milliseconds of the max lag follow.
"""

ADVANCE_READER: Final = "advance"
"""The deed: advance a reader. The name and the position follow: the first number that is not read."""

FORGET_READER: Final = "forget"
"""The deed: forget a reader, whose name follows."""

SHOW_READERS: Final = "show"
"""The deed: show the readers."""

READERS_TOLD: Final = "readers"
"""The first item of an answer: rows of readers (`cluster.owner.readers.ReaderRow`) follow, of the reader that
is named, or of all.
"""

NO_READER: Final = "none"
"""The first item of an answer: the stream has no such reader."""

POSITION_AHEAD: Final = "ahead"
"""The first item of an answer: the stream has not come to the position. The stable end follows."""

BEGIN_GONE: Final = "gone"
"""The first item of an answer: retention has passed the position where the reader would begin. The number of
the oldest message follows, -1 without any.
"""
