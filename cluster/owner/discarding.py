"""Discards messages of a queue: they become dead letters, or are removed."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.owner.annotating import annotated_from, change, changes
from cluster.owner.readers import retention_passes
from cluster.owner.state import OwnerState
from node.delivery.settlements import NO_TOKEN
from node.message.deaths import encode_death
from node.message.reason import Reason
from node.message.run import Run
from node.queue.decision_format import encode_annotate, encode_remove
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_discard, encode_mark
from node.queue.operations import Aspect, Discard
from node.queue.stream_settings import is_stream
from node.ranges.range_set import Range, count_of


def lacks_exchange(owner: OwnerState, number: int) -> bool:
    """Whether the queue has no dead-letter exchange, by the settings that the owner knows."""
    return owner.known_settings(number) is not None and owner.described(number).dead_letters is None


def makes_dead_letters(owner: OwnerState, number: int) -> bool:
    """Whether messages that the queue discards become dead letters. True while the settings are unknown, or
    may lack a policy of which a client has been told: dead letters wait for a catalog that is fresh.
    """
    return not lacks_exchange(owner, number) or not owner.catalog_fresh()


def discard(
    owner: OwnerState, number: int, queue: QueueOwner, ranges: Sequence[Range], reason: Reason
) -> None:
    """Discard ready messages. The next entry gets the death, or the removal, of durable ones."""
    if not ranges:
        return
    dead_letters = makes_dead_letters(owner, number)
    count = sum(last - first + 1 for first, last in ranges)
    queue.delivery.tally.discarded(reason, count, dead_letters=dead_letters)
    soft = _soft(queue, ranges) if dead_letters else []
    durable = [part for one in ranges for part in queue.lifecycle.take_out(*one)]
    if durable and is_stream(queue.delivery.settings):
        _remove_from_stream(owner, number, queue, durable, reason)
    elif durable and dead_letters:
        spans = _deaths(durable, reason, owner.wall_ms())
        owner.operation(encode_annotate(number, Aspect.DEATH, spans))
    elif durable:
        owner.operation(encode_remove(number, reason, durable))
    owner.dead_letter_soft(number, soft, reason)


def _remove_from_stream(
    owner: OwnerState, number: int, queue: QueueOwner, durable: list[Range], reason: Reason
) -> None:
    """Retention removes messages. Replicas tell readers by the stream's mark which positions it has passed.
    No message is left in front of the mark, as new owners hold those up to the mark back.
    """
    if owner.overtaken_readers.known():
        owner.operation(retention_passes(owner, number, queue, durable))
    else:
        owner.operation(encode_mark(number, max(last for _, last in durable)))
    owner.operation(encode_remove(number, reason, durable))


def remove_replaced(owner: OwnerState, number: int, queue: QueueOwner, ranges: list[Range]) -> None:
    """Remove ready messages whose keys newer ones have. The next entry gets the removal of durable ones."""
    queue.delivery.tally.replaced += count_of(ranges)
    durable = [part for one in ranges for part in queue.lifecycle.take_out(*one)]
    if durable:
        owner.operation(encode_remove(number, Reason.REPLACED, durable))


def dead_letter_new(owner: OwnerState, number: int, first: int, last: int, reason: Reason) -> None:
    """Discard messages that the next entry brings to a queue: they are dead from the start."""
    owner.queues[number].delivery.tally.discarded(reason, last - first + 1, dead_letters=True)
    owner.proposal.annotate(number, Aspect.DEATH, _deaths([(first, last)], reason, owner.wall_ms()))


def take_discard(owner: OwnerState, front_end: int, operation: Discard) -> bytes | None:
    """A front end rejects messages without requeue. Returns the operations for the log, or None.

    Dead letters tell the client's error. Where the queue has no room for the error the messages die without.
    """
    told = list[bytes]()
    if operation.annotations and makes_dead_letters(owner, operation.queue):
        found = changes(owner, front_end, operation)
        told = [] if found is None else change(owner, found)
    rejected = operation.queue, front_end, operation.ranges, Reason.REJECTED, operation.token
    discarded: bytes | None = discard_leased(owner, *rejected)
    return None if discarded is None else b"".join((*told, discarded))


def discard_leased(
    owner: OwnerState,
    number: int,
    front_end: int,
    ranges: Sequence[Range],
    reason: Reason,
    token: int = NO_TOKEN,
) -> bytes | None:
    """Discard messages that are leased to a front end, with a `token` those under that lease.

    Returns the operation for the log; None where there is none, as for soft messages.
    """
    queue = owner.queues.get(number)
    dead_letters = makes_dead_letters(owner, number)
    durable, soft = list(ranges), list[tuple[int, Run]]()
    if queue is not None:
        durable = queue.delivery.settleable(front_end, durable, token)
        soft = _soft(queue, durable) if dead_letters else soft
        settled = queue.lifecycle.settle(front_end, durable, token)
        durable = settled.durable
        if dead_letters:
            # A front end that has lost its lease may settle a message that is dead already: it moves once.
            durable = [part for one in durable for part in queue.delivery.state.living(*one).ranges()]
        queue.delivery.tally.discarded(reason, settled.count, dead_letters=dead_letters)
        if queue.lifecycle.passes_on:
            owner.mark(number)
    owner.dead_letter_soft(number, soft, reason)
    if not durable:
        return None
    if dead_letters:
        return encode_annotate(number, Aspect.DEATH, _deaths(durable, reason, owner.wall_ms()))
    if reason is Reason.REJECTED:
        return encode_discard(number, durable)
    return encode_remove(number, reason, durable)


def _deaths(ranges: Sequence[Range], reason: Reason, now: int) -> list[tuple[int, int, int]]:
    value = encode_death(reason, now)
    return [(first, last, value) for first, last in sorted(ranges)]


def _soft(queue: QueueOwner, ranges: Sequence[Range]) -> list[tuple[int, Run]]:
    soft = queue.delivery.soft
    found = [each for one in ranges for each in soft.runs(*one)] if soft else []
    return [each for one in found for each in annotated_from(soft.remarks, *one)] if soft.remarks else found
