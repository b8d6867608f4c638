"""A consistent cut through the logs of all partitions. Pure.

Each owner takes a position in its log, and proposes nothing behind the position until the cut ends. So no
client learns of anything behind a position before every owner has taken its own: nothing that a client does
because of it is in front of a position. An owner that was deposed meanwhile does not confirm the cut: its
successor may have told clients of entries behind the position. (Chandy and Lamport, "Distributed Snapshots",
1985; owners that hold still stand for the recorded channels.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from cluster.owner.proposal import Cut
from cluster.owner.state import OwnerState

CUT_S: Final = 1.0
"""Seconds that an owner holds still at most. Then it goes on, and confirms the cut no more."""


class Position(NamedTuple):
    """In the log of a partition: in front are the entries up to the index `entry`, and the messages up to the
    number `message`. `term` is that of the owner.
    """

    partition: int
    term: int
    entry: int
    message: int


def begin_cut(owner: OwnerState, number: int, reached: Callable[[Position], None]) -> None:
    """Begin the cut of this number: propose no more. `reached` gets the position once the log is
    applied up to it, unless the owner is lost, or takes part in another cut.
    """
    if owner.cut is not None:
        return
    owner.cut = Cut(number, owner.now + CUT_S)
    at_position = partial(_at_position, owner, number, owner.last_proposed, reached)
    if owner.last_proposed > owner.machine.applied_index:
        owner.waiters.append((owner.last_proposed, at_position))
    else:
        at_position()


def _at_position(owner: OwnerState, number: int, index: int, reached: Callable[[Position], None]) -> None:
    if owner.cut is not None and owner.cut.number == number:
        reached(Position(owner.partition, owner.term, index, owner.machine.next_sequence - 1))


def end_cut(owner: OwnerState, number: int, confirmed: Callable[[], None]) -> None:
    """End the cut of this number: propose again. `confirmed` is called if the owner has held still until now,
    once a majority has confirmed that the owner leads.
    """
    if owner.cut is None or owner.cut.number != number:
        return
    owner.cut = None
    owner.wake()
    owner.linearizable_reads.when_confirmed(confirmed)


def lapse(owner: OwnerState) -> None:
    """Go on without the end of a cut that does not come."""
    if owner.cut is not None and owner.now >= owner.cut.until:
        owner.cut = None
        owner.wake()
