"""Majorities, simple and joint (thesis §4.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import TypeVar

Value = TypeVar("Value", int, float)


class VoteTally(Enum):
    """How a vote stands."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority_value(values: list[Value]) -> Value:
    """The highest value that a majority reaches or exceeds. `values` has one of each voter, at least one."""
    values.sort()
    return values[(len(values) - 1) // 2]


def _majority_tally(voters: Collection[str], votes: Mapping[str, bool]) -> VoteTally:
    needed = len(voters) // 2 + 1
    answers = [votes[voter] for voter in voters if voter in votes]
    granted = sum(answers)
    if granted >= needed:
        return VoteTally.WON
    if len(voters) - (len(answers) - granted) < needed:
        return VoteTally.LOST
    return VoteTally.PENDING


def tally(voters: Collection[str], outgoing: Collection[str], votes: Mapping[str, bool]) -> VoteTally:
    """How the vote stands: won with both majorities, lost as soon as one of them is out of reach."""
    if not voters:
        return VoteTally.LOST
    halves = [_majority_tally(voters, votes)]
    if outgoing:
        halves.append(_majority_tally(outgoing, votes))
    if VoteTally.LOST in halves:
        return VoteTally.LOST
    return VoteTally.PENDING if VoteTally.PENDING in halves else VoteTally.WON
