"""The calls of front ends to a partition's owner: greetings, operations, consumers, requests. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from cluster.owner.attached_links import consumer_gone, consumers_gone, logged_consumer
from cluster.owner.barriers import barriers_lost, send_barriers_again
from cluster.owner.borrowing import is_loan, take_loan
from cluster.owner.context import OwnerContext
from cluster.owner.failures import return_leased
from cluster.owner.intake import take_batch
from cluster.owner.links import is_stolen, linking, take_link
from cluster.owner.proposal import HOLD_S, NO_EPOCH, FrontEndState, TakenBatches
from cluster.owner.requests import AskedAboutPart, FrontEndRequests
from cluster.owner.serving import Serving
from cluster.owner.state import OwnerState
from cluster.owner.takes import OwnedTakes
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.owner.two_phase_commit import TwoPhaseCommit
from cluster.owner.upkeep import find_left_behind, left_behind
from cluster.peers.consumer_terms import FOR_LOGGED_LINK, ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.link_messages import ACCESS_REFUSED, FOR_LINK, NOT_FOUND, TOO_MANY_FILTERS
from node.delivery.link_terms import LinkTerms
from node.expressions.nodes import TreeError
from node.expressions.selector import Selector
from node.queue.consumers import Consumer, ExclusiveConsumerError
from node.queue.entry_format import encode_attach, encode_forget
from node.ranges.range_set import RangeSet


class FrontEndSessions:
    """Implements `cluster.peers.link_messages.OwnerPort` for an owner. Calls of an epoch that is not the
    front end's present one are ignored.
    """

    def __init__(
        self,
        owner: OwnerState,
        context: OwnerContext,
        serving: Serving,
        transactions: TwoPhaseCommit,
        asked: AskedAboutPart,
    ) -> None:
        """`asked` takes the requests about parts of queues with several owners."""
        self._owner = owner
        self._front_ends = owner.front_ends
        self._context, self._serving, self._transactions = context, serving, transactions
        self.takes = OwnedTakes(owner, context, serving)
        self._requests = FrontEndRequests(owner, serving, transactions, self.takes, self.when_attached, asked)

    # -- greetings ------------------------------------------------------------------------------

    def expect_no_more(self) -> None:
        """Wait no longer for the front ends of former owners that have not greeted. One that greets again,
        because a message was lost, has its consumers still.
        """
        find_left_behind(self._owner, self._context)
        self._front_ends.expect_no_more(self._front_ends.expected - self._front_ends.greeting.keys())

    def hello(
        self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms], tried: int
    ) -> None:
        port = self._context.front_ends.port(self._owner.partition, front_end, node)
        if not self._owner.active or port is None:
            return
        taken = self._front_ends.taken.setdefault(front_end, TakenBatches())
        if epoch < taken.epoch:
            return
        taken.epoch = epoch
        self._serving.forget_links(front_end)
        returning = {terms.consumer: self._with_coming(front_end, terms) for terms in consumers}
        state = FrontEndState(front_end, node, epoch, port, returning, taken, tried=tried)
        self._front_ends.greeting[front_end] = state
        self._detach_all(state)
        consumers_gone(self._owner, front_end, returning.keys())

    def _with_coming(self, front_end: int, terms: ConsumerTerms) -> ConsumerTerms:
        """The terms of a returning consumer, with the messages whose removal for it is not committed yet
        counted as delivered: they are sent later, and use its credit.
        """
        coming = self._serving.on_the_way(terms.queue, (front_end, terms.consumer))
        return replace(terms, delivered=terms.delivered + coming) if coming else terms

    def greeted(self, front_end: int) -> bool:
        """Whether the front end has greeted this owner."""
        return self._front_ends.epoch(front_end) is not None

    def node_gap(self, node: str) -> None:
        """Messages of a node were lost: have the front ends there greet anew, also the partitions that send
        dead letters from there, and ignore their calls until then.

        Without that, the end of a greeting whose operations were lost would return messages that these
        operations have settled, and the first operations behind a greeting would stand for lost ones.
        """
        for front_end, state in self._front_ends.greeting.items():
            if state.node == node:
                state.epoch = NO_EPOCH
                self._serving.forget_links(front_end)
                self._detach_all(state)
                state.port.resync()

    def _detach_all(self, state: FrontEndState) -> None:
        front_end = state.front_end
        if state.consumers or state.returning:
            self._front_ends.expected.add(front_end)
        for queue, owner in self._owner.queues.items():
            if owner.delivery.consumers.count:
                self._owner.used(queue, HOLD_S)
            if front_end < FIRST_TRANSIT_ID:
                # A partition that sends dead letters has no consumers, and tells of none.
                owner.delivery.consumers.suspend(front_end)
            owner.delivery.consumers.detach_all(front_end)
            owner.delivery.targets.back(front_end)
        self._serving.forget_gets(front_end)

    def held(self, front_end: int, epoch: int, held: HeldLeases) -> None:
        state = self._front_ends.state(front_end, epoch)
        if state is None:
            return
        state.held = {queue: RangeSet(ranges) for queue, ranges in held.leases.items()}
        # A message that one of its batches returns is not among its leases: until the return is applied, the
        # owner would take it for undelivered.
        self._owner.after_proposed(partial(self._resume, front_end, epoch, held))
        self._owner.wake()

    def _resume(self, front_end: int, epoch: int, held: HeldLeases) -> None:
        """Take over the leases of a front end that has greeted, then its consumers."""
        state = self._front_ends.state(front_end, epoch)
        if state is None:
            return
        for queue, owner in self._owner.queues.items():
            mine = list(state.held.get(queue, RangeSet()).ranges())
            if owner.delivery.timed is not None:
                owner.delivery.now = self._owner.wall_ms()
            owner.lifecycle.release_unheld(front_end, mine)
            told = [spans.get(queue, ()) for spans in (held.holders, held.tokens, held.ends)]
            self._owner.histories.held(queue, front_end, owner.lifecycle.reattached(front_end, mine, *told))
            self._serving.mark(queue)
        state.held = {}
        for consumer, terms in list(state.returning.items()):
            rejoin = partial(self._rejoin, front_end, epoch, consumer)
            if terms.queue in self._owner.queues:
                self.when_attached(terms.queue, front_end, rejoin, consuming=True)
            else:
                rejoin()
        self._owner.after_proposed(partial(self._all_back, front_end, epoch))
        self._owner.wake()

    def _all_back(self, front_end: int, epoch: int) -> None:
        """The consumers of a front end that has greeted are attached again, except for cancelled ones."""
        if self._front_ends.state(front_end, epoch) is not None:
            for queue, owner in self._owner.queues.items():
                if owner.delivery.consumers.resume(front_end):
                    self._serving.mark(queue)
            self._front_ends.expect_no_more((front_end,))
            send_barriers_again(self._owner, front_end)
            self._owner.wake()

    def front_end_lost(self, front_end: int) -> None:
        """A front end cannot be reached: return the messages of its consumers to their queues.

        The owner still knows the batches that it took: the front end may come back before they are committed.
        """
        if not self._owner.active:
            return
        self._front_ends.greeting.pop(front_end, None)
        self._serving.forget_gets(front_end)
        self._serving.forget_links(front_end)
        for queue, owner in self._owner.queues.items():
            consumers = owner.delivery.consumers.count
            # Another consumer becomes active only when the messages of the lost active one are ready again.
            owner.delivery.consumers.suspend(front_end)
            owner.delivery.consumers.detach_all(front_end)
            return_leased(self._owner, queue, owner, front_end)
            owner.delivery.targets.lost(front_end)
            if consumers and not owner.delivery.consumers.count:
                left_behind(self._owner, self._context, queue)
        barriers_lost(self._owner, front_end)
        self._owner.after_proposed(partial(self._leases_lost, front_end))
        self._front_ends.expect_no_more((front_end,))
        self._owner.wake()

    def _leases_lost(self, front_end: int) -> None:
        """The failed deliveries are applied: the messages are ready."""
        for queue, owner in self._owner.queues.items():
            owner.lifecycle.lost_front_end(front_end)
            self._serving.mark(queue)
        self._owner.wake()

    def front_end_dead(self, front_end: int) -> None:
        """A front end's process is gone for good.

        Only now may the owner forget the numbers of its operation batches. A front end that is merely out of
        reach sends unacknowledged batches again, and the owner would take them twice.
        """
        if self._owner.active:
            self.front_end_lost(front_end)
            self._front_ends.taken.pop(front_end, None)
            for owner in self._owner.queues.values():
                owner.delivery.targets.forget(front_end)
            # Behind the last batches of the front end.
            self._owner.decision(encode_forget(front_end))

    # -- operations -----------------------------------------------------------------------------

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        state = self._front_ends.state(front_end, epoch)
        if state is None:
            return
        if state.next_number not in (0, number):
            state.port.resync()
            return
        if state.next_number == 0:
            # An epoch begins with the oldest batch that the front end does not know to be committed.
            state.told = number - 1
        state.next_number = number + 1
        taken = state.taken
        known = number <= max(self._owner.machine.number_of(front_end), taken.accepted)
        taken.accepted = max(taken.accepted, number)
        if front_end >= FIRST_TRANSIT_ID and not known and is_loan(data):
            take_loan(self._owner, front_end, number, data)
        elif known or take_batch(
            self._owner, self._transactions, front_end, number, data, tried=number <= state.tried
        ):
            self._owner.after_proposed(partial(self._owner.acknowledge, front_end, number))
        self._owner.wake()

    # -- consumers ------------------------------------------------------------------------------

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        if self._front_ends.state(front_end, epoch) is None:
            return
        if self._front_ends.expected:
            self._front_ends.after_greetings(partial(self.attach, front_end, epoch, request, terms))
            return

        def join() -> None:
            self._front_ends.joining -= Counter((terms.queue,))
            state = self._front_ends.state(front_end, epoch)
            if state is not None:
                answer = partial(self._front_ends.answer, front_end, request, self._join(state, terms))
                if self._serving.on_the_way(terms.queue, (front_end, terms.consumer)):
                    # Messages that leave by a consumer's former terms come before the answer.
                    self._owner.after_proposed(answer)
                else:
                    answer()

        # A deposed owner does not know what the messages of a link have become.
        take_link_first = partial(self._take_link, front_end, epoch, terms, join)
        confirmed_first = partial(self._owner.linearizable_reads.when_confirmed, take_link_first)
        self._front_ends.joining[terms.queue] += 1
        attached = confirmed_first if terms.link else join
        self.when_attached(terms.queue, front_end, attached, consuming=True)

    def _take_link(self, front_end: int, epoch: int, terms: ConsumerTerms, join: Callable[[], None]) -> None:
        """Take the link of a consumer over from another one, and let the consumer join once the log has by
        which consumer the link has its messages.
        """
        number, attaching = terms.queue, (front_end, terms.consumer)
        # A front end that has greeted again has sent its request again.
        greeted = self._front_ends.greeted(front_end, epoch)
        link = linking(self._owner, terms) if greeted else None
        if link is not None and take_link(self._owner, number, link, attaching, self._serving.forget_link):
            self._owner.after_proposed(partial(self._take_link, front_end, epoch, terms, join))
        else:
            join()

    def _join(self, state: FrontEndState, terms: ConsumerTerms, *, anew: bool = True) -> list[Any] | None:
        """Add a consumer whose front end is attached in the log, or change the terms of one. Returns the
        answer to an attach. `anew`: the consumer is new, and has not greeted with its front end.
        """
        front_end, owner = state.front_end, self._owner.queues.get(terms.queue)
        if owner is None:
            return NOT_FOUND
        try:
            selector = Selector(terms.filter) if terms.filter else None
        except TreeError:
            # The filter of a later release.
            return NOT_FOUND
        consumers, key = owner.delivery.consumers, (front_end, terms.consumer)
        former = consumers.get(*key)
        if selector is not None and not consumers.takes_filter(selector, former):
            return TOO_MANY_FILTERS
        if former is not None:
            consumers.change(former, priority=terms.priority, selector=selector, backlog=terms.backlog)
            self._owner.serve_again(terms.queue)
            return None
        link = linking(self._owner, terms)
        try:
            consumer = consumers.attach(
                *key,
                priority=terms.priority,
                no_ack=terms.no_ack,
                exclusive=terms.exclusive,
                sent=terms.delivered,
                joined=terms.joined,
                activated=terms.activated,
                selector=selector,
                link=link,
                backlog=terms.backlog,
            )
        except ExclusiveConsumerError:
            return ACCESS_REFUSED
        state.consumers[terms.consumer] = terms.queue
        consumers.credit(front_end, terms.consumer, terms.limit)
        self._owner.serve_again(terms.queue)
        return None if link is None else self._with_link(terms.queue, link, consumer, anew=anew)

    def _with_link(self, number: int, link: LinkTerms, consumer: Consumer, *, anew: bool) -> list[Any]:
        """Give a consumer its link. Returns the answer to an attach."""
        mine = (consumer.front_end, consumer.number)
        logged = [FOR_LOGGED_LINK] if logged_consumer(self._owner, number, link) == mine else []
        return [FOR_LINK, self._owner.queues[number].delivery.links.attach(consumer, anew=anew), *logged]

    def _rejoin(self, front_end: int, epoch: int, consumer: int) -> None:
        state = self._front_ends.state(front_end, epoch)
        # The client may have cancelled the consumer since.
        terms = None if state is None else state.returning.pop(consumer, None)
        if state is None or terms is None:
            return
        stolen = is_stolen(self._owner, front_end, terms)
        answer = NOT_FOUND if stolen else self._join(state, terms, anew=False)
        if answer is not None and answer[0] != FOR_LINK:
            state.port.consumer_cancelled(epoch, consumer, stolen)

    def when_attached(
        self, queue: int, front_end: int, callback: Callable[[], None], *, consuming: bool = False
    ) -> None:
        """Call back once the log has that the front end may hold leases of the queue.

        A new owner waits for the greetings of exactly these front ends. A front end that is not in the log
        must not get a message.
        """
        if queue in self._owner.machine.queues:
            self._attach_first(queue, front_end, callback, consuming)
        else:
            # The entry that creates the queue may be on its way.
            self._owner.after_proposed(partial(self._attach_first, queue, front_end, callback, consuming))

    def _attach_first(
        self, queue: int, front_end: int, callback: Callable[[], None], consuming: bool
    ) -> None:
        state = self._owner.machine.queues.get(queue)
        first = consuming and state is not None and not state.consumed
        if state is not None and (first or front_end not in state.attached):
            self._owner.operation(encode_attach(queue, front_end, consuming))
        self._owner.after_proposed(callback)

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        state = self._front_ends.state(front_end, epoch)
        if state is None:
            return
        returning, queue = state.returning.pop(consumer, None), state.consumers.pop(consumer, 0)
        queue = returning.queue if returning is not None else queue
        owner = self._owner.queues.get(queue)
        if owner is None:
            return
        known = owner.delivery.consumers.get(front_end, consumer)
        link = b"" if known is None or known.link is None else known.link.encode()
        link = link if returning is None else returning.link
        if link:
            consumer_gone(self._owner, queue, link, (front_end, consumer))
        owner.delivery.links.detach(front_end, consumer)
        owner.delivery.consumers.detach(front_end, consumer)
        # The messages that its channel returns come first for the next active consumer.
        if owner.delivery.consumers.suspend(front_end):
            self._owner.after_proposed(partial(self._all_back, front_end, epoch))
        if not owner.delivery.consumers.count:
            left_behind(self._owner, self._context, queue)
        elif owner.delivery.consumers.refiltered and self._owner.described(queue).shared:
            # The owners of other parts need not look for the filter any more.
            self._owner.serve_again(queue)

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        state = self._front_ends.state(front_end, epoch)
        if state is None:
            return
        for consumer, limit in limits:
            queue = state.consumers.get(consumer, 0)
            if consumer in state.returning:
                state.returning[consumer] = replace(state.returning[consumer], limit=limit)
            elif self._owner.returning(queue) or consumer in state.delayed_credit:
                # The return of a message may have given this credit: the same message comes first (§4.7).
                # The consumer has its credit in the order in which its front end has told it.
                state.delayed_credit[consumer] += 1
                later = partial(self._credit_later, front_end, epoch, queue, consumer, limit)
                self._owner.after_proposed(later)
            else:
                self._credit(front_end, epoch, queue, consumer, limit)
        self._owner.wake()

    def _credit_later(self, front_end: int, epoch: int, queue: int, consumer: int, limit: int) -> None:
        state = self._front_ends.state(front_end, epoch)
        if state is not None:
            state.delayed_credit -= Counter((consumer,))
            self._credit(front_end, epoch, queue, consumer, limit)

    def _credit(self, front_end: int, epoch: int, queue: int, consumer: int, limit: int) -> None:
        owner = self._owner.queues.get(queue)
        if owner is not None and self._front_ends.state(front_end, epoch) is not None:
            owner.delivery.consumers.credit(front_end, consumer, limit)
            self._serving.mark(queue)

    # -- requests -------------------------------------------------------------------------------

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        if self._front_ends.greeted(front_end, epoch):
            self._requests.take(front_end, epoch, request, name, arguments)
            self._owner.wake()
