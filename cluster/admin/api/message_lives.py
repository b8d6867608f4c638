"""The life of a message as the logs of all its partitions tell it (requirement X8): asks nodes with replicas,
and follows the message from partition to partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.admin.api.explain_answers import DIGESTS, EXPLAIN
from cluster.admin.inquiry import Inquiry
from node.queue.events import Happened, Lead, LeadKind, Occurrence, read_lead

MOST_PLACES: Final = 32
"""A message is followed through so many places at most: a dead letter may go in a circle for ever."""


class NoAnswerError(Exception):
    """No node with a replica of the partition has answered. `busy`: one has, and had no time."""

    def __init__(self, partition: int, busy: bool) -> None:
        super().__init__(f"no node with partition {partition} {'has time' if busy else 'answers'}")


@dataclass(frozen=True, slots=True)
class Life:
    """The life of a message in one partition. `number` is its number there, 0 where that is not known;
    `between` are the numbers of which it may have one. `omitted` counts events in the middle that are left
    out. `now` and `oldest` are by queue.
    """

    partition: int
    node: str
    owned: bool
    number: int
    between: tuple[int, int] | None
    events: list[Occurrence]
    leads: list[Lead]
    digests: dict[int, str]
    now: dict[int, Mapping[str, Any]]
    oldest: dict[int, int | None]
    unborn: bool = False
    omitted: int = 0

    @property
    def queues(self) -> list[int]:
        """The queues into which the message came."""
        published = (one for one in self.events if one.happened is Happened.PUBLISHED)
        return [queue for one in published for queue in one.facts["queues"]]

    @property
    def known(self) -> bool:
        """Whether an entry tells of the message."""
        return any(one.happened is not Happened.LOST_TRACK for one in self.events)


Replicas = Callable[[int], Sequence[str]]
"""The nodes with a replica of a partition: the owner's first."""


class Lives:
    """Asks for lives. Methods raise NoAnswerError."""

    def __init__(self, inquiry: Inquiry, replicas: Replicas) -> None:
        self._inquiry, self._replicas = inquiry, replicas

    async def chain(self, lead: Lead) -> list[Life]:
        """The message's life in the partition of the lead, and behind it those in the places to which it has
        gone from there.
        """
        lives: list[Life] = []
        waiting, followed = [lead], set[tuple[int, LeadKind, int, int]]()
        while waiting and len(lives) < MOST_PLACES:
            asked = waiting.pop(0)
            if asked[:4] in followed:
                continue
            life = await self.tell(asked)
            # The other partitions of a transaction lead back to this one.
            transactions = (one for one in life.leads if one.kind is LeadKind.TRANSACTION)
            followed.update(one._replace(partition=life.partition)[:4] for one in transactions)
            place = Lead(life.partition, LeadKind.NUMBER, life.number)[:4]
            if asked.kind is not LeadKind.NUMBER and life.number and place in followed:
                continue
            followed |= {asked[:4], place}
            lives.append(life)
            waiting += life.leads
        return lives

    async def tell(self, lead: Lead) -> Life:
        """The message's life in one partition."""
        node, told = await self._first_answer(EXPLAIN, lead.partition, {"lead": tuple(lead)})
        return life_of(lead.partition, node, told)

    async def digests(self, partition: int) -> dict[str, Mapping[str, Any]]:
        """The digests of a partition's replicas, by node, after the last entry that all of them have applied.
        Each replica computes its own from its log.
        """
        replicas = self._replicas(partition)
        argument = {"partition": partition, "index": 0}
        heads = {node: await self._answer(node, DIGESTS, argument) for node in replicas}
        indexes = [head["index"] for head in heads.values() if head is not None and "index" in head]
        if not indexes:
            return {}
        argument["index"] = min(indexes)
        found = {node: await self._answer(node, DIGESTS, argument) for node in replicas}
        return {node: one for node, one in found.items() if one is not None and "index" in one}

    async def _first_answer(
        self, question: str, partition: int, argument: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any]]:
        busy = False
        for node in self._replicas(partition):
            answer = await self._answer(node, question, argument)
            if answer is not None and not answer.keys() & {"busy", "damaged"}:
                return node, answer
            busy = busy or (answer is not None and "busy" in answer)
        raise NoAnswerError(partition, busy)

    async def _answer(self, node: str, question: str, argument: Mapping[str, Any]) -> Any:
        """The node's answer, once its walk has come to the end."""
        answer = await self._inquiry.ask(node, question, argument)
        while answer is not None and "walk" in answer:
            answer = await self._inquiry.ask(node, question, {**argument, "walk": answer["walk"]})
        return answer


def life_of(partition: int, node: str, told: Mapping[str, Any]) -> Life:
    """A node's answer."""
    if "unborn" in told:
        return Life(partition, node, told["active"], 0, None, [], [], {}, {}, {}, unborn=True)
    events = [Occurrence(*one)._replace(happened=Happened(one[0])) for one in told["events"]]
    between = told["between"]
    return Life(
        partition,
        node,
        told["active"],
        told["number"],
        None if between is None else (between[0], between[1]),
        events,
        [read_lead(one) for one in told["leads"]],
        dict(told["digests"]),
        dict(told["now"]),
        dict(told["oldest"]),
        omitted=told["omitted"],
    )


def owner_first(owner: str | None, replicas: Iterable[str], running: Iterable[str]) -> list[str]:
    """The running nodes with a replica, the owner's first."""
    there = [one for one in replicas if one in set(running)]
    return sorted(there, key=lambda one: one != owner)
