"""Dead letters, lent messages and copies on their way to other partitions: a part of the replicated state.

A transfer is a numbered operation batch in the other partition. Before the owner sends it, the log of the
partition that they leave has the messages, the number and the target queues. So a new owner sends
the same messages under the same number, and the other partition applies them once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from node.ranges.range_set import Range, RangeSet, decode_array, encode_array

_HEAD = Struct("<I")
_NUMBERS = Struct("<QQI")
_TRANSFER = Struct("<QQII")


@dataclass(frozen=True, slots=True)
class Transfer:
    """Dead letters of `queue`, or messages that it lends, for the queues `targets` of another partition. The
    queue itself among the targets says that the messages stay where they are, too: barriers for another part.

    A transfer of copies has the queue of the other partition that gets them as `queue` and as the first
    target, and as the second one the stream of this partition which has the messages.
    """

    queue: int
    number: int
    targets: tuple[int, ...]
    ranges: tuple[Range, ...]

    @property
    def stays(self) -> bool:
        """Whether the messages stay where they are when they have arrived."""
        return self.queue in self.targets

    @property
    def copied_from(self) -> int | None:
        """The stream whose messages are copied; None for messages of `queue`."""
        return self.targets[1] if len(self.targets) == 2 and self.targets[0] == self.queue else None


def transfer_of_copies(queue: int, number: int, stream: int, ranges: Sequence[Range]) -> Transfer:
    """A transfer of copies of a stream's messages for `queue`."""
    return Transfer(queue, number, (queue, stream), tuple(ranges))


class Transfers:
    """The transfers under way, by target partition and number, oldest first, and the highest number
    of each.
    """

    __slots__ = ("_last", "_under_way")

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._under_way: dict[int, dict[int, Transfer]] = {}

    def last_number(self, partition: int) -> int:
        """The highest number of a transfer to the partition so far; 0 for none."""
        return self._last.get(partition, 0)

    def partitions(self) -> list[int]:
        """The partitions to which transfers are under way, ascending."""
        return sorted(self._under_way)

    def to(self, partition: int) -> list[Transfer]:
        """The transfers under way to a partition, by ascending number."""
        return list(self._under_way.get(partition, {}).values())

    def begin(self, partition: int, transfer: Transfer) -> None:
        """Add a transfer, whose number is above all earlier ones."""
        self._last[partition] = transfer.number
        self._under_way.setdefault(partition, {})[transfer.number] = transfer

    def end(self, partition: int, number: int) -> Iterator[tuple[int, Range]]:
        """Remove the transfers up to a number, which the other partition has committed. Yields (queue, range)
        of messages that leave the queue, and that no other transfer has.
        """
        under_way = self._under_way.get(partition, {})
        arrived = [under_way.pop(each) for each in list(under_way) if each <= number]
        if not under_way:
            self._under_way.pop(partition, None)
        for transfer in arrived:
            if transfer.stays:
                continue
            done = RangeSet(transfer.ranges)
            for other in self._of(transfer.queue):
                done.remove_all(other.ranges)
            for part in done.ranges():
                yield transfer.queue, part

    def of(self, queue: int) -> RangeSet:
        """The messages of a queue that transfers under way take from it."""
        return RangeSet(part for one in self._of(queue) if not one.stays for part in one.ranges)

    def staying(self, queue: int) -> RangeSet:
        """The messages of a queue that are in transfers under way, and stay in the queue."""
        return RangeSet(part for one in self._of(queue) if one.stays for part in one.ranges)

    def _of(self, queue: int) -> Iterator[Transfer]:
        for under_way in self._under_way.values():
            for transfer in under_way.values():
                if transfer.queue == queue:
                    yield transfer

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_HEAD.pack(len(self._last))]
        for partition, last in sorted(self._last.items()):
            under_way = self._under_way.get(partition, {})
            parts.append(_NUMBERS.pack(partition, last, len(under_way)))
            for transfer in under_way.values():
                parts.append(encode_transfer_body(transfer))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Transfers, int]:
        """The transfers encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
        made = cls()
        (partitions,) = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
        for _ in range(partitions):
            partition, last, count = _NUMBERS.unpack_from(data, offset)
            offset += _NUMBERS.size
            for _ in range(count):
                transfer, offset = decode_transfer_body(data, offset)
                made.begin(partition, transfer)
            made._last[partition] = last
        return made, offset


def encode_transfer_body(transfer: Transfer) -> bytes:
    """Queue, number, counts (u32) of target ids and ranges, ids, firsts, lasts: little-endian."""
    return b"".join(
        (
            _TRANSFER.pack(transfer.queue, transfer.number, len(transfer.targets), len(transfer.ranges)),
            encode_array(array("Q", transfer.targets)),
            encode_array(array("Q", [first for first, _ in transfer.ranges])),
            encode_array(array("Q", [last for _, last in transfer.ranges])),
        )
    )


def decode_transfer_body(data: bytes | memoryview, offset: int) -> tuple[Transfer, int]:
    """Inverse of `encode_transfer_body`. Raises ValueError or struct.error when malformed."""
    queue, number, targets, ranges = _TRANSFER.unpack_from(data, offset)
    ids, offset = decode_array("Q", data, offset + _TRANSFER.size, targets)
    firsts, offset = decode_array("Q", data, offset, ranges)
    lasts, offset = decode_array("Q", data, offset, ranges)
    if any(first > last for first, last in zip(firsts, lasts, strict=True)):
        raise ValueError("range ends before it starts")
    return Transfer(queue, number, tuple(ids), tuple(zip(firsts, lasts, strict=True))), offset
