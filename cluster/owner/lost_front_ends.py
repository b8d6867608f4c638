"""Gives up front ends that an owner cannot reach: their messages return to the queues. Pure.

A former owner with a leader lease may still deliver messages to such a front end
(docs/decisions/0015-leases.md): the owner waits until no former lease is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.owner.context import OwnerContext
from cluster.owner.state import OwnerState


class LostFrontEnds:
    """The front ends that one owner cannot reach, until it gives them up."""

    def __init__(self, owner: OwnerState, context: OwnerContext, give_up: Callable[[int], None]) -> None:
        """`give_up` returns the messages of a front end's consumers to their queues."""
        self._owner = owner
        self._context = context
        self._give_up = give_up
        self._lost: set[int] = set()
        self._given_up: set[int] = set()
        """Front ends that the owner has given up. One may come back without a lost connection of its own."""

    def take_over(self, attached: Iterable[int]) -> None:
        """This node has become the owner. The front ends `attached` may hold messages of former owners."""
        self._lost = {one for one in attached if not self._context.front_ends.alive(one)}
        self._given_up.clear()
        self.tick()

    def lost(self, front_end: int) -> None:
        """The front end cannot be reached: give it up, at once if that is allowed."""
        self._lost.add(front_end)
        self.tick()

    def allowed(self) -> bool:
        """Whether front ends may be given up now."""
        return self._owner.active and self._context.former_leases_over(self._owner.partition)

    def tick(self) -> None:
        """Give up the lost front ends that have not come back."""
        if self._lost and self.allowed():
            lost, self._lost = self._lost, set()
            for front_end in sorted(lost):
                if not self._context.front_ends.alive(front_end):
                    self._give_up(front_end)
                    self._given_up.add(front_end)
        if self._given_up and self._owner.active:
            self._welcome()

    def _welcome(self) -> None:
        """Have front ends that are back greet again. A front end that has not lost a message takes its last
        greeting for valid, and would not greet by itself.
        """
        front_ends = self._context.front_ends
        for front_end in sorted(self._given_up):
            there = front_ends.alive(front_end)
            if there or front_ends.dead(front_end):
                self._given_up.discard(front_end)
            port = front_ends.port(self._owner.partition, front_end) if there else None
            if port is not None and self._owner.front_ends.current(front_end) is None:
                port.resync()
