"""The targets of a queue as its owner knows them: by which link each is attached, ahead of the log, and when
the time of those is over that no link has attached. Soft state (`node.queue.targets`). Among them stand the
consumers of links on which clients receive (`cluster.owner.attached_links`).
"""

from __future__ import annotations

from typing import Final

from node.delivery.link_terms import SOURCE, link_terms
from node.queue.queue import QueueState
from node.queue.targets import NO_LINK, TargetStep, UpdateTarget
from node.ranges.range_map import ABOVE_ALL

TARGETS_OCTETS: Final = 16 * 1024 * 1024
"""The octets of memory from which on a queue keeps no further target."""


class AttachedTargets:
    """See the module's docstring. The owner asks `takes` for each step of a front end, and puts the steps
    that are taken into the log in the order of the calls.
    """

    __slots__ = ("_attached", "_changed", "_deadlines", "_links", "_lost", "_state", "any")

    def __init__(self, state: QueueState) -> None:
        self._state = state
        targets = [] if state.targets is None else state.targets.all()
        self._attached = {one.link.identity: one.attached for one in targets}
        self._links = {one.link.identity: one.link for one in targets}
        # The times at which targets are gone that no link has attached, in milliseconds.
        self._deadlines: dict[bytes, int] = {}
        self._lost: set[int] = set()
        self._changed = self.any = bool(targets)
        """Whether the queue has a target."""

    def has_room(self, identity: bytes) -> bool:
        """Whether the queue has a target for this link, or memory for another target."""
        targets = self._state.targets
        return identity in self._attached or targets is None or targets.octets < TARGETS_OCTETS

    def attached_by(self, identity: bytes) -> tuple[int, int]:
        """The front end by which the target of a link is attached, and the number there."""
        return self._attached.get(identity, NO_LINK)

    def sources_of(self, front_end: int) -> dict[int, bytes]:
        """The links of a front end's consumers, as the log has them, by the numbers of the consumers."""
        found = [(each, one[1]) for each, one in self._attached.items() if one[0] == front_end]
        return {number: self._links[each].encode() for each, number in found if each[:1] == SOURCE}

    def takes(self, step: UpdateTarget) -> bool:
        """Whether the link of a step has its target. The step counts from now on."""
        link = link_terms(step.link)
        if step.step is TargetStep.ATTACHED:
            self._links[link.identity] = link
        elif self._attached.get(link.identity) != (step.front_end, step.number):
            return False
        if step.step in (TargetStep.RECEIVED, TargetStep.SETTLED, TargetStep.COMMITTED):
            return True
        if step.step is TargetStep.CLOSED:
            del self._attached[link.identity], self._links[link.identity]
        elif step.step is TargetStep.ATTACHED:
            self._attached[link.identity] = step.front_end, step.number
            self._deadlines.pop(link.identity, None)
        elif step.step is TargetStep.DETACHED:
            self._attached[link.identity] = NO_LINK
        self._changed, self.any = True, bool(self._attached)
        return True

    def lost(self, front_end: int) -> None:
        """A front end cannot be reached: its links are lost, unless the front end comes back in time."""
        self._lost.add(front_end)
        self._changed = self._changed or self.any

    def back(self, front_end: int) -> None:
        """The front end has greeted."""
        self._lost.discard(front_end)
        self._changed = self._changed or self.any

    def forget(self, front_end: int) -> None:
        """The front end is dead for good, and the owner puts that into the log."""
        gone = [identity for identity, attached in self._attached.items() if attached[0] == front_end]
        self._attached.update(dict.fromkeys(gone, NO_LINK))
        self._changed = self._changed or bool(gone)
        self._lost.discard(front_end)

    def overdue(self, queue: int, now: int) -> list[UpdateTarget]:
        """Close the targets whose time is over, and the links of consumers at front ends that are dead; `now`
        is in milliseconds since the epoch. The owner puts the steps into the log.
        """
        if not self._changed and now < self.wake:
            return []
        self._changed = False
        found, waiting = list[UpdateTarget](), dict[bytes, int]()
        for identity, attached in list(self._attached.items()):
            link, ended = self._links[identity], identity[:1] == SOURCE and not attached[0]
            if not (link.kept_s or ended) or (attached[0] and attached[0] not in self._lost):
                continue
            deadline = self._deadlines.get(identity, now + link.kept_s * 1000)
            if deadline > now and not ended:
                waiting[identity] = deadline
                continue
            closed = UpdateTarget(queue, *attached, TargetStep.CLOSED, link.encode())
            if self.takes(closed):
                found.append(closed)
        self._deadlines = waiting
        return found

    @property
    def wake(self) -> int:
        """The time at which the time of a target is over, in milliseconds since the epoch; far ahead if there
        is none.
        """
        return min(self._deadlines.values(), default=ABOVE_ALL)
