"""Looks at the ready messages of a queue, page by page, without a change: see `cluster.owner.browsing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster.gateway.link import Links
from cluster.peers.link_messages import NOTHING_TO_GET
from node.message.run import Run
from node.queue.entry_format import read_run
from node.ranges.ranked_numbers import HIGHEST_RANK
from node.session.ports import QueueRef


class Bookmark(NamedTuple):
    """A place in the order in which a queue's messages are delivered: the highest priority first."""

    level: int
    number: int
    part: int = 0
    """The id of the part, of a queue with several owners, where the parts are shown one after the other."""


BEGINNING: Final = Bookmark(HIGHEST_RANK, 0)
"""The place before the first message: no message has a higher priority, and none the number 0."""


class Shown(NamedTuple):
    """A message on a page."""

    place: Bookmark
    redelivered: bool
    """Whether a delivery of the message would have the flag `redelivered`."""
    run: Run


Looked = Callable[[int, list[Shown], Any], None]
"""Takes the number of ready messages, a page of them, and None; for a refusal 0, no messages, and the owner's
answer."""


def browse(
    links: Links, queue: QueueRef, behind: Bookmark, wanted: int, filter: bytes, answer: Looked
) -> None:
    """Ask the queue's owner for up to `wanted` messages behind the bookmark that a filter takes; an empty one
    takes all. An empty page is the last.
    """

    def answered(value: Any, _: object) -> None:
        if not isinstance(value[1], list):
            answer(0, [], value)
            return
        ready, rows, *looked = value
        if looked and not rows:
            level, number, more = looked
            if more:
                # The filter takes none of the messages up to there.
                browse(links, queue, Bookmark(level, number), wanted, filter, answer)
                return
        shown = [
            Shown(Bookmark(level, number), redelivered, read_run(data, 0))
            for level, number, redelivered, data in rows
        ]
        answer(ready, shown, None)

    place = (behind.level, behind.number)
    arguments = [*NOTHING_TO_GET, queue.id, *place, wanted, *([filter] if filter else [])]
    links.request(links.to(queue.partition), "browse", arguments, answered)
