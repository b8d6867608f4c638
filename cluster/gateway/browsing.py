"""Looks at what a queue has ready, page by page, and leaves it as it is: see `cluster.owner.browsing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster.gateway.link import Links
from cluster.peers.ports import NOTHING_TO_GET
from node.message.run import Run
from node.queue.operation_format import read_run
from node.session.ports import QueueRef


class Bookmark(NamedTuple):
    """A place in the order in which a queue's messages are delivered: the highest priority first."""

    level: int
    number: int


BEGINNING: Final = Bookmark(256, 0)
"""Before the first message: priorities are below."""


class Shown(NamedTuple):
    """A message that was looked at."""

    place: Bookmark
    redelivered: bool
    """Whether it would be delivered as redelivered."""
    run: Run


Looked = Callable[[int, list[Shown], Any], None]
"""How many messages are ready, some of them, and the owner's answer where it is no page."""


def browse(links: Links, queue: QueueRef, behind: Bookmark, wanted: int, answer: Looked) -> None:
    """Ask the queue's owner for up to `wanted` messages; none: there are no more behind the bookmark."""

    def answered(value: Any, _: object) -> None:
        if not isinstance(value[1], list):
            answer(0, [], value)
            return
        ready, rows = value
        shown = [
            Shown(Bookmark(level, number), redelivered, read_run(data, 0))
            for level, number, redelivered, data in rows
        ]
        answer(ready, shown, None)

    arguments = [*NOTHING_TO_GET, queue.id, *behind, wanted]
    links.request(links.to(queue.partition), "browse", arguments, answered)
