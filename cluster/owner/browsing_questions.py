"""The questions of browsing consumers at an owner (`cluster.owner.browsing`): each consumer has one, which is
answered with the next page as soon as there is one. Pure.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.owner.browsing import BrowsingQuestion, filtered_page, is_certain, next_page, waits_for_turn
from cluster.owner.proposal import FrontEndState
from cluster.owner.serving import Serving
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND
from node.expressions.nodes import TreeError
from node.queue.dispatch import QueueOwner


class BrowsingQuestions:
    """The questions at one owner."""

    def __init__(self, owner: OwnerState, serving: Serving) -> None:
        self._owner, self._serving, self._front_ends = owner, serving, owner.front_ends

    def ask(self, question: BrowsingQuestion) -> None:
        """A consumer asks for its next messages: its question before is void."""
        state = self._front_ends.state(question.front_end, question.epoch)
        if state is not None:
            self.void(state, question.consumer)
            state.browsing[question.consumer] = question.request
            self._serving.when_served(question.queue, partial(self._show_next, question))
            self._owner.wake()

    def void(self, state: FrontEndState | None, consumer: int) -> None:
        """Answer a browsing consumer's question that waits: the consumer has asked anew, or has ended."""
        waiting = None if state is None else state.browsing.pop(consumer, None)
        if state is not None and waiting is not None:
            self._front_ends.answer(state.front_end, waiting, None)

    def _show_next(self, question: BrowsingQuestion) -> None:
        """Answer a browsing consumer's question with the number of the last message that was there when the
        consumer began, and a page; a question that waits is kept while there is no message.
        """
        state = self._front_ends.state(question.front_end, question.epoch)
        if state is None or state.browsing.get(question.consumer) != question.request:
            return
        queue = self._owner.queues.get(question.queue)
        self._owner.pages.begin(self._serving.turn)
        if queue is None:
            del state.browsing[question.consumer]
            self._owner.linearizable_reads.answer(question.front_end, question.request, NOT_FOUND)
        elif waits_for_turn(self._owner, queue, question):
            self._wait(question)
        elif question.filter:
            self._show_filtered(question, queue, state)
        else:
            rows = next_page(self._owner, queue, question)
            # The consumer would not come back to a message that is held for a consumer of a former owner.
            if queue.delivery.held or (question.waits and not rows):
                self._wait(question)
            else:
                self._tell(question, queue, state, rows)

    def _show_filtered(self, question: BrowsingQuestion, queue: QueueOwner, state: FrontEndState) -> None:
        """Answer a question as `_show_next`, for a consumer with a filter. The search for a message goes on
        in the next turn; an answer without a message tells up to which place the owner has looked.
        """
        try:
            found = filtered_page(self._owner, queue, question, self._serving.looks)
        except TreeError:
            del state.browsing[question.consumer]
            self._front_ends.answer(question.front_end, question.request, NOT_FOUND)
            return
        if queue.delivery.held or (not found.rows and (found.more or question.waits)):
            if not queue.delivery.held:
                question = question._replace(level=found.level, number=found.number)
            self._wait(question)
            if found.more and not found.rows:
                self._owner.serve_again(question.queue)
            return
        self._tell(question, queue, state, found.rows, found.level, found.number)

    def _wait(self, question: BrowsingQuestion) -> None:
        self._serving.when_served_again(question.queue, partial(self._show_next, question))

    def _tell(
        self,
        question: BrowsingQuestion,
        queue: QueueOwner,
        state: FrontEndState,
        rows: list[list[Any]],
        *looked: int,
    ) -> None:
        """Answer with a page, once it is certain that the page is true."""
        del state.browsing[question.consumer]
        through = question.through or self._owner.next_sequence - 1
        certain = is_certain(queue, rows)
        tell = self._front_ends.answer if certain else self._owner.linearizable_reads.answer
        tell(question.front_end, question.request, [through, rows, *looked])
