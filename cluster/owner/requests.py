"""Requests of front ends to a partition's owner about a queue. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from cluster.owner.barriers import barrier_received
from cluster.owner.browsing import BrowsingQuestion, page, searched_page
from cluster.owner.browsing_questions import BrowsingQuestions
from cluster.owner.filling import leave_out, on_the_way
from cluster.owner.links import abandon, close_link, find_link
from cluster.owner.readers import ask_reader
from cluster.owner.recovery_points import is_filling
from cluster.owner.renewals import renew
from cluster.owner.serving import Serving, regrant
from cluster.owner.settling import NamedMessages, Search, find_named, settle_named
from cluster.owner.state import OwnerState
from cluster.owner.streams import advance, tell_place
from cluster.owner.takes import OwnedTakes
from cluster.owner.targets import attach_target
from cluster.owner.two_phase_commit import TwoPhaseCommit
from cluster.owner.undoing import find_undone
from cluster.owner.views import ViewQuestion, ask_view
from cluster.peers.link_messages import (
    GET_LINK,
    GET_LINK_KEPT,
    GET_LINK_NO_ACK,
    JUST_CREATED,
    NOT_FOUND,
    NOTHING_TO_GET,
    STAYS_LEASED,
    TOO_MANY_FILTERS,
    Ranges,
)
from cluster.peers.reader_requests import READER_REQUEST
from node.delivery.deeds import Deed
from node.expressions.nodes import TreeError
from node.message.streams import OffsetKind, StreamOffset
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_purge, encode_seal_queue
from node.queue.operations import ANY_MESSAGES
from node.queue.targets import TargetStep, UpdateTarget
from node.ranges.range_set import merged

SendAnswer = Callable[[Any], None]

AskedAboutPart = Callable[[int, int, int, str, list[Any]], bool]
"""Takes the front end, its epoch, the request, its name, and its arguments. Returns whether such a request is
known.
"""


class FrontEndRequests:
    """Carries out requests. A front end that greets anew repeats, under the same number, each request to
    which it has no answer.
    """

    def __init__(
        self,
        owner: OwnerState,
        serving: Serving,
        transactions: TwoPhaseCommit,
        takes: OwnedTakes,
        when_attached: Callable[[int, int, Callable[[], None]], None],
        asked_about_part: AskedAboutPart,
    ) -> None:
        """`when_attached` calls back once the log has that a front end may hold leases of a queue."""
        self._owner, self._serving = owner, serving
        self._transactions, self._takes, self._when_attached = transactions, takes, when_attached
        self._asked_about_part = asked_about_part
        self._front_ends = owner.front_ends
        self._browsing = BrowsingQuestions(owner, serving)

    def take(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        """Carry out a request of a front end's present epoch. The answer may come in a later turn."""
        answer = partial(self._front_ends.answer, front_end, request)
        if self._transactions.asked(front_end, request, name, arguments, answer):
            return
        if self._takes.asked(front_end, request, name, arguments):
            return
        found = partial(self._owner.linearizable_reads.answer, front_end, request)
        if arguments[: len(NOTHING_TO_GET)] == [*NOTHING_TO_GET]:
            self._take_newer(front_end, epoch, request, name, arguments[len(NOTHING_TO_GET) :])
            return
        queue = arguments[0]
        # A client asks for the count when it declares the queue.
        self._owner.used(queue)
        if name == "count" and arguments[1:] == [JUST_CREATED]:
            # The entry that creates the queue may be on its way.
            self._owner.after_proposed(partial(self._count_created, queue, answer, found))
        elif name == "count":
            counting = partial(_count, self._owner, queue, found)
            self._owner.after_proposed(lambda: self._serving.when_served(queue, counting))
        elif name == "purge":
            # A front end of the release before does not bound the purge.
            through = arguments[1] if len(arguments) > 1 else ANY_MESSAGES
            self._owner.after_proposed(partial(self._purge, front_end, request, queue, through))
        elif name == "redeliver":
            # After the return of the messages is applied, and before the queue serves other consumers.
            redelivering = partial(self._redeliver, front_end, request, *arguments)
            self._owner.after_proposed(partial(self._before_served, queue, redelivering))
        elif name == "close":
            closing = partial(self._close, front_end, request, *arguments)
            self._owner.after_proposed(partial(self._front_ends.after_greetings, closing))
        elif name == "get":
            taking = arguments[3] if len(arguments) > 3 else b""
            get = partial(self._get, front_end, epoch, request, queue, _get_link(arguments[:3]), taking)
            self._when_attached(queue, front_end, get)
        else:
            # A request of a later release.
            answer(NOT_FOUND)

    def _count_created(self, number: int, answer: SendAnswer, found: SendAnswer) -> None:
        _count(self._owner, number, answer if number in self._owner.queues else found)

    def _take_newer(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        """Carry out a request that an owner of the release before does not know. Such requests are no use of
        the queue in the sense of x-expires.
        """
        found = partial(self._owner.linearizable_reads.answer, front_end, request)
        queue = arguments[0]
        if name in ("browse", "stop"):
            browsing = partial(self._browse, found, *arguments)
            stopping = partial(self._stop, front_end, epoch, request, *arguments)
            served = browsing if name == "browse" else stopping
            self._owner.after_proposed(lambda: self._serving.when_served(queue, served))
        elif name == "browse_next":
            asking = partial(self._browsing.ask, BrowsingQuestion(front_end, epoch, request, *arguments))
            self._owner.after_proposed(asking)
        elif name == "undeliverable_here":
            # At once: the messages are returned by operations that come behind the request.
            self._keep_from(front_end, request, *arguments)
        elif name == "drain":
            # The consumers of former owners are attached again, and no message is held for them.
            draining = partial(self._drain, front_end, epoch, request, *arguments)
            self._owner.after_proposed(partial(self._front_ends.after_greetings, draining))
        elif name in ("abandoned", "close_link"):
            ending = self._abandon if name == "abandoned" else self._close_link
            self._owner.after_proposed(partial(ending, front_end, request, *arguments))
        elif name == "attach_target":
            # The log has the front end then: the next owner waits for its greeting before the target is lost.
            attaching = partial(self._attach_target, front_end, request, *arguments)
            self._when_attached(queue, front_end, attaching)
        elif name == "barrier_received":
            barrier_received(self._owner, front_end, *arguments)
            self._front_ends.answer(front_end, request, None)
        elif name in ("renew", "settle_named", "find_named", "find_undone", "show_waiting"):
            self._take_naming(name, front_end, found, arguments)
        elif name in ("last", "stream_place", "advance", "view", "find_link", READER_REQUEST):
            self._take_reading(name, found, arguments)
        elif not self._asked_about_part(front_end, epoch, request, name, arguments):
            # A request of a later release.
            self._front_ends.answer(front_end, request, NOT_FOUND)

    def _take_reading(self, name: str, found: SendAnswer, arguments: list[Any]) -> None:
        """Carry out a request of a reader of a stream or a view, or of a consumer that browses, or find a
        link.
        """
        if name == READER_REQUEST:
            number, deed, *rest = arguments
            ask_reader(self._owner, number, deed, rest, found)
            return
        if name == "view":
            ask_view(self._owner, self._serving, ViewQuestion(*arguments), found)
            return
        if name == "find_link":
            # The consumers of former owners are attached again.
            telling = partial(self._front_ends.after_greetings, partial(self._find_link, found, *arguments))
        elif name == "advance":
            advance(self._owner, *arguments)
            telling = partial(found, None)
        else:
            telling = partial(self._tell_last if name == "last" else self._tell_place, found, *arguments)
        self._owner.after_proposed(telling)

    def _tell_last(self, found: SendAnswer, _: int) -> None:
        """Answer the last number that the owner has given away."""
        found(self._owner.next_sequence - 1)

    def _tell_place(
        self, found: SendAnswer, number: int, kind: int, value: int, subscription: bytes = b""
    ) -> None:
        """Answer the number behind which a reader of a stream begins. The subscription is told since 20."""
        found(tell_place(self._owner, number, StreamOffset(OffsetKind(kind), value), subscription))

    def _take_naming(self, name: str, front_end: int, found: SendAnswer, arguments: list[Any]) -> None:
        """Carry out a request about messages by their numbers, whichever front ends have the messages."""
        if name == "renew":
            self._owner.after_proposed(partial(self._renew, found, *arguments))
        elif name == "settle_named":
            number, deed, spans, cancels = arguments
            asked = NamedMessages(number, Deed(deed), [(low, high, at) for low, high, at in spans], cancels)
            later = self._serving.when_served_again
            settling = partial(settle_named, self._owner, asked, later, found)
            self._owner.after_proposed(partial(self._front_ends.after_greetings, settling))
        elif name == "show_waiting":
            number, ranges, wanted, reserves = arguments
            named = [(first, last) for first, last in ranges]
            showing = partial(self._show, found, front_end, number, named, wanted, reserves)
            self._owner.after_proposed(partial(self._front_ends.after_greetings, showing))
        else:
            number, octets, ranges = arguments
            search = Search(number, octets, [(first, last) for first, last in ranges])
            finding = partial(self._find, found, search, undone=name == "find_undone")
            self._owner.after_proposed(lambda: self._serving.when_served(number, finding))

    def _find(self, found: SendAnswer, asked: Search, *, undone: bool) -> None:
        """Answer a search for messages, as far as one turn leads."""
        queue, looks = self._owner.queues.get(asked.queue), self._serving.looks
        try:
            if queue is None:
                answer = NOT_FOUND
            elif undone:
                answer = [*find_undone(self._owner, asked, looks)]
            else:
                answer = [*find_named(self._owner, queue, asked, looks)]
        except TreeError:
            answer = NOT_FOUND
        found(answer)

    def _show(
        self, found: SendAnswer, front_end: int, number: int, ranges: Ranges, wanted: int, reserves: bool
    ) -> None:
        """Answer with messages that wait, once all that came before has been served."""
        show = partial(self._transactions.reservations.show, front_end, number, ranges, wanted)
        self._serving.when_served(number, lambda: found(show(reserves=reserves)))

    def _stop(self, front_end: int, epoch: int, request: int, number: int, consumer: int) -> None:
        """Deliver no more to a consumer; answers when all its messages have been sent.

        Messages without acknowledgement are sent once their removal is committed. The answer says nothing
        about the queue, so it is right even if this owner has been deposed.
        """

        def removed() -> None:
            if self._front_ends.greeted(front_end, epoch):
                self._front_ends.answer(front_end, request, None)

        queue = self._owner.queues.get(number)
        if queue is not None and self._front_ends.greeted(front_end, epoch):
            queue.delivery.consumers.stop(front_end, consumer)
        self._browsing.void(self._front_ends.state(front_end, epoch), consumer)
        self._owner.after_proposed(removed)

    def _keep_from(
        self, front_end: int, request: int, number: int, consumer: int, ranges: list[Sequence[int]]
    ) -> None:
        """Deliver these messages no more to a consumer."""
        queue = self._owner.queues.get(number)
        if queue is not None:
            queue.keep_from(front_end, consumer, [(first, last) for first, last in ranges])
        self._front_ends.answer(front_end, request, None)

    def _abandon(
        self, front_end: int, request: int, number: int, consumer: int, ranges: list[Sequence[int]]
    ) -> None:
        """A consumer with a link is lost."""
        abandon(self._owner, number, front_end, consumer, [(first, last) for first, last in ranges])
        self._front_ends.answer(front_end, request, None)

    def _close_link(self, front_end: int, request: int, number: int, consumer: int, link: bytes) -> None:
        """A client has closed a link for good. The consumer of the link has been stopped before."""
        # A deposed owner does not know what is kept.
        closed = partial(self._owner.linearizable_reads.answer, front_end, request, None)
        close_link(self._owner, number, front_end, consumer, link, closed)

    def _find_link(self, found: SendAnswer, _: int, identity: bytes) -> None:
        """Answer which queue of the partition has a link."""
        found(find_link(self._owner, identity))

    def _renew(self, found: SendAnswer, number: int, ranges: list[Sequence[int]], token: int) -> None:
        """Renew the leases of messages. Answers their end, and the messages."""
        renewed = renew(self._owner, number, [(first, last) for first, last in ranges], token)
        found([renewed.until, merged(part for _, parts in renewed.messages for part in parts)])

    def _attach_target(self, front_end: int, request: int, queue: int, number: int, link: bytes) -> None:
        """A link of a client that sends is attached."""
        step = UpdateTarget(queue, front_end, number, TargetStep.ATTACHED, link)
        # A deposed owner does not know which deliveries have come.
        answer = partial(self._owner.linearizable_reads.answer, front_end, request)
        attach_target(self._owner, step, self._transactions.when_concluded, answer)

    def _drain(
        self, front_end: int, epoch: int, request: int, number: int, consumer: int, limit: int
    ) -> None:
        """Deliver to a consumer what is ready for it, up to a limit, and take the rest of its credit away."""
        queue = self._owner.queues.get(number)
        if queue is not None and self._front_ends.greeted(front_end, epoch):
            queue.delivery.consumers.credit(front_end, consumer, limit)
        drained = partial(self._drained, front_end, epoch, request, number, consumer)
        self._serving.when_served(number, drained)
        self._owner.wake()

    def _drained(self, front_end: int, epoch: int, request: int, number: int, consumer: int) -> None:
        if not self._front_ends.greeted(front_end, epoch):
            # The front end has greeted again since, and has sent the request again.
            return
        queue = self._owner.queues.get(number)
        if queue is not None and queue.drain(front_end, consumer) is None:
            # A message for the consumer waits for room on the way, or is held for another front end.
            again = partial(self._drained, front_end, epoch, request, number, consumer)
            self._serving.when_served_again(number, again)
            if queue.unfinished or queue.looking:
                self._owner.serve_again(number)
            return

        def removed() -> None:
            if self._front_ends.greeted(front_end, epoch):
                self._owner.linearizable_reads.answer(front_end, request, None)

        # Messages without acknowledgement are sent once their removal is committed.
        self._owner.after_proposed(removed)

    def _browse(
        self, answer: SendAnswer, number: int, level: int, behind: int, wanted: int, filter: bytes = b""
    ) -> None:
        owner, queue, place = self._owner, self._owner.queues.get(number), (level, behind)
        found: list[Any] = NOT_FOUND
        if queue is not None and filter:
            with suppress(TreeError):
                found = searched_page(owner, number, queue, place, wanted, filter, self._serving.looks)
        elif queue is not None:
            found = page(owner, number, queue, place, wanted)
        answer(found)

    def _purge(self, front_end: int, request: int, number: int, through: int) -> None:
        """Remove the ready messages up to a number. Answers their count once the purge is committed."""
        answer: Any = NOT_FOUND
        # The entry of a purge shows that this owner leads. Without messages to purge there is no entry.
        tell: Callable[[int, int, Any], None] = self._owner.linearizable_reads.answer
        queue = self._owner.queues.get(number)
        if on_the_way(self._owner, number):
            # Messages that are coming in were in the queue's past before the purge.
            again = partial(self._purge, front_end, request, number, through)
            self._serving.before_served_again(number, again)
            return
        if queue is not None:
            purged = queue.lifecycle.purge(through)
            answer = purged.count
            if purged.durable:
                self._owner.operation(encode_purge(number, purged.durable))
            if leave_out(self._owner, number, queue, through) or purged.durable:
                tell = self._front_ends.answer
        self._owner.after_proposed(lambda: tell(front_end, request, answer))

    def _close(self, front_end: int, request: int, number: int, if_unused: bool, if_empty: bool) -> None:
        """Seal a queue for deletion, if it is unused or empty as asked. Answers whether the queue is sealed,
        and its counts.

        The log orders the seal among publishes. A publish in front of the seal keeps an empty queue from
        being sealed; a publish behind it finds no queue. A consumer that is being attached counts as a
        consumer. One that attaches behind the seal waits for the seal's entry, and finds no queue either.
        Whether a queue is empty that is being filled shows when it has all of its past.
        """
        queue = self._owner.queues.get(number)
        if queue is None:
            self._front_ends.answer(front_end, request, NOT_FOUND)
            return
        again = partial(self._close, front_end, request, number, if_unused, if_empty)
        if if_empty and is_filling(queue.delivery.state):
            self._serving.before_served_again(number, again)
            return
        ready, consumers, leased, scheduled = _counts(queue)
        consumers += self._front_ends.joining[number]
        counts = [ready, consumers, leased, scheduled]
        if (if_unused and consumers) or (if_empty and (ready or scheduled)):
            self._owner.linearizable_reads.answer(front_end, request, [False, *counts])
        else:
            through = self._owner.machine.next_sequence - 1 if if_empty else ANY_MESSAGES
            self._owner.operation(encode_seal_queue(number, through))
            self._owner.after_proposed(partial(self._sealed, front_end, request, number, counts, again))

    def _sealed(
        self, front_end: int, request: int, number: int, counts: list[int], again: Callable[[], None]
    ) -> None:
        state = self._owner.machine.queues.get(number)
        if state is not None and not state.sealed:
            again()
        else:
            self._front_ends.answer(front_end, request, [True, *counts])

    def _before_served(self, queue: int, callback: Callable[[], None]) -> None:
        self._serving.before_served(queue, callback)
        self._owner.wake()

    def _redeliver(
        self, front_end: int, request: int, queue: int, consumer: int, first: int, last: int
    ) -> None:
        owner = self._owner.queues.get(queue)
        if owner is not None and owner.delivery.held.intersection(first, last):
            # Another front end, which has not greeted yet, may have the messages.
            again = partial(self._redeliver, front_end, request, queue, consumer, first, last)
            self._serving.before_served_again(queue, again)
            return
        if owner is not None:
            regrant(self._owner, self._serving, queue, (front_end, consumer), (first, last))
        self._front_ends.answer(front_end, request, None)

    def _get(self, front_end: int, epoch: int, request: int, queue: int, link: int, filter: bytes) -> None:
        owner = self._owner.queues.get(queue)
        if not self._front_ends.greeted(front_end, epoch):
            # The front end has greeted again since, and has sent the request again.
            return
        if owner is None:
            self._front_ends.answer(front_end, request, NOT_FOUND)
        elif not self._serving.ask(owner, queue, front_end, request, link, filter):
            self._front_ends.answer(front_end, request, TOO_MANY_FILTERS)
        else:
            self._owner.wake()


def _get_link(arguments: list[Any]) -> int:
    """The get link of a request. A front end of the release before uses two of the three links."""
    _queue, no_ack, *how = arguments
    if not no_ack:
        return GET_LINK
    return GET_LINK_KEPT if how == [STAYS_LEASED] else GET_LINK_NO_ACK


def _count(owner: OwnerState, number: int, answer: SendAnswer) -> None:
    """Answer the counts of a queue, in the order of `QueueCounts`."""
    queue = owner.queues.get(number)
    if queue is None:
        answer(NOT_FOUND)
    else:
        answer(_counts(queue))


def _counts(queue: QueueOwner) -> list[int]:
    """The counts of a queue, in the order of `QueueCounts`."""
    delivery = queue.delivery
    return [len(delivery.ready), delivery.consumers.count, delivery.leased_count, delivery.scheduled_count]
