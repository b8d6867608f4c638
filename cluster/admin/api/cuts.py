"""Consistent cuts: positions in the logs of partitions such that what is in front of one of them has its
causes in front of the others (X9). `cluster.owner.cuts` says why.

The node that a client asks has all nodes begin the cut, and end it. Each node answers for the partitions that
it owns.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from cluster.admin.inquiry import ANSWER_TIMEOUT_S, Inquiry
from cluster.admin.views import OwnedPartition
from cluster.owner.cuts import Position

OfOwner = TypeVar("OfOwner")

BEGIN_CUT: Final = "management.begin_cut"
END_CUT: Final = "management.end_cut"

OWNERS_ANSWER_S: Final = 0.8 * ANSWER_TIMEOUT_S
"""Seconds that owners may take to answer, so that the node still answers in time for those that have."""


class CutError(Exception):
    """Not every owner has held still until the end of the cut."""


@dataclass(frozen=True, slots=True)
class CutAnswers:
    """One node's answers. `owners` are its replicas by partition; `wanted` asks for a turn."""

    owners: Mapping[int, OwnedPartition]
    wanted: Callable[[], None]

    async def begin(self, argument: Mapping[str, Any]) -> list[Position]:
        """The positions in the partitions that this node owns, of those that the cut goes through."""
        positions: list[asyncio.Future[Position]] = []
        for owner in self._owned(argument["partitions"]):
            positions.append(position := asyncio.get_running_loop().create_future())
            owner.begin_cut(argument["cut"], position.set_result)
        return await self._told(positions)

    async def end(self, argument: Mapping[str, Any]) -> list[tuple[int, int]]:
        """(partition, term) of the owners that have held still."""
        held: list[asyncio.Future[tuple[int, int]]] = []
        for owner in self._owned(argument["partitions"]):
            held.append(one := asyncio.get_running_loop().create_future())
            owner.end_cut(argument["cut"], partial(one.set_result, (owner.partition, owner.term)))
        return await self._told(held)

    def _owned(self, partitions: Collection[int]) -> list[OwnedPartition]:
        return [self.owners[one] for one in partitions if one in self.owners and self.owners[one].active]

    async def _told(self, asked: Collection[asyncio.Future[OfOwner]]) -> list[OfOwner]:
        """The answers of the owners that give one in time."""
        self.wanted()
        if not asked:
            return []
        told, _ = await asyncio.wait(asked, timeout=OWNERS_ANSWER_S)
        return [one.result() for one in told]


async def take_cut(inquiry: Inquiry, partitions: Collection[int]) -> list[tuple[str, Position]]:
    """A consistent cut through these partitions: the positions with the nodes that own the partitions,
    by partition. Owners propose nothing meanwhile, for a second at most. Raises CutError.
    """
    argument = {"cut": secrets.randbits(62), "partitions": sorted(partitions)}
    try:
        begun = await inquiry.ask_all(BEGIN_CUT, argument)
    finally:
        ended = await inquiry.ask_all(END_CUT, argument)
    held = {(node, *one) for node, told in ended.items() for one in map(tuple, told)}
    found = {
        position.partition: (node, position)
        for node, told in begun.items()
        for position in (Position(*one) for one in told)
        if (node, position.partition, position.term) in held
    }
    missing = sorted(set(partitions) - found.keys())
    if missing:
        raise CutError(f"no owner held partitions {', '.join(map(str, missing))}")
    return [found[one] for one in sorted(found)]
