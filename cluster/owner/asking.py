"""The questions of the owner of one partition to the owners of other parts of its queues, for loans. Pure.

An owner asks once for each filter whose consumers have room and which takes none of the ready messages
(docs/decisions/0092-filters-over-several-owners.md), and once for any messages, where it has no message
ready and consumers without a filter have room (docs/decisions/0074-several-owners.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cluster.owner.borrower import NOTHING_MORE, UNFILTERED, FilterAt
from cluster.owner.context import QueueParts
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.proposal import RETRY_INTERVAL_S
from cluster.owner.state import OwnerState
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from node.queue.dispatch import QueueOwner
from node.queue.wanted import room_by_filter, room_without_filters

_LEND: Final = "lend"
_LEND_BY_FILTER: Final = "lend_by_filter"
_LEND_NOTHING: Final = "lend_nothing"


class Asking:
    """See the module's docstring. The messages of loans that are on their way count as room that is taken."""

    def __init__(self, owner: OwnerState, parts: QueueParts, dead_letters: DeadLetters) -> None:
        self._owner, self._parts, self._dead_letters = owner, parts, dead_letters
        self._asked: dict[int, set[FilterAt]] = {}
        """The questions for each queue that are not answered."""
        self._wanting: dict[int, set[FilterAt]] = {}
        """The questions for each queue that the other owners may remember, also those of a former owner."""
        self._coming: dict[int, dict[FilterAt, tuple[int, int]]] = {}
        """By queue and question: the number of the last loan that was told, and its messages."""

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._asked, self._wanting, self._coming = {}, {}, {}

    def forget(self, number: int) -> None:
        """A queue is dropped."""
        for kept in (self._asked, self._wanting, self._coming):
            kept.pop(number, None)

    def taken_over(self, number: int, others: dict[int, int]) -> None:
        """A former owner may have asked the owners of these partitions, without a filter or with some."""
        self._wanting[number] = {(partition, UNFILTERED) for partition in others}

    def ask_by_filter(self, number: int, queue: QueueOwner) -> None:
        """Ask for each filter. Take the filters back that no consumer has any more."""
        wanted = [key for key in self._wanting.get(number, ()) if key[1] != UNFILTERED]
        if queue.delivery.filtered is None and not wanted:
            return
        others = dict(self._parts.others(number))
        filters = queue.delivery.consumers.filters
        self._take_back_filters(number, [key for key in wanted if key[1] not in filters], others)
        for filter, room in room_by_filter(queue).items():
            self._ask_all(number, filter, room, others)

    def _take_back_filters(self, number: int, keys: list[FilterAt], others: dict[int, int]) -> None:
        self._wanting.get(number, set()).difference_update(keys)
        for key in keys:
            part = others.get(key[0])
            if part is not None:
                self._tell(number, key, part, NOTHING_MORE, _heard)

    def ask(self, number: int, queue: QueueOwner) -> None:
        """Ask for any messages, for the consumers without a filter: no message is ready."""
        room = room_without_filters(queue)
        if room > 0:
            self._ask_all(number, UNFILTERED, room, dict(self._parts.others(number)))

    def take_back(self, number: int) -> None:
        """Take the questions back that are not answered: the queue has no consumers. A new one asks again
        when they are.
        """
        wanting = self._wanting.pop(number, ())
        for partition, part in self._parts.others(number) if wanting else ():
            if (partition, UNFILTERED) in wanting:
                # An owner of an earlier release does not know this request, and answers that.
                self._dead_letters.link(partition).ask(_LEND_NOTHING, [*NOTHING_TO_GET, part], _heard)

    def _ask_all(self, number: int, filter: bytes, room: int, others: dict[int, int]) -> None:
        """Ask the owners of the other parts, each once until it has answered."""
        left = room - self._under_way(number, filter, others)
        asked = self._asked.setdefault(number, set())
        for partition, part in others.items() if left > 0 else ():
            key = (partition, filter)
            if key not in asked:
                asked.add(key)
                self._wanting.setdefault(number, set()).add(key)
                self._tell(number, key, part, left, partial(self._answered, number, key))

    def _tell(
        self, number: int, key: FilterAt, part: int, room: int, answered: Callable[[Any], None]
    ) -> None:
        partition, filter = key
        arguments = [*NOTHING_TO_GET, part, self._owner.partition, number, room]
        name, told = (_LEND_BY_FILTER, [filter]) if filter != UNFILTERED else (_LEND, [])
        self._dead_letters.link(partition).ask(name, [*arguments, *told], answered)

    def _under_way(self, number: int, filter: bytes, others: dict[int, int]) -> int:
        """The messages of loans that were told for a filter, or taken for any, and are not applied yet."""
        coming = self._coming.get(number, {})
        for key, (loan, _) in list(coming.items()):
            taken = self._owner.front_ends.taken.get(FIRST_TRANSIT_ID + key[0])
            if key[0] not in others or (taken is not None and loan <= taken.accepted):
                # The messages of the loan are among the borrowed ones, but for those settled after all.
                del coming[key]
        told = sum(messages for key, (_, messages) in coming.items() if key[1] == filter)
        return self._owner.borrowed[number] + told

    def _answered(self, number: int, key: FilterAt, value: Any) -> None:
        """The other owner has lent messages. One that has no such part, whose declaration may be on its way,
        is asked again a little later.
        """
        self._asked.get(number, set()).discard(key)
        if value == NOT_FOUND:
            self._owner.alarms.set(number, self._owner.wall_ms() + int(RETRY_INTERVAL_S * 1000))
        elif number in self._owner.queues:
            loan, messages = value
            if messages:
                self._coming.setdefault(number, {})[key] = (loan, messages)
            self._owner.serve_again(number)


def _heard(_: Any) -> None:
    """The other owner has heard that a question is taken back."""
