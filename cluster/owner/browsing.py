"""Shows the ready messages of a queue: the owner leases and counts nothing, and writes nothing to the log.

A page begins behind a bookmark. Messages that arrive, leave or are delivered between two pages do not change
the places of the others. A browsing consumer is shown first the messages that were there when it began, in
the order of delivery, and then later ones in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from cluster.owner.annotating import annotated
from cluster.owner.failures import with_failure_counts
from cluster.owner.state import OwnerState
from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_publish
from node.queue.filtering import LookBudget, Looking, ReadMessages, look_through
from node.queue.order import Order
from node.queue.stream_settings import is_stream
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range, count_of, up_to

PAGE_OCTETS: Final = 1024 * 1024
"""A page of so many octets gets no further message."""

PAGE_MESSAGES: Final = 256


def page(owner: OwnerState, id: int, queue: QueueOwner, place: tuple[int, int], wanted: int) -> list[Any]:
    """Up to `wanted` messages behind a place, which is a priority and a message's number. A queue without
    priorities ignores the priority.

    Returns the number of ready messages, and a row for each message: its priority, its number, whether it
    would be delivered as redelivered, and its content as an encoded publish to no queue.
    """
    left = min(wanted, PAGE_MESSAGES)
    ready = queue.delivery.ready
    return [len(ready), _rows(owner, id, queue, _shown_ranges(queue, ready.behind(*place, left)), left)]


def searched_page(
    owner: OwnerState,
    id: int,
    queue: QueueOwner,
    place: tuple[int, int],
    wanted: int,
    filter: bytes,
    looks: LookBudget,
) -> list[Any]:
    """As `page`, for messages that a filter takes, as far as this turn has steps for them. Returns also the
    priority and the number up to which the owner has looked, and whether there may be more behind these.

    Raises TreeError for the filter of a later release.
    """
    question = BrowsingQuestion(0, 0, 0, id, 0, *place, ABOVE_ALL - 1, wanted, False, filter)
    found = _searched_page(owner, queue, question, looks)
    return [len(queue.delivery.ready), *found]


class BrowsingQuestion(NamedTuple):
    """A browsing consumer's question for the `wanted` next messages behind a place.

    Messages up to the number `through` were there when the consumer began; 0: it begins now. `waits`: where
    there is no message, the answer waits for one. `filter` are the octets of the consumer's selector; empty
    for none.
    """

    front_end: int
    epoch: int
    request: int
    queue: int
    consumer: int
    level: int
    number: int
    through: int
    wanted: int
    waits: bool
    filter: bytes = b""


def next_page(owner: OwnerState, queue: QueueOwner, question: BrowsingQuestion) -> list[list[Any]]:
    """The next messages for a browsing consumer, as rows of a page."""
    found = _next_ranges(queue, question)
    if is_stream(queue.delivery.settings):
        return _rows_of_runs(owner, found, question.wanted)
    wanted = min(question.wanted, PAGE_MESSAGES)
    return _rows(owner, question.queue, queue, found, wanted) if wanted > 0 else []


def waits_for_turn(owner: OwnerState, queue: QueueOwner, question: BrowsingQuestion) -> bool:
    """Whether the readers of streams have had their pages of this turn. The queue is served again then."""
    waits = question.wanted > 0 and owner.pages.spent and is_stream(queue.delivery.settings)
    if waits:
        owner.serve_again(question.queue)
    return waits


def is_certain(queue: QueueOwner, rows: list[list[Any]]) -> bool:
    """Whether a page needs no confirmation that this owner leads. Messages leave a stream by retention alone,
    and none comes between those of a page. So a page with messages is true under a successor, too, who may
    have removed some of them: as deliveries, the owner sends pages only while it has the leader lease.
    """
    return bool(rows) and is_stream(queue.delivery.settings)


def _rows_of_runs(owner: OwnerState, found: Iterable[tuple[int, Range]], wanted: int) -> list[list[Any]]:
    """Rows as `_rows`, each for several messages of a stream, which all consumers get alike: as far as pages
    may have some in this turn.
    """
    rows: list[list[Any]] = []
    pages, left = owner.pages, min(wanted, owner.pages.messages)
    for level, (first, last) in found if left > 0 else ():
        last = min(last, first + left - 1)
        while first <= last:
            for number, run in owner.past_entries.first_runs(first, last):
                full = len(run.raw) >= pages.octets
                if full:
                    run = run.slice(0, max(1, run.count * pages.octets // len(run.raw)))
                rows.append([level, number, False, b"".join(encode_publish(run, []))])
                pages.take(run.count, len(run.raw))
                left -= run.count
                first = number + run.count
                if full:
                    return rows
        if left <= 0:
            break
    return rows


class FilteredPage(NamedTuple):
    """Rows for the messages that a filter takes. The owner has looked at all messages up to a place; there
    may be `more` behind it.
    """

    rows: list[list[Any]]
    level: int
    number: int
    more: bool


def filtered_page(
    owner: OwnerState, queue: QueueOwner, question: BrowsingQuestion, looks: LookBudget
) -> FilteredPage:
    """The next messages that the filter of a browsing consumer takes, as far as this turn has steps for them.

    Raises TreeError for the filter of a later release.
    """
    if not is_stream(queue.delivery.settings):
        return _searched_page(owner, queue, question, looks)
    found, looked = _found(queue, question, looks, owner.past_entries.first_runs)
    return looked._replace(rows=_rows_of_runs(owner, found, question.wanted))


def _searched_page(
    owner: OwnerState, queue: QueueOwner, question: BrowsingQuestion, looks: LookBudget
) -> FilteredPage:
    """As `filtered_page`, with a row for each message."""
    found, looked = _found(queue, question, looks, queue.read_messages)
    wanted = min(question.wanted, PAGE_MESSAGES)
    return looked._replace(rows=_rows(owner, question.queue, queue, found, wanted))


def _found(
    queue: QueueOwner, question: BrowsingQuestion, looks: LookBudget, read: ReadMessages
) -> tuple[list[tuple[int, Range]], FilteredPage]:
    """(level, range) for the messages of a page, and the page without their rows."""
    wanted = min(question.wanted, PAGE_MESSAGES)
    found: list[tuple[int, Range]] = []
    looking, left, count = Looking(Selector(question.filter)), looks.share(), 0
    place, more = (question.level, question.number), False
    for level, (first, last) in _next_ranges(queue, question) if wanted > 0 else ():
        while first <= last and left > 0 and count < wanted:
            matching, steps, first = look_through(looking, read, (first, last), left)
            found += [(level, part) for part in matching]
            count += count_of(matching)
            looks.left -= steps
            left -= steps
            place = level, first - 1
        if first <= last:
            more = True
            break
    queue.delivery.tally.unreadable += looking.unreadable
    return found, FilteredPage([], *place, more)


def _shown_ranges(queue: QueueOwner, found: Iterable[tuple[int, Range]]) -> Iterator[tuple[int, Range]]:
    """(level, range) for those of the messages that the queue shows."""
    return ((level, one) for level, part in found for one in up_to(queue.delivery.deepest, [part]))


def _next_ranges(queue: QueueOwner, question: BrowsingQuestion) -> Iterator[tuple[int, Range]]:
    """(level, range) for the messages behind the consumer's place that the queue shows."""
    if is_stream(queue.delivery.settings):
        return _stream_behind(queue, question.number)
    return _shown_ranges(queue, _ranges_behind(queue.delivery.ready, question))


