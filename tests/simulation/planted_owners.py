"""Planted bugs in what the owners of one queue promise (`tests.simulation.planted`)."""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from cluster.catalog.local_parts import LocalParts
from cluster.owner import dead_letters
from cluster.owner.loans import Borrower, Loans
from node.queue.dispatch import QueueOwner
from node.queue.view import View
from node.ranges.range_set import RangeSet


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
    """D20: an owner whose last consumer has left takes its questions for loans back. With the bug it does
    not.
    """
    return mock.patch.object(Loans, "_take_back", lambda *_: None)


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
