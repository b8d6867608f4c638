"""Notes in the log for the histories of queues (queue argument x-history, requirement X8): what happens to
messages, and what no other operation tells. No note changes a message.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from node.ranges.range_set import Range


class NoteKind(IntEnum):
    """The kinds of notes. Journals have the numbers: never renumber."""

    KEEP = 1
    """From this entry on the partition keeps whole entries for the queue, as long as the stream `first`,
    which keeps the queue's messages, reaches back to them.
    """
    TIME = 2
    """The owner proposed the entry at the time `first`, in milliseconds since the epoch. No queue is
    meant.
    """
    LEASED = 3
    """The owner has given the messages to the consumer `second` of the front end `first`."""
    LAPSED = 4
    """The return of the messages in this entry is the end of their leases."""
    MOVED = 5
    """The messages are in the partition under the numbers from `first` to `second`, in the same order where
    these are as many; otherwise queues have left out some.
    """
    TRANSACTED = 6
    """The messages leave the queue by the transaction `second` of the front end `first`."""
    ARRIVED = 7
    """The messages come by the transaction `second` of the front end `first`. No queue is meant."""
    RESTART = 8
    """No replica can read some entry before this one: the partition keeps whole entries from here on. No
    queue is meant.
    """
    HELD = 9
    """The front end `first` has told a new owner that its clients have the messages."""
    BLAKE3 = 10
    """The digests after this entry and all behind it are those of BLAKE3. No queue is meant."""


class HistoryNote(NamedTuple):
    """A note. `NoteKind` says what the fields mean; those that a kind does not name are 0 and empty."""

    kind: NoteKind
    queue: int = 0
    first: int = 0
    second: int = 0
    ranges: tuple[Range, ...] = ()
