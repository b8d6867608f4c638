"""Asks the nodes with replicas of a stream, or of a queue with takes, for plans and blocks (docs/log-api.md):
followers first, so that reading spares the owner.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from cluster.admin.api.errors import ApiError
from cluster.admin.api.log_answers import LOG_PLAN, LOG_READ, TAKE_PLAN
from cluster.admin.api.responses import CutShortError
from cluster.admin.inquiry import Inquiry
from cluster.catalog.definitions import QueueDefinition
from cluster.owner.log_plan import Wish
from cluster.owner.log_reading import NamedTake
from node.message.bookmarks import bookmark_of

POSITION_GONE: Final = 410
NOT_APPLIED: Final = 409
NO_REPLICA: Final = 503

_REASONS: Final = {
    "behind": (NOT_APPLIED, "not_applied", "no replica that answers has applied the range yet"),
    "busy": (NO_REPLICA, "service_unavailable", "too many readers at once: ask again"),
    "over": (POSITION_GONE, "gone", "the take is committed, or has ended"),
    "damaged": (NO_REPLICA, "service_unavailable", "a replica mends its journal: ask again"),
}


class LogReplicas:
    """The replicas of one stream, or of one take of a queue. Methods raise ApiError."""

    def __init__(
        self, inquiry: Inquiry, queue: QueueDefinition, nodes: Sequence[str], take: NamedTake | None = None
    ) -> None:
        """`nodes`: those with a replica that run, the one to ask first in front."""
        self._inquiry, self._queue, self._nodes = inquiry, queue, nodes
        self._asked: Mapping[str, Any] = {
            "partition": queue.partition,
            "queue": queue.id,
            **({} if take is None else {"take": tuple(take)}),
        }

    async def plan(self, wish: Wish) -> tuple[str, Mapping[str, Any]]:
        """The owner, and its plan."""
        argument = {
            **self._asked,
            "between": [tuple(wish.first), tuple(wish.end)],
            "limits": [*wish.limits],
            "count": wish.first_count,
        }
        return await self._planned(LOG_PLAN, argument)

    async def plan_take(self, first: int, end: int, range_octets: int) -> list[tuple[int, int, int, int]]:
        """The ranges of the take between two positions: first, end, messages and octets of each."""
        argument = {**self._asked, "between": (first, end), "range_octets": range_octets}
        _, plan = await self._planned(TAKE_PLAN, argument)
        return [(first, end, rows, octets) for first, end, rows, octets in plan["ranges"]]

    async def _planned(self, question: str, argument: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        refusals: list[Mapping[str, Any]] = []
        for node in self._nodes:
            answer = await self._inquiry.ask(node, question, argument)
            if answer is not None and "refused" not in answer:
                return node, answer
            refusals += [answer] if answer is not None else []
        raise self._refusal(refusals)

    async def blocks(self, first: int, end: int, filter: bytes = b"") -> AsyncIterator[tuple[int, bytes]]:
        """The blocks of a range, some at a time, or a slice of a large one, each with the position to go on
        at. `filter`: the octets of a selector; empty for all messages. Raises CutShortError in the middle of
        a block.
        """
        node, asked = "", {**self._asked, "end": end, **({"filter": filter} if filter else {})}
        within = 0
        while first < end:
            question = {**asked, "first": first, "within": within}
            if within:
                answer = await self._read_on(node, question)
            else:
                node, answer = await self._read(node, question)
            # A node of the release before knows no slices.
            first, within = answer["next"], answer.get("within", 0)
            yield first, answer["blocks"]

    async def _read_on(self, node: str, argument: Mapping[str, Any]) -> Mapping[str, Any]:
        """The next slice of a block. No other node goes on with it: there the same message may be stored in
        another way.
        """
        answer: Mapping[str, Any] | None = await self._inquiry.ask(
            node, LOG_READ, {**argument, "sparing": False}
        )
        if answer is None or "within" not in answer:
            raise CutShortError(f"node {node} does not go on with the block of message {argument['first']}")
        return answer

    async def _read(self, node: str, argument: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The next blocks, of the node that has told the ones before if possible."""
        refusals: list[Mapping[str, Any]] = []
        sparing = [(one, True) for one in self._nodes]
        owners = [(one, False) for one in self._nodes]
        for asked, spare in [*([(node, False)] if node else []), *sparing, *owners]:
            answer = await self._inquiry.ask(asked, LOG_READ, {**argument, "sparing": spare})
            if answer is not None and "refused" not in answer:
                return asked, answer
            refusals += [answer] if answer is not None else []
            if answer is not None and answer["refused"] in ("gone", "over"):
                break
        raise self._refusal(refusals)

    def _refusal(self, refusals: Sequence[Mapping[str, Any]]) -> ApiError:
        """The answer where no replica has given one."""
        told = {one["refused"]: one for one in refusals}
        if "gone" in told:
            return self._gone(told["gone"])
        if "ahead" in told:
            end = bookmark_of(self._queue.id, told["ahead"]["end"])
            return ApiError(
                400, "bad_request", f"the position is behind the end of the stream, {end}", end=end
            )
        for refused, (status, error, reason) in _REASONS.items():
            if refused in told:
                return ApiError(status, error, reason)
        return ApiError(NO_REPLICA, "service_unavailable", "no node with the stream answers: ask again")

    def _gone(self, told: Mapping[str, Any]) -> ApiError:
        """The answer where retention has passed a position. A node of the release before tells no number."""
        oldest, most = told["oldest"], told.get("lost")
        bookmark = None if oldest is None else bookmark_of(self._queue.id, oldest)
        has = "it has no message" if bookmark is None else f"the oldest is {bookmark}"
        lost = most if told.get("exact") else None
        count = f"{lost} messages" if lost is not None else "messages"
        reason = f"{count} behind the position have left stream '{self._queue.name}': {has}"
        facts = {"oldest": bookmark, "lost": lost, "lost_at_most": most}
        return ApiError(POSITION_GONE, "gone", reason, **facts)
