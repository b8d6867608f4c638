"""Message annotations that consumers give to messages which they return (AMQP 1.0, part 3 §3.4.5).

A later delivery has them, and so has the dead letter. The log and the queue's state have the octets about
each message, merged (docs/decisions/0045-octets-about-messages.md). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Final, NamedTuple

from cluster.owner.state import OwnerState
from cluster.peers.link_messages import Ranges
from node.message.run import Run
from node.queue.decision_format import encode_remark
from node.queue.delivery_state import DeliveryState
from node.queue.operations import Discard, Return
from node.queue.remarks import Remark, Remarks, Subject, put_remark
from node.ranges.octet_map import OctetMap
from node.ranges.range_set import Range
from node.wire.conversion import AnnotationsRefusedError, merged_annotations, with_annotations
from node.wire.formats import format_of

QUEUE_OCTETS: Final = 16 * 1024 * 1024
"""A queue whose annotations take up so many octets of memory takes no more."""

_NONE: Final = OctetMap()


class Changes(NamedTuple):
    """The octets that a settlement gives messages: those in the log, and soft ones."""

    durable: list[Remark]
    soft: list[Remark]


def changes(owner: OwnerState, front_end: int, operation: Return | Discard) -> Changes | None:
    """The changes by the annotations of a return or a discard, which is not taken yet. There are none where
    the queue is gone, or a member of the cluster does not read octets about messages. Returns None where the
    annotations are refused.
    """
    queue = owner.queues.get(operation.queue)
    if queue is None or not owner.keeps_remarks():
        return Changes([], [])
    delivery = queue.delivery
    mine = _held_by(delivery, front_end, operation)
    merged = lru_cache(64)(partial(_merged, operation.annotations))
    places = (delivery.state.remarks, delivery.state.alive), (delivery.soft.remarks, delivery.soft.numbers)
    held = 0
    found: list[list[Remark]] = []
    try:
        for remarks, numbers in places:
            about, now = remarks.get(Subject.ANNOTATIONS, _NONE), dict[bytes, list[Range]]()
            for one in [part for each in mine for part in numbers.intersection(*each)]:
                for first, last, former in about.cover(*one):
                    now.setdefault(merged(former), []).append((first, last))
            held += about.held + sum(map(len, now))
            found.append(
                [
                    Remark(operation.queue, Subject.ANNOTATIONS, ranges, octets)
                    for octets, ranges in now.items()
                ]
            )
    except AnnotationsRefusedError:
        return None
    return Changes(*found) if held <= QUEUE_OCTETS else None


def _merged(later: bytes, former: bytes) -> bytes:
    return merged_annotations(former, later)


def _held_by(delivery: DeliveryState, front_end: int, operation: Return | Discard) -> Ranges:
    """The messages of an operation that the front end has, or may have from a former owner: another consumer
    may have had one since, and its annotations are the later ones.
    """
    mine = delivery.returnable(front_end, operation.ranges, operation.token)
    return sorted(part for one in mine for part in delivery.had_by(front_end, *one))


def change(owner: OwnerState, found: Changes) -> list[bytes]:
    """Carry out changes; returns the operations for the log, for the same entry as the return or the discard
    and in front of it.
    """
    for remark in found.soft:
        put_remark(
            owner.queues[remark.queue].delivery.soft.remarks, remark.subject, remark.ranges, remark.octets
        )
    return [encode_remark(remark) for remark in found.durable]


def annotated(remarks: Remarks, ranges: Ranges, run: Run) -> Iterable[tuple[Ranges, Run]]:
    """Messages of a run, with the numbers in `ranges`, as consumers get them: those with annotations are
    messages of AMQP 1.0, whatever they came as.
    """
    about = remarks.get(Subject.ANNOTATIONS, _NONE)
    if not any(about.places.spans(*one) for one in ranges):
        return ((ranges, run),)
    return _annotated(about, ranges, run)


def annotated_from(remarks: Remarks, first: int, run: Run) -> Iterator[tuple[int, Run]]:
    """As `annotated`, for messages numbered from `first` on: runs with their first numbers."""
    for ranges, part in annotated(remarks, [(first, first + run.count - 1)], run):
        yield ranges[0][0], part


def _annotated(about: OctetMap, ranges: Ranges, run: Run) -> Iterator[tuple[Ranges, Run]]:
    begin = 0
    for one in ranges:
        for first, last, octets in about.cover(*one):
            piece = run.slice(begin, last - first + 1)
            begin += piece.count
            if not octets:
                yield [(first, last)], piece
                continue
            for _, part in format_of(piece).by_key(piece) if piece.routing_key is None else ((None, piece),):
                yield [(first, first + part.count - 1)], with_annotations(part, octets)
                first += part.count
