"""The requests of front ends to the owner of a queue about takes (docs/decisions/0078).

A request of the name `TAKE_REQUEST` has a queue, a deed, a reader's name, and what the deed says. Its answer
is a list.
"""

from __future__ import annotations

from typing import Final

TAKE_REQUEST: Final = "take"

TAKE: Final = "take"
"""The deed: hold messages under a number, or say which are held. The number, messages at most and octets at
most follow; and, from format level 34 on, the number behind all messages of a new take, 0 for none.
"""

SETTLE_TAKES: Final = "settle_takes"
"""The deed: settle the messages of the takes up to a number, which follows."""

RELEASE: Final = "release"
"""The deed: give the messages of the reader's takes back to the queue, and forget the reader. The last number
that the reader has asked for may follow, 0 for any: a reader with a later number is another one of that name,
and stays.
"""

SHOW_TAKES: Final = "show_readers"
"""The deed: show all readers. Also the first item of the answer, which rows follow: a name, the last
committed and the last ended number, and rows of held takes: the number, when, in milliseconds since the
epoch, and the number of messages. Behind the rows are the number behind which new readers begin, and the
number of the next message of the partition; an owner of an earlier release tells neither.
"""

HELD: Final = "held"
"""The first item of an answer: the messages are held under the number. When they were taken, in milliseconds
since the epoch, and their ranges follow.
"""

NOTHING_READY: Final = "empty"
"""The first item of an answer: no message is ready, and the number is not used."""

TAKE_SETTLED: Final = "settled"
"""The first item of an answer: the number is committed, or a later one. The last committed number follows."""

ENDED: Final = "ended"
"""The first item of an answer: the take has ended by its time."""

NOT_NEXT: Final = "not_next"
"""The first item of an answer: the number is above the next one. The reader's last number follows."""

NOT_KNOWN: Final = "released"
"""The first item of an answer: the queue has no such reader."""

UNFIT: Final = "unfit"
"""The first item of an answer: readers take no messages of such a queue. An argument of the queue, or another
reason, follows.
"""

TOO_MANY_READERS: Final = "too_many_readers"
"""The first item of an answer: the queue has no room for another reader."""
