"""Planted bugs in what the owners of one queue promise (`tests.simulation.planted`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from cluster.catalog.local_parts import LocalParts
from cluster.gateway.moving_consumers import MovingConsumers
from cluster.owner import closing_parts, dead_letters, intake
from cluster.owner.asking import Asking
from cluster.owner.barriers_of_parts import BarriersOfParts
from cluster.owner.borrower import Borrower
from cluster.owner.closing_parts import ClosingParts
from cluster.owner.loans import Loans
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_seal_queue
from node.queue.operations import ANY_MESSAGES
from node.queue.part_barriers import PartBarriers
from node.queue.view import View
from node.ranges.range_set import RangeSet
from node.refusal import Refusal


def early_loans() -> AbstractContextManager[object]:
    """D20: a loan leaves its lender when its entry is committed. With the bug: when it is proposed."""
    intact, early = Loans._lend, set[int]()

    def hasty(self: Loans, number: int, queue: QueueOwner, front_end: int, borrower: Borrower) -> None:
        intact(self, number, queue, front_end, borrower)
        lent: Any = self._owner.proposal.committed.pop()
        early.add(number)
        lent()

    bugs = ExitStack()
    bugs.enter_context(mock.patch.object(Loans, "_lend", hasty))
    told = mock.patch.object(dead_letters, "is_loan_of", lambda _, transfer: transfer.queue in early)
    bugs.enter_context(told)
    return bugs


def parts_of_other_nodes() -> AbstractContextManager[object]:
    """D20: the name of a local queue leads a node's clients to the node's part. With the bug to any part."""

    def mixed_up(self: LocalParts, vhost: str, name: str, node: str) -> str:
        return max(self.by_name.get((vhost, name), {node: name}).values())

    return mock.patch.object(LocalParts, "at", mixed_up)


def messages_of_other_nodes() -> AbstractContextManager[object]:
    """D20: a part of a local queue gets what is published at its node, through whichever exchange. With the
    bug: all that is published to an exchange to which the part is bound.
    """

    def everywhere(self: LocalParts, vhost: str, names: Set[str], node: str) -> Set[str]:
        return {self.at(vhost, name, node) for name in names}

    return mock.patch.object(LocalParts, "routed", everywhere)


def questions_that_stay() -> AbstractContextManager[object]:
    """D20: an owner whose last consumer has left, or its last one with a filter, takes its questions
    back. With the bug it does not.
    """
    bugs = ExitStack()
    for taking_back in ("take_back", "_take_back_filters"):
        bugs.enter_context(mock.patch.object(Asking, taking_back, lambda *_: None))
    return bugs


def forgotten_filters() -> AbstractContextManager[object]:
    """D20: an owner that has no message for the filter of another one remembers who asks. With the bug the
    owner forgets.
    """
    intact = Loans.served

    def forgetful(self: Loans, number: int) -> None:
        intact(self, number)
        for wanted in self.by_filter.wished(number):
            wanted.question = None

    return mock.patch.object(Loans, "served", forgetful)


def barriers_ahead_of_loans() -> AbstractContextManager[object]:
    """D11, D20: a lent message says before which barrier it stands. With the bug the borrower has it behind
    the barriers that have come before it.
    """
    return mock.patch.object(PartBarriers, "_lent_before", lambda *_: [])


class _AnyWord:
    """Equals each answer of a part."""

    def __getitem__(self, _: Any) -> Any:
        return mock.ANY


def one_round_of_barriers() -> AbstractContextManager[object]:
    """D11, D20: the first part asks the others twice whether all before a barrier is settled, as a message
    may be lent meanwhile. With the bug it asks once.
    """
    intact = BarriersOfParts._begin

    def once(self: BarriersOfParts, number: int, generation: int, before: object) -> object:
        told: Any = defaultdict(_AnyWord)
        return intact(self, number, generation, told)

    return mock.patch.object(BarriersOfParts, "_begin", once)


def barriers_confirmed_at_once() -> AbstractContextManager[object]:
    """D11, D20: a publisher hears of a barrier when each part has it. With the bug: when one part has it."""
    return mock.patch.object(intake, "admit", lambda *_: None)


def changes_under_one_version() -> AbstractContextManager[object]:
    """D15: rows that change have another version, for which followers ask. With the bug they keep their
    version where messages leave, or come back.
    """
    intact = View._change

    def unnoticed(self: View, messages: RangeSet, left: int, by: int) -> int:
        version = self.version
        steps = intact(self, messages, left, by)
        self.version = version
        return steps

    return mock.patch.object(View, "_change", unnoticed)


def parts_that_go_with_messages() -> AbstractContextManager[object]:
    """D20: a part goes when it is empty. With the bug it does not matter what is in the part."""
    bugs = ExitStack()
    bugs.enter_context(mock.patch.object(ClosingParts, "_empty", lambda *_: True))
    whatever = mock.patch.object(
        closing_parts, "encode_seal_queue", lambda part, _: encode_seal_queue(part, ANY_MESSAGES)
    )
    bugs.enter_context(whatever)
    return bugs


def settled_where_the_consumer_is() -> AbstractContextManager[object]:
    """D20: a message is settled at the part that gave it. With the bug: at the part to which its consumer has
    moved since.
    """
    intact = MovingConsumers._begun

    def begun(self: MovingConsumers, consumer: int, move: Any, number: int, refusal: Refusal | None) -> None:
        intact(self, consumer, move, number, refusal)
        if refusal is None and number in self._consumers:
            self._consumers[move.former.id] = self._consumers[number]

    return mock.patch.object(MovingConsumers, "_begun", begun)
