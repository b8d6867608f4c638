"""Tells consumers that ask for it (`x-tell`) the bookmark of each message and the end of its lease."""

from __future__ import annotations

from collections.abc import Iterator

from cluster.peers.link_messages import Delivery
from node.message.bookmarks import bookmark_of
from node.message.run import Run
from node.queue.leasing import UNTOLD
from node.ranges.range_set import Numbers, numbers_of
from node.wire.formats import format_of


def told_runs(delivery: Delivery) -> Iterator[tuple[Run, Numbers]]:
    """The messages of a delivery, each in a run of its own, with their numbers: each states its bookmark, and
    the end of its lease, if that has one.
    """
    until = None if delivery.until == UNTOLD else delivery.until
    for i, number in enumerate(numbers_of(delivery.ranges)):
        one = delivery.run.slice(i, 1)
        bookmark = bookmark_of(delivery.queue, number)
        yield format_of(one).with_lease(one, bookmark, until), range(number, number + 1)