def _stream_behind(queue: QueueOwner, number: int) -> Iterator[tuple[int, Range]]:
    """(level, range) for the messages of a stream behind this one, before the first that a transaction
    withholds: a reader would not come back to it when the transaction is committed.
    """
    withheld = queue.delivery.state.withheld.front()
    stable = ABOVE_ALL if withheld is None else withheld[0] - 1
    for level, part in queue.delivery.ready.behind(0, number, ABOVE_ALL):
        if part[0] > stable:
            break
        yield level, (part[0], min(part[1], stable))


def _ranges_behind(ready: Order, question: BrowsingQuestion) -> Iterator[tuple[int, Range]]:
    number, through = question.number, question.through
    if number <= through:
        for level, (first, last) in ready.behind(question.level, number, ABOVE_ALL):
            if first <= through:
                yield level, (first, min(last, through))
    yield from ((0, part) for part in ready.intersection(max(number, through) + 1, ABOVE_ALL))


def _rows(
    owner: OwnerState, id: int, queue: QueueOwner, found: Iterable[tuple[int, Range]], left: int
) -> list[list[Any]]:
    """Rows for the first messages of the ranges, up to `left` and to the octets of a page."""
    rows: list[list[Any]] = []
    octets, telling = 0, owner.tells_failures(id)
    for at, (first, last) in found:
        for each in range(first, min(last, first + left - 1) + 1):
            if octets >= PAGE_OCTETS:
                return rows
            redelivered, run = message_as_told(owner, queue, each, telling=telling)
            octets += len(run.raw)
            rows.append([at, each, redelivered, b"".join(encode_publish(run, []))])
            left -= 1
        if not left:
            break
    return rows


def message_as_told(owner: OwnerState, queue: QueueOwner, number: int, *, telling: bool) -> tuple[bool, Run]:
    """A message as a consumer would get it, and whether it would be redelivered."""
    redelivered, soft = number in queue.delivery.redelivered, queue.delivery.soft
    found = soft.runs(number, number) if number in soft.numbers else owner.contents(number, number)
    ((_, run),) = found
    if redelivered and telling:
        ((_, run),) = with_failure_counts(queue, number, run)
    for feature in queue.lifecycle.hooks.as_told:
        ((_, run),) = feature.as_told([(number, number)], run, owner.wall_ms())
    remarks = soft.remarks if number in soft.numbers else queue.delivery.state.remarks
    ((_, run),) = annotated(remarks, [(number, number)], run)
    return redelivered, run
