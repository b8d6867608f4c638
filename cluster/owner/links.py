"""Links whose messages a queue keeps beyond the life of their connection: which consumers have such links,
and what becomes of the messages of a lost one (docs/decisions/0047-leases-of-links.md). Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.owner.attached_links import log_consumer, logged_consumer
from cluster.owner.failures import count_cancels, discard_exhausted
from cluster.owner.intake import take_return
from cluster.owner.resting import let_rest
from cluster.owner.state import OwnerState
from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.link_messages import NOT_FOUND, Ranges
from node.delivery.link_terms import KEPT_S_OCTETS, LinkTerms, link_terms
from node.queue.consumers import Consumer, ConsumerKey
from node.queue.decision_format import encode_remark
from node.queue.dispatch import QueueOwner
from node.queue.operations import LINKS, Return
from node.queue.remarks import Remark, Subject
from node.ranges.range_set import merged


def linking(owner: OwnerState, terms: ConsumerTerms) -> LinkTerms | None:
    """The link for which the queue is to keep the consumer's messages. None where the consumer names none, or
    the queue keeps none: one that is gone, a queue in memory, and by its settings
    (`Description.keeps_for_links`).
    """
    queue = owner.queues.get(terms.queue)
    if queue is None:
        return None
    keeps = (
        owner.durable
        and owner.knows_links()
        and not terms.no_ack
        and owner.described(terms.queue).keeps_for_links(queue.delivery.state.semantics)
    )
    return link_terms(terms.link) if len(terms.link) > KEPT_S_OCTETS and keeps else None


def take_link(
    owner: OwnerState,
    number: int,
    link: LinkTerms,
    attaching: ConsumerKey,
    forget: Callable[[int, ConsumerKey], Ranges],
) -> bool:
    """A link is attached by another consumer: end the link's former consumer, and put into the log that the
    link and its messages have this one from now on. Returns whether there was one of these to do; the caller
    asks again once what has been proposed is applied.
    """
    queue = owner.queues[number]
    former = queue.delivery.consumers.of_link(link.identity)
    coming = [] if former is None else _steal(owner, number, former, forget)
    elsewhere = queue.delivery.links.logged_elsewhere(link, *attaching)
    messages = merged(sorted(elsewhere + coming))
    if messages:
        owner.operation(encode_remark(Remark(number, Subject.LINK, messages, link.lease(*attaching))))
    logging = log_consumer(owner, number, link, attaching)
    return former is not None or bool(messages) or logging


def is_stolen(owner: OwnerState, front_end: int, terms: ConsumerTerms) -> bool:
    """Whether the link of a consumer that comes back with its front end has been attached elsewhere since,
    also where it has ended there by now.
    """
    link = linking(owner, terms)
    if link is None:
        return False
    if owner.queues[terms.queue].delivery.consumers.of_link(link.identity) is not None:
        return True
    logged = logged_consumer(owner, terms.queue, link)
    return logged != (front_end, terms.consumer) and (terms.logged or logged is not None)


def _steal(
    owner: OwnerState, number: int, former: Consumer, forget: Callable[[int, ConsumerKey], Ranges]
) -> Ranges:
    """End the consumer of a link that is attached again (part 2, section 2.6.1). Returns the messages that
    were about to leave to it, which are the link's next consumer's: see `Serving.forget_link`.
    """
    delivery = owner.queues[number].delivery
    coming = forget(number, (former.front_end, former.number))
    if coming:
        owner.after_proposed(partial(_keep, owner, number, former.front_end, coming))
    delivery.consumers.detach(former.front_end, former.number)
    state = owner.front_ends.current(former.front_end)
    if state is not None and state.consumers.pop(former.number, None) is not None:
        state.port.consumer_cancelled(state.epoch, former.number, stolen=True)
    return coming


def _keep(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """The log leases these messages to a link, and no consumer has got them."""
    queue = owner.queues.get(number)
    if queue is not None:
        queue.delivery.links.keep(queue.delivery.lease_of(front_end), ranges)
        owner.serve_again(number)


def abandon(owner: OwnerState, number: int, front_end: int, consumer: int, ranges: Ranges) -> None:
    """A consumer is lost that has had these messages: keep those of its link. The others go back, and their
    deliveries have failed.
    """
    queue = owner.queues.get(number)
    if queue is None:
        return
    left = queue.delivery.links.abandoned(front_end, consumer, ranges)
    if left:
        returned = take_return(owner, front_end, Return(number, left, failed=True))
        if returned is not None:
            owner.operation(returned)
        owner.after_proposed(partial(_gone_back, owner, number, front_end, left))
    owner.mark(number)


def _gone_back(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """The return of a front end's messages is applied: they are ready."""
    if number in owner.queues:
        for part in ranges:
            owner.returned(front_end, number, *part)


def let_links_lapse(owner: OwnerState, number: int, queue: QueueOwner, now: int) -> None:
    """Give back the messages of lost links whose time is over; `now` is in milliseconds since the epoch."""
    overdue = queue.delivery.links.overdue(now)
    if overdue:
        _let_go(owner, number, queue, overdue)


def close_link(
    owner: OwnerState, number: int, front_end: int, consumer: int, link: bytes, closed: Callable[[], None]
) -> None:
    """A consumer has ended because its link is closed for good: give back what is kept for the link. Calls
    `closed` once that is applied.
    """
    queue = owner.queues.get(number)
    if queue is not None:
        ranges = queue.delivery.links.closed(front_end, consumer, link_terms(link).identity)
        if ranges:
            _let_go(owner, number, queue, ranges)
    owner.after_proposed(closed)


def find_link(owner: OwnerState, identity: bytes) -> object:
    """The queue that has a link, with the seconds for which the link's messages are kept; NOT_FOUND where no
    queue of the partition has the link.
    """
    for number, queue in owner.queues.items():
        terms = queue.delivery.links.terms_of(identity)
        if terms is not None:
            return [number, terms.kept_s]
    return NOT_FOUND


def give_kept_back(
    owner: OwnerState, number: int, queue: QueueOwner, ranges: Ranges, *, cancelled: bool
) -> None:
    """A client has messages go back that are kept for links. `cancelled` as in `discard_exhausted`."""
    going = queue.delivery.links.go_back(ranges)
    if going:
        _let_go(owner, number, queue, going, cancelled=cancelled)


def _let_go(
    owner: OwnerState, number: int, queue: QueueOwner, lapsing: Ranges, *, cancelled: bool = False
) -> None:
    """Give back messages that were kept for links. Their deliveries have failed."""
    spent, ranges = discard_exhausted(owner, number, LINKS, lapsing, cancelled=cancelled)
    if spent:
        owner.operation(spent)
    if cancelled:
        count_cancels(owner, number, LINKS, ranges)
    let_rest(owner, number, LINKS, ranges)
    owner.proposal.add_return(number, queue.delivery.state, ranges, failed=True)
    if not cancelled:
        owner.histories.lapsed(number, ranges)
    owner.after_proposed(partial(_lapsed, owner, number, ranges))
    owner.wake()


def _lapsed(owner: OwnerState, number: int, ranges: Ranges) -> None:
    """The failed deliveries are applied: the messages are ready."""
    queue = owner.queues.get(number)
    if queue is not None:
        queue.lifecycle.give_back(queue.delivery.links.kept, queue.delivery.links.lapsed(ranges), True)
        owner.mark(number)
