"""The targets that a queue keeps for the links of clients that send, with the deliveries that the clients
have not settled: a part of the queue's replicated state (AMQP 1.0 part 2, section 2.6.13;
docs/decisions/0048-targets-that-are-kept.md).

A delivery stands here with its tag from the time on at which its message is in the queue, and until the
client settles the delivery, whatever has become of the message. A client that attaches the link again learns
from the tags which of its deliveries have come.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from node.delivery.link_terms import LinkTerms, link_terms

_LINK_OCTETS: Final = 600
"""Octets of memory for a target, with its place at the owner."""

_TAG_OCTETS: Final = 100
"""Octets of memory for a tag, beside those of the tag."""

_COUNT = Struct("<I")
_TARGET = Struct("<QQHI")


NO_LINK: Final = (0, 0)
"""The front end, and the number there, of a target that no link has attached."""


class TargetStep(IntEnum):
    """The events in the life of a target. Journals have the numbers: never renumber."""

    ATTACHED = 1
    """A link is attached, in place of the link by which the target was attached before."""
    DETACHED = 2
    """The link is gone. The queue keeps the target."""
    CLOSED = 3
    """The target is gone, with its deliveries."""
    RECEIVED = 4
    """Deliveries have come. In the batch of a front end the step stands in front of the publish that has
    their messages.
    """
    SETTLED = 5
    """The client has settled deliveries."""
    COMMITTED = 6
    """Deliveries have come in a transaction, which is committed, and which was prepared while the link had
    its target. The link may be gone since, or another one may wait for the outcome.
    """


class UpdateTarget(NamedTuple):
    """A step of a target, by the front end and the number there with which the link was attached. A step of a
    link that has lost its target to another one has no effect.

    `link` has the octets of `LinkTerms`, and `tags` those of the deliveries that the step is about.
    """

    queue: int
    front_end: int
    number: int
    step: TargetStep
    link: bytes
    tags: tuple[bytes, ...] = ()


class TargetState:
    """One target: its link, the attached link's front end and number there, 0 for none, and the tags of the
    unsettled deliveries in the order in which they came.
    """

    __slots__ = ("attached", "link", "tags")

    def __init__(self, link: LinkTerms) -> None:
        self.link = link
        self.attached = NO_LINK
        self.tags: dict[bytes, None] = {}


class TargetStates:
    """The targets of one queue, by the identity of their links."""

    __slots__ = ("_by_link", "octets")

    def __init__(self) -> None:
        self._by_link: dict[bytes, TargetState] = {}
        self.octets = 0
        """The octets of memory for the targets, about."""

    def __len__(self) -> int:
        return len(self._by_link)

    def all(self) -> list[TargetState]:
        return list(self._by_link.values())

    def find(self, identity: bytes) -> TargetState | None:
        """The target of a link; None where the queue keeps none for it."""
        return self._by_link.get(identity)

    def update(self, step: UpdateTarget) -> None:
        """Carry out a step."""
        link = link_terms(step.link)
        if step.step is TargetStep.ATTACHED:
            self._attach(link, step.front_end, step.number)
            return
        found = self._by_link.get(link.identity)
        if found is not None and step.step is TargetStep.COMMITTED:
            self._receive(found, step.tags)
        if found is None or found.attached != (step.front_end, step.number):
            return
        if step.step is TargetStep.DETACHED:
            found.attached = NO_LINK
        elif step.step is TargetStep.CLOSED:
            del self._by_link[link.identity]
            self.octets -= _octets_of(found)
        elif step.step is TargetStep.RECEIVED:
            self._receive(found, step.tags)
        elif step.step is TargetStep.SETTLED:
            for tag in dict.fromkeys(tag for tag in step.tags if tag in found.tags):
                del found.tags[tag]
                self.octets -= _TAG_OCTETS + len(tag)

    def _receive(self, target: TargetState, tags: tuple[bytes, ...]) -> None:
        fresh = dict.fromkeys(tag for tag in tags if tag not in target.tags)
        self.octets += sum(_TAG_OCTETS + len(tag) for tag in fresh)
        target.tags.update(fresh)

    def _attach(self, link: LinkTerms, front_end: int, number: int) -> None:
        target = self._by_link.get(link.identity)
        if target is None:
            target = self._by_link[link.identity] = TargetState(link)
            self.octets += _octets_of(target)
        target.link, target.attached = link, (front_end, number)

    def forget(self, front_end: int) -> None:
        """The front end is dead for good: its links are gone."""
        for target in self._by_link.values():
            if target.attached[0] == front_end:
                target.attached = NO_LINK

    def encode(self) -> bytes:
        """Canonical octets: equal targets, and only they, give equal octets."""
        parts = [_COUNT.pack(len(self._by_link))]
        for _, target in sorted(self._by_link.items()):
            link = target.link.encode()
            parts += (_TARGET.pack(*target.attached, len(link), len(target.tags)), link)
            parts.append(encode_tags(target.tags))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[TargetStates, int]:
        """The targets encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
        made = cls()
        (count,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(count):
            front_end, number, link_size, tag_count = _TARGET.unpack_from(data, offset)
            offset += _TARGET.size
            target = TargetState(link_terms(_cut(data, offset, link_size)))
            target.attached = front_end, number
            tags, offset = decode_tags(data, offset + link_size, tag_count)
            target.tags = dict.fromkeys(tags)
            made._by_link[target.link.identity] = target
            made.octets += _octets_of(target)
        return made, offset


def _octets_of(target: TargetState) -> int:
    return _LINK_OCTETS + len(target.link.identity) + sum(_TAG_OCTETS + len(tag) for tag in target.tags)


def encode_tags(tags: dict[bytes, None] | tuple[bytes, ...]) -> bytes:
    """The lengths of tags, an octet each, and the tags."""
    return bytes(map(len, tags)) + b"".join(tags)


def decode_tags(data: bytes | memoryview, offset: int, count: int) -> tuple[tuple[bytes, ...], int]:
    """So many tags that are encoded at `offset`, and the offset behind. Raises ValueError."""
    found, at = [], offset + count
    for size in _cut(data, offset, count):
        found.append(_cut(data, at, size))
        at += size
    return tuple(found), at


def _cut(data: bytes | memoryview, offset: int, size: int) -> bytes:
    """The octets at `offset`. Raises ValueError where there are fewer than `size`."""
    if offset + size > len(data):
        raise ValueError("a target cut short")
    return bytes(data[offset : offset + size])
