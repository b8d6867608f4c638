"""Which consumer a link has whose deliveries its queue keeps, in the log
(docs/decisions/0047-leases-of-links.md). Pure.

A front end that was cut off brings back a consumer whose client has gone on elsewhere. The owner, and each
later one, knows from the log that the link has another consumer since, or has ended: the consumer that comes
back does not get it. Such a link stands among the targets that the queue keeps, without a tag and for no
longer than it has its consumer.
"""

from __future__ import annotations

from collections.abc import Collection

from cluster.owner.state import OwnerState
from node.delivery.link_terms import LinkTerms, link_terms
from node.queue.consumers import ConsumerKey
from node.queue.decision_format import encode_target
from node.queue.targets import NO_LINK, TargetStep, UpdateTarget


def log_consumer(owner: OwnerState, number: int, link: LinkTerms, attaching: ConsumerKey) -> bool:
    """Put into the log that a link has this consumer from now on. Returns whether there was that to do: not
    where the log has it, or a member does not read it, or the queue has no memory for it.
    """
    has_room, attached = owner.queues[number].delivery.targets.has_room, link.source
    former = logged_consumer(owner, number, link)
    if owner.logs_links() and has_room(attached.identity) and former != attaching:
        _take(owner, UpdateTarget(number, *attaching, TargetStep.ATTACHED, attached.encode()))
        return True
    if not owner.logs_links() and former is not None:
        # A member has gone back to the release before.
        _take(owner, UpdateTarget(number, *former, TargetStep.CLOSED, attached.encode()))
    return False


def logged_consumer(owner: OwnerState, number: int, link: LinkTerms) -> ConsumerKey | None:
    """The consumer that a link has by the log, and by what is on its way there; None for none."""
    found = owner.queues[number].delivery.targets.attached_by(link.source.identity)
    return found if found != NO_LINK else None


def consumer_gone(owner: OwnerState, number: int, link: bytes, consumer: ConsumerKey) -> None:
    """The consumer of a link has ended. `link` has the octets of `LinkTerms`."""
    _take(owner, UpdateTarget(number, *consumer, TargetStep.CLOSED, link_terms(link).source.encode()))


def consumers_gone(owner: OwnerState, front_end: int, told: Collection[int]) -> None:
    """A front end has greeted, and tells these consumers: the others that the log has of it have ended."""
    for number, queue in owner.queues.items():
        for consumer, attached in queue.delivery.targets.sources_of(front_end).items():
            if consumer not in told:
                _take(owner, UpdateTarget(number, front_end, consumer, TargetStep.CLOSED, attached))


def _take(owner: OwnerState, step: UpdateTarget) -> None:
    """Put a step into the log, unless the link has another consumer by now."""
    if owner.queues[step.queue].delivery.targets.takes(step):
        owner.decision(encode_target(step))
