"""The replicated state of one queue, which is the same on every replica of its partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, TypeVar

from node.queue.operations import Annotate, Aspect, Cause, ForgetIds, Lent, RememberIds, Semantics
from node.queue.remarks import Remark, Remarks, Subject, drop_remarks, put_remark
from node.queue.seen_ids import SeenIds
from node.queue.subscriptions import Advance, MakeReader, RetentionPassed, Subscriptions
from node.queue.take_operations import UpdateTake
from node.queue.takes import WITH_TAKES, QueueTakes
from node.queue.targets import TargetStates, UpdateTarget
from node.queue.told_rows import TellRows, ToldRows
from node.ranges.cold import ColdSpace
from node.ranges.octet_map import OctetMap
from node.ranges.paged_map import map_in
from node.ranges.paged_set import set_in
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, merged

_HEAD = Struct("<BQII")
_ASPECTS = Struct("<B")
_CONSUMED: Final = 1 << 7
_SEALED: Final = 1 << 6
"""Flags beside the semantics, in one octet."""

_Kind = TypeVar("_Kind", Aspect, Subject)
_Held = TypeVar("_Held", RangeMap, OctetMap)

WITH_ANNOTATIONS: Final = 2
"""The first version of snapshots with annotations and seen ids."""

PLAIN_VERSION: Final = 3
WITH_REMARKS: Final = 4
"""The version of snapshots with octets about messages. A partition without any writes the one before, which
releases read that do not know them.
"""

WITH_TARGETS: Final = 5
"""The version of snapshots with the targets that queues keep; as `WITH_REMARKS`."""

WITH_SUBSCRIPTIONS: Final = 6
"""The version of snapshots with the subscriptions of streams; as `WITH_REMARKS`."""

WITH_READERS: Final = 9
"""The version of snapshots with readers of streams, and with the number of messages that retention has
removed; as `WITH_REMARKS`.
"""

WITH_ROWS: Final = 10
"""The version of snapshots with the rows that streams have told; as `WITH_REMARKS`."""

NONE: Final = RangeSet()
"""The withheld messages of most queues; never changed."""


class QueueState:
    """The live messages of a queue, with their failures and annotations, and the front ends attached to it.

    `alive` has the sequence numbers of the queue's messages. `returned` are those that were given back at
    least once, so that their next delivery is marked redelivered. `failures` maps a number of failed
    deliveries to the messages with that number. No message above `mark` was ever leased. `attached` are the
    front ends with consumers or leases on the queue. `consumed`: the queue has had a consumer. `sealed`: the
    queue takes no more messages, because its deletion is decided. `annotations` has the values that owners
    gave to messages, by aspect; no map in it is empty. `remarks` are octets about messages. `seen` are the
    message ids within the queue's window; None without any. `targets` are those that the queue keeps for the
    links of clients that send; None without any. `subscriptions` are those of a stream; None without any.
    `takes` are the messages that the queue holds for readers; None without a reader. `rows` are those that a
    stream has told of its view; None without any.
    `withheld` are the messages of `alive` that a transaction has published whose outcome is not known
    (`node.queue.transactions`). `delivered` is the newest message that a consumer may have got, by what the
    entries that this replica has applied itself say of settled, returned and dead messages. It is no part of
    the snapshot, and replicas may differ in it. The same holds for `space`, where `alive` and `annotations`
    keep what does not have to be in memory; None for memory alone.
    """

    __slots__ = (
        "alive",
        "annotations",
        "attached",
        "consumed",
        "delivered",
        "failures",
        "mark",
        "remarks",
        "returned",
        "rows",
        "sealed",
        "seen",
        "semantics",
        "space",
        "subscriptions",
        "takes",
        "targets",
        "withheld",
    )

    def __init__(self, semantics: Semantics) -> None:
        self.semantics = semantics
        self.alive = RangeSet()
        self.returned = RangeSet()
        self.failures: dict[int, RangeSet] = {}
        self.mark = self.delivered = 0
        self.attached: set[int] = set()
        self.consumed = self.sealed = False
        self.annotations: dict[Aspect, RangeMap] = {}
        self.remarks: Remarks = {}
        self.seen: SeenIds | None = None
        self.targets: TargetStates | None = None
        self.subscriptions: Subscriptions | None = None
        self.takes: QueueTakes | None = None
        self.rows: ToldRows | None = None
        self.withheld = NONE
        self.space: ColdSpace | None = None

    def page(self, space: ColdSpace | None) -> None:
        """From now on keep what does not have to be in memory in a space; with None keep everything in
        memory. The caller closes the former space, which the state does not use any more. Raises OSError
        where the former space cannot be read.
        """
        alive, known = self.alive, self.annotations
        if self.space is not None:
            alive, known = alive.copy(), {aspect: held.copy() for aspect, held in known.items()}
        self.space, self.alive = space, set_in(space, alive)
        for aspect, held in known.items():
            # Others have the same dictionary.
            self.annotations[aspect] = map_in(space, held)

    def append(self, first: int, last: int) -> None:
        """Add messages."""
        self.alive.add(first, last)

    def missing(self, source: QueueState, first: int, last: int) -> list[Range]:
        """The messages of a closed range that the queue `source` has, and this queue has not."""
        there = RangeSet(source.alive.intersection(first, last))
        there.remove_all(self.alive.intersection(first, last))
        return list(there.ranges())

    def remove_all(self, ranges: list[Range]) -> int:
        """Remove messages; return how many of them were alive."""
        if self.returned:
            self.returned.remove_all(ranges)
            if sum(held.remove_all(ranges) for held in self.failures.values()):
                self._drop_empty_counts()
        if self.annotations and sum(held.remove_all(ranges) for held in self.annotations.values()):
            self._drop_empty_annotations()
        if self.remarks:
            drop_remarks(self.remarks, ranges)
        return self.alive.remove_all(ranges)

    def settle(self, ranges: list[Range]) -> None:
        """Remove messages that a consumer has got, or is about to get."""
        self.got(ranges)
        self.remove_all(ranges)

    def got(self, ranges: list[Range]) -> None:
        """A consumer has got these messages, or is about to get them."""
        if ranges:
            self.delivered = max(self.delivered, max(ranges)[1])

    def withhold(self, first: int, last: int) -> None:
        """Withhold messages until the outcome of their transaction is known."""
        if self.withheld is NONE:
            self.withheld = RangeSet()
        self.withheld.add(first, last)

    def shown(self, first: int, last: int) -> RangeSet:
        """The messages of a closed range that are alive and not withheld."""
        found = RangeSet(self.alive.intersection(first, last))
        return found.without(self.withheld.ranges()) if self.withheld else found

    def living(self, first: int, last: int) -> RangeSet:
        """The messages of a closed range that are alive, not withheld, and no dead letters."""
        found, dead = self.shown(first, last), self.annotations.get(Aspect.DEATH)
        if dead is None:
            return found
        return found.without((start, end) for start, end, _ in dead.spans(first, last))

    def living_parts(self, first: int, last: int) -> list[Range]:
        """As `living`, as ranges."""
        if not self.withheld and Aspect.DEATH not in self.annotations:
            return self.alive.intersection(first, last)
        return list(self.living(first, last).ranges())

    def dying(self, operation: Annotate) -> list[Span]:
        """The living messages that an annotation with their death, which comes next, makes dead letters."""
        spans = zip(operation.firsts, operation.lasts, operation.values, strict=True)
        return [(*part, value) for first, last, value in spans for part in self.living_parts(first, last)]

    def leaving(self, cause: Cause, ranges: Sequence[Range]) -> list[tuple[Cause, list[Range]]]:
        """The rows of the feed for messages that are removed next. The ranges may overlap."""
        gone, dead = RangeSet(), self.annotations.get(Aspect.DEATH)
        for one in ranges:
            gone.update(self.shown(*one).ranges())
        if dead is None or cause is Cause.SETTLED:
            return [(cause, list(gone.ranges()))] if gone else []
        moved = [part for one in gone.ranges() for part in dead.spans(*one)]
        gone.remove_all([(first, last) for first, last, _ in moved])
        parts = (cause, list(gone.ranges())), (Cause.DEAD_LETTERED, merged([one[:2] for one in moved]))
        return [part for part in parts if part[1]]

    def release(self, first: int, last: int) -> list[Range]:
        """Withhold messages no more; return those of them that are alive."""
        if self.withheld:
            self.withheld.remove(first, last)
            self.withheld = self.withheld or NONE
        return self.alive.intersection(first, last)

    def annotate(self, operation: Annotate) -> None:
        """Set the values of those of the messages that are alive."""
        firsts, lasts, values = operation.firsts, operation.lasts, operation.values
        if not firsts:
            return
        held = self.annotations.get(operation.aspect)
        if held is None:
            held = self.annotations[operation.aspect] = map_in(self.space)
        if self.alive.intersection(firsts[0], lasts[-1]) == [(firsts[0], lasts[-1])]:
            held.extend(firsts, lasts, values)
        else:
            for first, last, value in zip(firsts, lasts, values, strict=True):
                for part in self.alive.intersection(first, last):
                    held.set(*part, value)
            self._drop_empty_annotations()

    def note(self, operation: Annotate | RememberIds | ForgetIds | Remark) -> None:
        """Apply an owner's annotations, its octets about messages, or its changes of the seen ids."""
        if isinstance(operation, Annotate):
            self.annotate(operation)
        elif isinstance(operation, Remark):
            alive = [part for one in operation.ranges for part in self.alive.intersection(*one)]
            put_remark(self.remarks, operation.subject, alive, operation.octets)
        else:
            self._note_ids(operation)

    def _note_ids(self, operation: RememberIds | ForgetIds) -> None:
        """Add ids, whose time is not before that of earlier ones, or remove those that have left
        the window.
        """
        seen = self.seen or SeenIds()
        if isinstance(operation, RememberIds):
            seen.remember(operation.time, operation.digests)
        else:
            seen.forget(operation.before)
        self.seen = seen if len(seen) else None

    def update_target(self, step: UpdateTarget) -> None:
        """Carry out a step of a target."""
        targets = self.targets or TargetStates()
        targets.update(step)
        self.targets = targets if len(targets) else None

    def advance(self, step: Advance | MakeReader | RetentionPassed | TellRows) -> None:
        """Carry out a step of a subscription, of a stream's retention, or of the rows that a stream tells.

        No reader leases messages of a stream, whose mark is the last message that retention has passed.
        """
        if isinstance(step, TellRows):
            rows = self.rows or ToldRows()
            rows.tell(step)
            self.rows = rows if len(rows) else None
            return
        subscriptions = self.subscriptions or Subscriptions()
        if isinstance(step, RetentionPassed):
            subscriptions.retention_passed(step, self.mark, self.alive)
            self.mark = max(self.mark, step.number)
        elif isinstance(step, MakeReader):
            subscriptions.make_reader(step)
        else:
            subscriptions.advance(step, self.mark)
        self.subscriptions = subscriptions if subscriptions else None

    def update_take(self, step: UpdateTake) -> None:
        """Carry out a step of a take."""
        takes = self.takes or QueueTakes()
        takes.apply(step)
        self.takes = takes if len(takes) else None

    def taken(self) -> RangeSet:
        """The messages that the queue holds for readers."""
        found = RangeSet() if self.takes is None else self.takes.messages()
        return RangeSet(self.alive.intersections(list(found.ranges()))) if found else found

    def forget(self, front_end: int) -> None:
        """A front end is dead for good."""
        self.attached.discard(front_end)
        if self.targets is not None:
            self.targets.forget(front_end)

    def _drop_empty_annotations(self) -> None:
        for aspect in [aspect for aspect, held in self.annotations.items() if not held]:
            del self.annotations[aspect]

    def give_back(self, ranges: Sequence[Range], failed: bool) -> list[Range]:
        """Mark given-back messages as returned, and with `failed` count a failure; return those that are
        alive.

        A delivered message of an at-most-once queue was removed before its delivery (seed 002), so none of
        them is alive.
        """
        alive = [part for first, last in ranges for part in self.alive.intersection(first, last)]
        if Subject.LINK in self.remarks:
            put_remark(self.remarks, Subject.LINK, alive, b"")
        self.got(alive)
        for first, last in alive:
            self.returned.add(first, last)
            if failed:
                self._count_failure(first, last)
        return alive

    def lent(self, operation: Lent) -> list[tuple[int, int, bool]]:
        """Messages have come from another owner, where consumers may have got them. Returns the rows of the
        feed: first, last, and whether a delivery has failed, for each failed delivery one.
        """
        alive = [part for one in operation.ranges for part in self.alive.intersection(*one)]
        self.returned.update(alive)
        if operation.failures and alive:
            self.failures.setdefault(operation.failures, RangeSet()).update(alive)
        times = max(1, operation.failures)
        return [(*part, operation.failures > 0) for part in alive for _ in range(times)]

    def failure_count(self, sequence: int) -> int:
        """The number of the message's failed deliveries."""
        return next((count for count, held in self.failures.items() if sequence in held), 0)

    def failure_spans(self, first: int, last: int) -> list[Span]:
        """The number of failed deliveries of each message of the closed range, as spans."""
        counts = RangeMap(
            (*part, count) for count, held in self.failures.items() for part in held.intersection(first, last)
        )
        return counts.cover(first, last)

    def _count_failure(self, first: int, last: int) -> None:
        uncounted = RangeSet(((first, last),))
        moves: list[tuple[int, list[Range]]] = []
        for count, held in self.failures.items():
            parts = held.intersection(first, last)
            if parts:
                uncounted.remove_all(parts)
                moves.append((count, parts))
        for count, parts in moves:
            self.failures[count].remove_all(parts)
        moves.append((0, list(uncounted.ranges())))
        for count, parts in moves:
            if parts:
                self.failures.setdefault(count + 1, RangeSet()).update(parts)
        self._drop_empty_counts()

    def _drop_empty_counts(self) -> None:
        for count in [count for count, held in self.failures.items() if not held]:
            del self.failures[count]

    @property
    def version(self) -> int:
        """The version that a snapshot needs for this queue."""
        if self.rows is not None:
            return WITH_ROWS
        if self.subscriptions is not None and self.subscriptions.has_readers:
            return WITH_READERS
        if self.takes is not None:
            return WITH_TAKES
        if self.subscriptions is not None:
            return WITH_SUBSCRIPTIONS
        if self.targets is not None:
            return WITH_TARGETS
        return WITH_REMARKS if self.remarks else PLAIN_VERSION

    def encode(self, version: int) -> bytes:
        """Canonical bytes for a snapshot: equal states, and only they, give equal bytes."""
        flags = self.semantics | (_CONSUMED if self.consumed else 0) | (_SEALED if self.sealed else 0)
        parts = [_HEAD.pack(flags, self.mark, len(self.attached), len(self.failures))]
        parts.extend(front_end.to_bytes(8, "little") for front_end in sorted(self.attached))
        parts.append(self.alive.encode())
        parts.append(self.returned.encode())
        for count, held in sorted(self.failures.items()):
            parts += (count.to_bytes(8, "little"), held.encode())
        parts.append(_ASPECTS.pack(len(self.annotations)))
        for aspect, values in sorted(self.annotations.items()):
            parts += (_ASPECTS.pack(aspect), values.encode())
        parts.append((self.seen or SeenIds()).encode())
        if version >= WITH_REMARKS:
            parts.append(_ASPECTS.pack(len(self.remarks)))
            for subject, octets in sorted(self.remarks.items()):
                parts += (_ASPECTS.pack(subject), octets.encode())
        if version >= WITH_TARGETS:
            parts.append((self.targets or TargetStates()).encode())
        if version >= WITH_SUBSCRIPTIONS:
            parts.append((self.subscriptions or Subscriptions()).encode())
        if version >= WITH_TAKES:
            parts.append((self.takes or QueueTakes()).encode())
        if version >= WITH_READERS:
            parts.append((self.subscriptions or Subscriptions()).encode_readers())
        if version >= WITH_ROWS:
            parts.append((self.rows or ToldRows()).encode())
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, version: int) -> tuple[QueueState, int]:
        """The state encoded at `offset` of a snapshot, and the offset behind it.

        Raises ValueError or struct.error when malformed.
        """
        flags, mark, attached, counts = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
        state = cls(Semantics(flags & ~(_CONSUMED | _SEALED)))
        state.consumed, state.sealed = flags & _CONSUMED != 0, flags & _SEALED != 0
        state.mark = mark
        for _ in range(attached):
            state.attached.add(int.from_bytes(data[offset : offset + 8], "little"))
            offset += 8
        state.alive, offset = RangeSet.decode(data, offset)
        state.returned, offset = RangeSet.decode(data, offset)
        for _ in range(counts):
            count = int.from_bytes(data[offset : offset + 8], "little")
            state.failures[count], offset = RangeSet.decode(data, offset + 8)
        if version >= WITH_ANNOTATIONS:
            state.annotations, offset = _decode_by_kind(data, offset, Aspect, RangeMap.decode)
            seen, offset = SeenIds.decode(data, offset)
            state.seen = seen if len(seen) else None
        if version >= WITH_REMARKS:
            state.remarks, offset = _decode_by_kind(data, offset, Subject, OctetMap.decode)
        if version >= WITH_TARGETS:
            targets, offset = TargetStates.decode(data, offset)
            state.targets = targets if len(targets) else None
        if version >= WITH_SUBSCRIPTIONS:
            subscriptions, offset = Subscriptions.decode(data, offset)
            state.subscriptions = subscriptions if subscriptions else None
        if version >= WITH_TAKES:
            takes, offset = QueueTakes.decode(data, offset)
            state.takes = takes if len(takes) else None
        if version >= WITH_READERS:
            offset = subscriptions.decode_readers(data, offset)
            state.subscriptions = subscriptions if subscriptions else None
        if version >= WITH_ROWS:
            rows, offset = ToldRows.decode(data, offset)
            state.rows = rows if len(rows) else None
        return state, offset


def _decode_by_kind(
    data: bytes, offset: int, kind: type[_Kind], decode: Callable[[bytes, int], tuple[_Held, int]]
) -> tuple[dict[_Kind, _Held], int]:
    """The maps by aspect or subject that are encoded at `offset`, and the offset behind them."""
    (count,) = _ASPECTS.unpack_from(data, offset)
    offset += _ASPECTS.size
    found: dict[_Kind, _Held] = {}
    for _ in range(count):
        one = kind(*_ASPECTS.unpack_from(data, offset))
        found[one], offset = decode(data, offset + _ASPECTS.size)
    return found, offset
