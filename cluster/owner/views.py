"""Tells front ends the rows of views. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.owner.serving import Serving
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND

LONGEST_WAIT_MS: Final = 60_000
"""The owner keeps a question so long at most."""


class ViewQuestion(NamedTuple):
    """A question for the rows of a view that stand behind one, by its number.

    The answer waits up to `wait_ms` milliseconds while the view has the version `version` of the owner's term
    `term`. `keyed`: each row has the values behind it by which the view groups. Then an answer without rows
    says that the view still has that version.
    """

    queue: int
    view: str
    behind: int
    term: int
    version: int
    wait_ms: int
    keyed: bool = False


def ask_view(
    owner: OwnerState, serving: Serving, question: ViewQuestion, answer: Callable[[Any], None]
) -> None:
    """Answer a question once the queue has been served: the term, the version, how many messages the rows lag
    behind, whether the queue waits for front ends of a former owner, the names of the fields, rows, and the
    number of the last row where there are more, else 0. The answer None: the queue has no such view.
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
    names = [name for name, _ in view.terms.fields]
    waits = bool(queue.delivery.held)
    if known and question.keyed:
        answer([owner.term, view.version, view.behind, waits, names, None, 0])
        return
    page = view.page(question.behind, keyed=question.keyed)
    answer([owner.term, view.version, view.behind, waits, names, page.rows, page.last])
