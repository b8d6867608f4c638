"""Bounds the pages of streams that an owner makes in one turn."""

from __future__ import annotations

from typing import Final

TURN_MESSAGES: Final = 4096
"""As many messages as one queue hands out to consumers in a turn."""

TURN_OCTETS: Final = 1024 * 1024
"""The page with so many octets is the last one of a turn."""


class PageBudget:
    """The messages and octets that are left in a turn for all readers of one partition's streams. Readers
    take turns with each other, and with consumers.
    """

    __slots__ = ("_turn", "messages", "octets")

    def __init__(self) -> None:
        self._turn = 0
        self.messages, self.octets = TURN_MESSAGES, TURN_OCTETS

    def begin(self, turn: int) -> None:
        """A page is to be made in the turn of this number."""
        if turn != self._turn:
            self._turn = turn
            self.messages, self.octets = TURN_MESSAGES, TURN_OCTETS

    @property
    def spent(self) -> bool:
        """Whether readers have to wait for the next turn."""
        return self.messages <= 0 or self.octets <= 0

    def take(self, messages: int, octets: int) -> None:
        """A page has so many messages and octets."""
        self.messages -= messages
        self.octets -= octets
