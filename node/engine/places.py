"""Where each message of a queue is, as its owner knows it. Soft state, rebuilt by every new owner.

Places of a message that the queue still needs:

    place      leaves by                  to
    ready      dispatch                   leased, or removing (lease of OWNER)
    leased     settle                     gone
               release, lost_front_end    ready
    removing   settle(OWNER, ...)         gone
    held       reattached                 leased
               release, release_held      ready
    ready      purge                      gone

`held` is what may be leased to somebody whom a new owner has not heard of yet (design rule 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from node.engine.by_group import ReadyByGroup
from node.engine.by_priority import ReadyByPriority
from node.engine.grants import Settled
from node.engine.lifetimes import Lifetimes
from node.engine.operations import OWNER, Aspect, Semantics
from node.engine.queue import QueueState
from node.engine.ranges import Range, RangeSet
from node.engine.ready import Annotations, Ready, arrange
from node.engine.settings import PLAIN, QueueSettings
from node.engine.soft import SoftMessages
from node.engine.tally import Tally
from node.runs import Run

UNKNOWN: Final = 0
"""The number of no consumer."""


class Places:
    """Ready, leased and held messages; `groups` is `ready` where that keeps order by key, else None."""

    __slots__ = (
        "annotations", "granted", "groups", "held", "leases", "lifetimes", "ready", "redelivered",
        "settings", "soft", "state", "tally",
    )  # fmt: skip

    def __init__(self, state: QueueState, settings: QueueSettings) -> None:
        self.state = state
        self.settings = settings
        self.soft = SoftMessages()
        self.annotations = Annotations(state.annotations, self.soft.values)
        self.ready: Ready = arrange(settings, self.annotations, state.alive.copy())
        self.groups = self.ready if isinstance(self.ready, ReadyByGroup) else None
        self.held = RangeSet()
        self.leases: dict[int, RangeSet] = {}
        self.redelivered = state.returned.copy()
        self.lifetimes: Lifetimes | None = None
        self.tally = Tally()
        # The newest message that was ever given out.
        self.granted = 0
        if state.annotations:
            self._note_annotations(0, state.alive.last or 0)

    def configure(self, settings: QueueSettings) -> None:
        """The queue's settings have become known."""
        self.settings = settings
        self.ready = arrange(settings, self.annotations, RangeSet(self.ready.ranges()))
        self.groups = self.ready if isinstance(self.ready, ReadyByGroup) else None
        for front_end, lease in self.leases.items():
            for part in lease.ranges():
                self.bind_groups(front_end, *part)

    # -- messages come --------------------------------------------------------------------------

    def append(self, first: int, last: int) -> None:
        """Messages that an entry appended are ready, unless the same entry removed them again."""
        self.tally.published += last - first + 1
        if self.settings is PLAIN:
            self.ready.add(first, last)
        else:
            for part in self.state.alive.intersection(first, last):
                self.ready.add(*part)
        if self.state.annotations:
            self._note_annotations(first, last)

    def _note_annotations(self, first: int, last: int) -> None:
        """Take notice of what was decided about messages that are new here."""
        expiries = self.state.annotations.get(Aspect.EXPIRY)
        if expiries is not None:
            for span in expiries.spans(first, last):
                self.note_expiry(*span)

    def note_expiry(self, first: int, last: int, expiry: int) -> None:
        """The messages are to go at a time: milliseconds since the epoch, or `lifetimes.AT_ONCE`."""
        if self.lifetimes is None:
            self.lifetimes = Lifetimes()
        self.lifetimes.add(first, last, expiry)

    @property
    def attended(self) -> bool:
        """Whether anything in the queue asks for more than to be stored and delivered."""
        return self.settings is not PLAIN or self.lifetimes is not None

    def add_soft(self, first: int, run: Run) -> None:
        """Messages that are in no log are ready. Their numbers come from the partition's sequence.

        They are gone with this owner: the next one must number above them, or a late settlement
        of one of these would hit another message.
        """
        self.tally.published += run.count
        self.soft.add(first, run)
        self.ready.add(first, first + run.count - 1)

    # -- leases ---------------------------------------------------------------------------------

    @property
    def leased_count(self) -> int:
        """Messages given to consumers and not settled."""
        return sum(map(len, self.leases.values()))

    def bind_groups(self, front_end: int, first: int, last: int) -> None:
        """Messages are with a front end, which does not say with which of its consumers."""
        if self.groups is not None:
            self.groups.take((front_end, UNKNOWN), first, last)

    def lease_of(self, front_end: int) -> RangeSet:
        lease = self.leases.get(front_end)
        if lease is None:
            lease = self.leases[front_end] = RangeSet()
        return lease

    def settle(self, front_end: int, first: int, last: int) -> Settled:
        """The front end is done with messages that it was given.

        Also one whose lease was lost meanwhile may settle: the message has been processed. On an
        at-most-once queue only the owner's own removal settles; what consumers say later changes
        nothing.
        """
        if front_end != OWNER and self.state.semantics is Semantics.AT_MOST_ONCE:
            return Settled(0, [])
        lease = self.leases.get(front_end)
        count = lease.remove(first, last) if lease is not None else 0
        if self.groups is not None:
            self.groups.done(first, last)
        if self.redelivered:
            self.redelivered.remove(first, last)
        if self.lifetimes is not None:
            self.lifetimes.remove(first, last)
        if count == last - first + 1 and not self.soft:
            return Settled(count, [(first, last)])
        if count != last - first + 1:
            count += self.ready.remove(first, last) + self.held.remove(first, last)
        if self.soft:
            self.soft.remove(first, last)
        return Settled(count, self.state.alive.intersection(first, last))

    def release(self, front_end: int, first: int, last: int, redelivered: bool = True) -> int:
        """What the front end has leased of the range is ready again, in its place; return how many.

        Also what is held: only who had it can give it back. `redelivered` is False for messages
        that never reached a consumer; they are marked nevertheless once newer ones were granted.
        """
        places = (self.leases.get(front_end), self.held)
        return sum(
            self.give_back(place, place.intersection(first, last), redelivered) for place in places if place
        )

    def release_unheld(self, front_end: int, held: Sequence[Range]) -> None:
        """The front end says that it has only `held`: what else it was given has reached nobody."""
        lease = self.leases.get(front_end)
        if not lease:
            return
        unheld = lease.copy()
        unheld.remove_all(held)
        for first, last in list(unheld.ranges()):
            self.release(front_end, first, last, redelivered=False)

    def give_back(self, place: RangeSet, parts: list[Range], redelivered: bool) -> int:
        count = 0
        # Newer ones were handed out meanwhile: only a redelivered message may come after them (0-9-1 §4.7).
        redelivered = redelivered or (bool(parts) and parts[-1][1] < self.granted)
        for part in parts:
            place.remove(*part)
            if self.groups is not None:
                self.groups.done(*part)
            # Somebody else may have settled it meanwhile.
            for first, last in self.state.alive.intersection(*part) + self.soft.numbers.intersection(*part):
                count += self.ready.add(first, last)
                if redelivered:
                    self.redelivered.add(first, last)
                if self.lifetimes is not None:
                    self.lifetimes.came_back(first, last)
        return count

    def purge(self) -> Settled:
        """Remove all that is ready, not what is leased or held: (how many, what a PURGE must name)."""
        count = len(self.ready)
        return Settled(count, [part for one in list(self.ready.ranges()) for part in self.take_out(*one)])

    def take_out(self, first: int, last: int) -> list[Range]:
        """Ready messages, all of the range, leave the queue; returns what the log must hear of."""
        self.ready.remove(first, last)
        self.redelivered.remove(first, last)
        self.soft.remove(first, last)
        if self.lifetimes is not None:
            self.lifetimes.remove(first, last)
        return self.state.alive.intersection(first, last)

    def victims(self) -> Range | None:
        """What a limit on the queue's length discards next: of the lowest priority (A20), the oldest."""
        ready = self.ready
        return ready.lowest() if isinstance(ready, ReadyByPriority) else ready.front()
