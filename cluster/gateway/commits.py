"""Commits of transactions, on the front end's side.

What touches one partition is one entry there; what touches several is committed in two phases (see
`docs/decisions/0010-transactions.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from cluster.catalog.definitions import PartitionKind
from cluster.catalog.state import CatalogState
from cluster.gateway.link import PartitionLink
from cluster.gateway.routes import Targets
from cluster.gateway.state import Vote
from cluster.peers.ports import Ranges
from node.delivery.settlements import Outcome, Settlement
from node.message.run import Run
from node.queue.operation_format import Buffer, encode_discard, encode_publish, encode_return, encode_settle
from node.queue.operations import TransactionKey
from node.queue.transaction_format import encode_conclude, encode_decide, encode_end, encode_prepare
from node.refusal import PreconditionFailedError, Refusal
from node.session.ports import Done, Route


@dataclass(frozen=True, slots=True)
class Attached:
    """Where a consumer number of a front end leads."""

    link: PartitionLink
    queue: int

    def still_with(self, consumer: int, ranges: Ranges) -> Ranges:
        """Those of the messages that no other consumer here was given since; `consumer` is the number."""
        latest = self.link.latest
        return ranges if latest is None else latest.still_with(self.queue, consumer, ranges)


@dataclass(slots=True)
class Share:
    """What a transaction does in one partition: runs with their queues, and what becomes of leases."""

    publishes: list[tuple[Run, list[int]]] = field(default_factory=list)
    settled: list[tuple[int, Outcome, Ranges]] = field(default_factory=list)

    def operations(self) -> list[Buffer]:
        """As parts to join."""
        parts = [part for run, queues in self.publishes for part in encode_publish(run, queues)]
        gathered: dict[tuple[int, Outcome], Ranges] = {}
        for queue, outcome, ranges in self.settled:
            gathered.setdefault((queue, outcome), []).extend(ranges)
        parts += (_encode_settled(*one, ranges) for one, ranges in gathered.items())
        return parts

    def leases(self) -> list[tuple[int, int, int]]:
        """What it settles: (queue, first, last)."""
        return [(queue, *one) for queue, _, ranges in self.settled for one in ranges]


def _encode_settled(queue: int, outcome: Outcome, ranges: Ranges) -> bytes:
    match outcome:
        case Outcome.ACCEPTED:
            return encode_settle(queue, ranges)
        case Outcome.REJECTED:
            return encode_discard(queue, ranges)
        case Outcome.RETURNED:
            return encode_return(queue, ranges, True)
        case Outcome.RELEASED:
            return encode_return(queue, ranges, False)


PartitionShares = dict[PartitionLink, Share]


def shares_of(
    publishes: Iterable[tuple[Run, Route]], settled: Iterable[Settlement], consumers: Mapping[int, Attached]
) -> PartitionShares:
    """What is to be done, by partition. What a consumer had that is gone with its channel is its queue's."""
    shares: PartitionShares = {}
    for run, route in publishes:
        assert isinstance(route, Targets)
        route.flow.routed += run.count * route.queues
        for link, queues in route.links:
            shares.setdefault(link, Share()).publishes.append((run, queues))
    for consumer, ranges, outcome in settled:
        attached = consumers.get(consumer)
        if attached is not None:
            share = shares.setdefault(attached.link, Share())
            mine = attached.still_with(consumer, ranges)
            if mine:
                share.settled.append((attached.queue, outcome, mine))
    return shares


class Commits:
    """Carries out the commits of a front end's sessions."""

    def __init__(self, front_end: int, state: CatalogState) -> None:
        self._front_end = front_end
        self._state = state
        self._last = 0

    def commit(self, shares: PartitionShares, answer: Done) -> None:
        """Answers without a refusal once everything is durable and to be seen; else nothing has been done,
        and what was leased is given back to its queues.
        """
        if not shares:
            answer(None)
        elif any(link.unreachable for link in shares):
            # Nobody could say when it will be safe.
            for link, share in shares.items():
                give_back(link, share)
            answer(incomplete())
        else:
            self._last += 1
            key = TransactionKey(self._front_end, self._last)
            Commit(key, shares, min(shares, key=self._rank), answer).begin()

    def _rank(self, link: PartitionLink) -> tuple[int, int]:
        """The lowest is the best coordinator: what loses fewest decisions, and is seldom out of reach."""
        definition = self._state.partitions.get(link.partition)
        if definition is None or definition.kind is PartitionKind.TRANSIENT:
            return 2, link.partition
        return 1 if len(definition.replicas) == 1 else 0, link.partition


class Commit:
    """One transaction, as its front end drives it (two-phase commit).

    state       what is sent             what is awaited          then
    preparing   prepare, to all but the  all votes                deciding; aborting where one is no
                coordinator
    deciding    decide, with its share,  the decision             concluding
                to the coordinator
    concluding  conclude, to all that    that they have, so that  end, to the coordinator
                are prepared             everybody sees the same

    With a single partition there is nothing but its decision. A front end that dies leaves the rest to the
    partitions (`cluster.owner.two_phase_commit`).
    """

    def __init__(
        self, key: TransactionKey, shares: PartitionShares, coordinator: PartitionLink, answer: Done
    ) -> None:
        self._key = key
        self._shares = shares
        self._coordinator = coordinator
        self._participants = [link for link in shares if link is not coordinator]
        self._prepared: list[PartitionLink] = []
        self._answer = answer
        self._waiting = 0

    def begin(self) -> None:
        """Prepare."""
        self._waiting = len(self._participants)
        for link in self._participants:
            share = self._shares[link]
            parts = encode_prepare(self._key.number, self._coordinator.partition, share.operations())
            link.transact(b"".join(parts), share.leases(), Vote(partial(self._voted, link)))
        if not self._participants:
            self._decide()

    def _voted(self, link: PartitionLink, taken: bool) -> None:
        self._waiting -= 1
        if taken:
            self._prepared.append(link)
        if self._waiting:
            return
        if len(self._prepared) == len(self._participants):
            self._decide()
        else:
            give_back(self._coordinator, self._shares[self._coordinator])
            self._conclude(False)

    def _decide(self) -> None:
        share = self._shares[self._coordinator]
        participants = [link.partition for link in self._participants]
        parts = encode_decide(self._key.number, participants, share.operations())
        self._coordinator.transact(b"".join(parts), share.leases(), Vote(self._conclude))

    def _conclude(self, committed: bool) -> None:
        self._waiting = len(self._prepared)
        for link in self._prepared:
            vote = Vote(partial(self._concluded, committed))
            link.transact(encode_conclude(self._key, committed), [], vote)
        if not self._prepared:
            self._end(committed)

    def _concluded(self, committed: bool, _: bool) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._end(committed)

    def _end(self, committed: bool) -> None:
        if self._participants:
            self._coordinator.transact(encode_end(self._key), [], Vote(_ended))
        self._answer(None if committed else incomplete())


def _ended(_: bool) -> None:
    """Nobody waits for that."""


def incomplete() -> Refusal:
    """As RabbitMQ says it, of which part has happened then; of ours nothing has."""
    return PreconditionFailedError("partial tx completion")


def give_back(link: PartitionLink, share: Share) -> None:
    """The transaction has not happened: its client had the messages, and has not settled them."""
    for queue, _, ranges in share.settled:
        link.give_back(queue, ranges, failed=True)
