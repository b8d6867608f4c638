"""The readers of streams, for which retention waits, at the owner (docs/decisions/0079). Pure.

A reader is a subscription with a max lag. Retention removes no message behind a reader's place as long as
the reader would not be further behind than its max lag; then it goes on, one message after the other, and the
owner tells which reader it has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.owner.context import OvertakenReader
from cluster.owner.log_reading import stable_end
from cluster.owner.state import OwnerState
from cluster.owner.streams import has_room, place_of
from cluster.peers.link_messages import NOT_FOUND, TOO_MANY_SUBSCRIPTIONS
from cluster.peers.reader_requests import (
    ADVANCE_READER,
    BEGIN_GONE,
    FORGET_READER,
    MAKE_READER,
    NO_READER,
    POSITION_AHEAD,
    READERS_TOLD,
)
from node.message.streams import OffsetKind, StreamOffset
from node.queue.decision_format import encode_advance, encode_make_reader, encode_retention_passed
from node.queue.dispatch import QueueOwner
from node.queue.operations import Aspect
from node.queue.queue import QueueState
from node.queue.subscriptions import Advance, MakeReader, MaxLag, RetentionPassed, feed_place
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range, count_of

LOOK_S: Final = 1.0
"""Seconds for which the owner remembers up to which message a reader's max lag leads. Meanwhile retention
leaves more than it has to.
"""

LAG_OF_COPIES: Final = MaxLag(octets=1 << 30)
"""How far copies that have not arrived at another partition may be behind before retention passes them."""

Tell = Callable[[list[Any]], None]
"""Takes an answer (`cluster.peers.reader_requests`)."""


class ReaderRow(NamedTuple):
    """One subscription of a stream.

    `max_lag` is None where retention does not wait for it. `messages`, `octets` and `milliseconds` are its
    lag: the messages behind its place, the octets of the partition's log from the first of them on, and how
    long ago the owner took the first one. `lost` are the messages behind its place that retention has
    removed; if not `exact`, at most so many.
    """

    name: bytes
    place: int
    max_lag: tuple[int, int, int] | None
    messages: int
    octets: int
    milliseconds: int
    lost: int
    exact: bool


# -- retention ------------------------------------------------------------------------------------


def held_from(owner: OwnerState, number: int) -> int:
    """The first message of a stream that retention has to leave, with all behind it: a reader within its max
    lag has not read the message, or a transaction withholds it, so that no reader can read it, or a copy of
    the message has not arrived, and is not too far behind.
    """
    state = owner.machine.queues[number]
    withheld, subscriptions = state.withheld.front(), state.subscriptions
    held = ABOVE_ALL if withheld is None else withheld[0]
    if subscriptions is not None:
        for name, place, max_lag in subscriptions.readers():
            if place + 1 < held:
                held = min(held, max(place + 1, _floor(owner, number, name, place, max_lag)))
    for place in owner.new_readers.get(number, ()):
        held = min(held, place + 1)
    for copies in owner.copying.get(number, {}).values():
        if copies.first < held:
            place, name = copies.first - 1, feed_place(copies.queue)
            held = min(held, max(copies.first, _floor(owner, number, name, place, LAG_OF_COPIES)))
    return held


def _floor(owner: OwnerState, number: int, name: bytes, place: int, max_lag: MaxLag) -> int:
    """`floor_of`, or what it was within the last `LOOK_S`: messages that come move it forward alone."""
    key = number, name
    known = owner.lag_floors.get(key)
    if known is None or known[0] != max_lag or known[1] <= owner.now:
        found = floor_of(owner, owner.machine.queues[number], place, max_lag)
        known = owner.lag_floors[key] = max_lag, owner.now + LOOK_S, found
    return known[2]


def floor_of(owner: OwnerState, state: QueueState, place: int, max_lag: MaxLag) -> int:
    """The first message that a reader within `max_lag` may have before it: from there on the stream's end is
    within each limit.
    """
    floor = place + 1
    if max_lag.messages:
        floor = max(floor, _newest(state, place, max_lag.messages))
    if max_lag.octets:
        index = owner.entries.source.last_within(max_lag.octets)
        floor = max(floor, owner.machine.first_behind(index - 1))
    if max_lag.milliseconds:
        arrivals = state.annotations.get(Aspect.ARRIVAL)
        since = max(0, owner.wall_ms() - max_lag.milliseconds)
        first = None if arrivals is None else arrivals.first_from(since)
        floor = max(floor, owner.machine.next_sequence if first is None else first)
    return floor


def _newest(state: QueueState, place: int, count: int) -> int:
    """The first of the newest `count` messages, at most of those behind a place."""
    older = len(state.alive) - count
    if older > 0:
        older -= state.alive.count_in(0, place)
    if older <= 0:
        return place + 1
    for first, last in state.alive.behind(place):
        older -= last - first + 1
        if older < 0:
            return last + older + 1
    return place + 1


def retention_passes(owner: OwnerState, number: int, queue: QueueOwner, removed: Sequence[Range]) -> bytes:
    """The operation that precedes the removal of messages of a stream. Readers that retention passes are
    told once the entry is applied.
    """
    state = queue.delivery.state
    step = RetentionPassed(number, max(last for _, last in removed), count_of([*removed]))
    known, mark = state.subscriptions, state.mark
    if known is not None:
        ahead = [name for name in known.ahead_of(mark) if (number, name) not in owner.passing_readers]
        passed = [name for name in ahead if (known.place(name) or 0) < step.number]
        if passed:
            owner.passing_readers.update((number, name) for name in passed)
            owner.proposal.committed.append(partial(_tell_passed, owner, number, passed))
    return encode_retention_passed(step)


def _tell_passed(owner: OwnerState, number: int, names: list[bytes]) -> None:
    """Retention has passed these readers, unless they have advanced or gone meanwhile."""
    state = owner.machine.queues.get(number)
    known = None if state is None else state.subscriptions
    for name in names:
        owner.passing_readers.discard((number, name))
        if state is not None and known is not None and name in known.max_lags:
            lost = known.lost(name, state.mark)
            if lost.messages:
                owner.overtaken_readers.note(OvertakenReader(number, name, lost.messages))


# -- lags -----------------------------------------------------------------------------------------


def reader_rows_of(owner: OwnerState, number: int) -> list[ReaderRow]:
    """The subscriptions of a stream, by name."""
    state = owner.machine.queues.get(number)
    known = None if state is None else state.subscriptions
    return [] if state is None or known is None else [row_of(owner, state, name) for name in known.names()]


def row_of(owner: OwnerState, state: QueueState, name: bytes) -> ReaderRow:
    """A subscription that the stream has."""
    known = state.subscriptions
    assert known is not None
    place, max_lag = known.place(name) or 0, known.max_lags.get(name)
    messages = len(state.alive) - state.alive.count_in(0, place)
    octets = waited = 0
    part = state.alive.range_from(place + 1)
    if part is not None:
        first = max(part[0], place + 1)
        octets = owner.entries.source.octets_from(owner.machine.locate(first))
        arrivals = state.annotations.get(Aspect.ARRIVAL)
        came = 0 if arrivals is None else arrivals.get(first)
        waited = max(0, owner.wall_ms() - came) if came else 0
    lost = known.lost(name, state.mark) if max_lag else (0, True)
    limits = None if max_lag is None else (max_lag.messages, max_lag.octets, max_lag.milliseconds)
    return ReaderRow(name, place, limits, messages, octets, waited, lost[0], lost[1])


# -- requests -------------------------------------------------------------------------------------


def ask_reader(owner: OwnerState, number: int, deed: str, rest: list[Any], found: Tell) -> None:
    """Carry out a request about the readers of a stream. It is answered by the state once its entry is
    applied.
    """
    # Earlier removals are applied then, and so is the entry that creates the stream.
    owner.after_proposed(partial(_take, owner, number, deed, rest, found))


def _take(owner: OwnerState, number: int, deed: str, rest: list[Any], found: Tell) -> None:
    queue = owner.queues.get(number)
    if queue is None:
        found([*NOT_FOUND])
    elif deed == MAKE_READER:
        name, kind, value, *limits = rest
        offset = StreamOffset(OffsetKind(kind), value)
        _make(owner, number, queue, name, offset, MaxLag(*limits), found)
    elif deed == ADVANCE_READER:
        name, position = rest
        _advance(owner, number, queue, name, position, found)
    elif deed == FORGET_READER:
        _forget(owner, number, queue, rest[0], found)
    else:
        found([READERS_TOLD, [[*row] for row in reader_rows_of(owner, number)]])


def _make(
    owner: OwnerState,
    number: int,
    queue: QueueOwner,
    name: bytes,
    offset: StreamOffset,
    max_lag: MaxLag,
    found: Tell,
) -> None:
    known = queue.delivery.state.subscriptions
    place = None if known is None else known.place(name)
    if not has_room(owner, number, name):
        found([*TOO_MANY_SUBSCRIPTIONS])
        return
    if place is None:
        place, refusal = _begin(owner, queue, offset)
        if refusal is not None:
            found(refusal)
            return
    # The removals that come before the entry are under way already; no other one may overtake the reader.
    owner.new_readers.setdefault(number, []).append(place)
    owner.operation(encode_make_reader(MakeReader(number, name, place, max_lag)))
    owner.proposal.committed.append(partial(_made, owner, number, name, place, found))


def _begin(owner: OwnerState, queue: QueueOwner, offset: StreamOffset) -> tuple[int, list[Any] | None]:
    """The place of a new reader, or a refusal."""
    state, machine = queue.delivery.state, owner.machine
    end, oldest = stable_end(machine, state), _oldest_kept(queue)
    if offset.kind is OffsetKind.FIRST:
        return (end if oldest is None else min(oldest, end)) - 1, None
    if offset.kind is OffsetKind.NUMBER:
        if offset.value > end:
            return 0, [POSITION_AHEAD, end]
        left = state.alive.range_from(offset.value)
        leaving = left is not None and (end if oldest is None else oldest) > max(left[0], offset.value)
        if leaving or (offset.value <= state.mark and offset.value < (oldest or end)):
            return 0, [BEGIN_GONE, -1 if oldest is None else oldest]
        return offset.value - 1, None
    place = place_of(queue.delivery, offset, machine.next_sequence - 1, owner.wall_ms())
    return min(max(place, (end if oldest is None else oldest) - 1), end - 1), None


def _oldest_kept(queue: QueueOwner) -> int | None:
    """The oldest message of which no removal is under way."""
    ready, withheld = queue.delivery.ready.lowest(), queue.delivery.state.withheld.front()
    held = queue.delivery.held.first
    kept = [part[0] for part in (ready, withheld) if part is not None]
    return min(kept if held is None else [*kept, held], default=None)


def _made(owner: OwnerState, number: int, name: bytes, place: int, found: Tell) -> None:
    places = owner.new_readers.get(number)
    if places is not None:
        places.remove(place)
        if not places:
            del owner.new_readers[number]
    _tell(owner, number, name, found)


def _tell(owner: OwnerState, number: int, name: bytes, found: Tell) -> None:
    """Answer with the reader, as it is now."""
    state = owner.machine.queues.get(number)
    known = None if state is None else state.subscriptions
    if state is None:
        found([*NOT_FOUND])
    elif known is None or known.place(name) is None:
        found([NO_READER])
    else:
        found([READERS_TOLD, [[*row_of(owner, state, name)]]])


def _advance(
    owner: OwnerState, number: int, queue: QueueOwner, name: bytes, position: int, found: Tell
) -> None:
    state = queue.delivery.state
    place = None if state.subscriptions is None else state.subscriptions.place(name)
    end = stable_end(owner.machine, state)
    if place is None:
        found([NO_READER])
    elif position > end:
        found([POSITION_AHEAD, end])
    elif position - 1 <= place:
        _tell(owner, number, name, found)
    else:
        owner.operation(encode_advance(Advance(number, name, position - 1)))
        owner.proposal.committed.append(partial(_tell, owner, number, name, found))


def _forget(owner: OwnerState, number: int, queue: QueueOwner, name: bytes, found: Tell) -> None:
    known = queue.delivery.state.subscriptions
    if known is None or known.place(name) is None:
        found([NO_READER])
    else:
        owner.lag_floors.pop((number, name), None)
        owner.operation(encode_advance(Advance(number, name, 0)))
        owner.proposal.committed.append(partial(found, [READERS_TOLD, []]))
