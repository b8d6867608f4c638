"""Tells front ends the rows of views. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.owner.borrowing import lent_by
from cluster.owner.serving import Serving
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND
from node.queue.merged_rows import digest_of_terms

LONGEST_WAIT_MS: Final = 60_000
"""The owner keeps a question so long at most."""


class ViewQuestion(NamedTuple):
    """A question for the rows of a view that stand behind one, by its number.

    The answer waits up to `wait_ms` milliseconds while the view has the version `version` of the owner's term
    `term`. `keyed`: each row has the values behind it by which the view groups. Then an answer without rows
    says that the view still has that version. `shares`: the rows are those of one part of the queue, for
    `node.queue.merged_rows`.
    """

    queue: int
    view: str
    behind: int
    term: int
    version: int
    wait_ms: int
    keyed: bool = False
    shares: bool = False


def ask_view(
    owner: OwnerState, serving: Serving, question: ViewQuestion, answer: Callable[[Any], None]
) -> None:
    """Answer a question once the queue has been served: the term, the version, how many messages the rows lag
    behind, whether the queue waits for front ends of a former owner, the names of the fields, rows, and the
    number of the last row where there are more, else 0. The answer None: the queue has no such view.

    The answer for a part has a digest of the view's terms in the place of the names. Messages on their way to
    another part count among those that the rows lag behind. The last item is how many transfers to the other
    parts there have been: where it is the same in two answers, nothing was lent between them.
    """
    until = owner.wall_ms() + min(question.wait_ms, LONGEST_WAIT_MS)
    telling = partial(_tell, owner, serving, question, until, answer)
    owner.after_proposed(lambda: serving.when_served(question.queue, telling))


def _tell(
    owner: OwnerState, serving: Serving, question: ViewQuestion, until: int, answer: Callable[[Any], None]
) -> None:
    queue = owner.queues.get(question.queue)
    if queue is None:
        answer(NOT_FOUND)
        return
    views = queue.delivery.views
    view = None if views is None else views.by_name.get(question.view)
    if view is None:
        answer(None)
        return
    known = (question.term, question.version) == (owner.term, view.version)
    if known and owner.wall_ms() < until:
        serving.when_served_again(question.queue, partial(_tell, owner, serving, question, until, answer))
        owner.alarms.set(question.queue, until)
        return
    waits, behind = bool(queue.delivery.held), view.behind
    told: Any = [name for name, _ in view.terms.fields]
    more: list[Any] = []
    if question.shares:
        told, more = digest_of_terms(view.terms), [_transfers(owner, question.queue)]
        behind += lent_by(owner, question.queue)
    if known and question.keyed:
        answer([owner.term, view.version, behind, waits, told, None, 0, *more])
        return
    page = view.page(question.behind, keyed=question.keyed, shares=question.shares)
    answer([owner.term, view.version, behind, waits, told, page.rows, page.last, *more])


def _transfers(owner: OwnerState, queue: int) -> int:
    """How many transfers there have been to the other parts of a queue."""
    others = owner.placed.parts.others(queue)
    return sum(owner.machine.transfers.last_number(partition) for partition, _ in others)
