"""When an owner gives up front ends that it cannot reach, with what their consumers had. Pure.

A former owner with a lease may still give them more (docs/decisions/0015-leases.md): none is given up before
no such lease holds any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.owner.context import OwnerContext
from cluster.owner.state import OwnerState


class LostFrontEnds:
    """Front ends that are out of reach of one owner, and wait to be given up."""

    def __init__(self, owner: OwnerState, context: OwnerContext, give_up: Callable[[int], None]) -> None:
        """`give_up` gives back to the queues what a front end's consumers had."""
        self._owner = owner
        self._context = context
        self._give_up = give_up
        self._lost: set[int] = set()
        self._given_up: set[int] = set()
        """Those that the owner has given up, and that may come back without having noticed."""

    def take_over(self, attached: Iterable[int]) -> None:
        """This node has become the owner; `attached` may have had messages of former owners."""
        self._lost = {one for one in attached if not self._context.front_ends.alive(one)}
        self._given_up.clear()
        self.tick()

    def lost(self, front_end: int) -> None:
        """The front end cannot be reached."""
        self._lost.add(front_end)
        self.tick()

    def tick(self) -> bool:
        """Give up those that have not come back meanwhile; whether any may be given up."""
        allowed = self._owner.active and self._context.former_leases_over(self._owner.partition)
        if self._lost and allowed:
            lost, self._lost = self._lost, set()
            for front_end in sorted(lost):
                if not self._context.front_ends.alive(front_end):
                    self._give_up(front_end)
                    self._given_up.add(front_end)
        if self._given_up and self._owner.active:
            self._welcome()
        return allowed

    def _welcome(self) -> None:
        """Ask those that are there again to greet: a front end whose own words were heard all the time, and
        that nothing was sent to meanwhile, takes its last greeting for good.
        """
        front_ends = self._context.front_ends
        for front_end in sorted(self._given_up):
            there = front_ends.alive(front_end)
            if there or front_ends.dead(front_end):
                self._given_up.discard(front_end)
            port = front_ends.port(self._owner.partition, front_end) if there else None
            if port is not None and self._owner.front_ends.current(front_end) is None:
                port.resync()
