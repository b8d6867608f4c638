"""Bugs in the takes of readers, planted for the simulator to find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from cluster.owner.takes import OwnedTakes, TakeQuestion
from cluster.peers.take_requests import HELD, TAKE
from node.queue.takes import QueueTakes


def soft_numbers() -> AbstractContextManager[object]:
    """F8: a number gives the same messages, also where the owner changes. With the bug the owner alone knows
    which numbers it has given: the next owner gives a number that comes again to other messages.
    """
    return _soft()


def forgotten_numbers() -> AbstractContextManager[object]:
    """F8: a request of a reader that was released, which comes late, takes and settles nothing. With the bug
    the queue forgets with the reader which numbers it has had: the next reader begins with 1 again.
    """
    return mock.patch.object(QueueTakes, "released_upto", 0)


@contextmanager
def _soft() -> Iterator[None]:
    given: set[tuple[OwnedTakes, int, bytes, int]] = set()
    known, tell, clear = OwnedTakes._known, OwnedTakes._tell, OwnedTakes.clear

    def forgetful(self: OwnedTakes, asked: TakeQuestion) -> list[Any] | None:
        told = known(self, asked)
        mine = (self, asked.queue, asked.reader, asked.number) in given
        return told if told is None or told[0] != HELD or mine or asked.deed != TAKE else None

    def telling(self: OwnedTakes, asked: TakeQuestion) -> None:
        given.add((self, asked.queue, asked.reader, asked.number))
        tell(self, asked)

    def leaving(self: OwnedTakes) -> None:
        clear(self)
        for one in [one for one in given if one[0] is self]:
            given.discard(one)

    with mock.patch.multiple(OwnedTakes, _known=forgetful, _tell=telling, clear=leaving):
        yield
