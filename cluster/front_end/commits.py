"""Commits of transactions, on the front end's side.

What touches one partition goes to its owner as a part of one operation batch, and so is one entry there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cluster.front_end.routes import Targets
from cluster.links.link import PartitionLink
from cluster.links.ports import Ranges
from node.engine.errors import NotImplementedRefusal, PreconditionFailedError, Refusal
from node.frontend.ports import Done, Outcome, Route, Settlement
from node.runs import Run


@dataclass(frozen=True, slots=True)
class Attached:
    """Where a consumer number of a front end leads."""

    link: PartitionLink
    queue: int


@dataclass(slots=True)
class Share:
    """What a transaction does in one partition: runs with their queues, and what becomes of leases."""

    publishes: list[tuple[Run, list[int]]] = field(default_factory=list)
    settled: list[tuple[int, Outcome, Ranges]] = field(default_factory=list)


Shares = dict[PartitionLink, Share]


def shares_of(
    publishes: Iterable[tuple[Run, Route]], settled: Iterable[Settlement], consumers: Mapping[int, Attached]
) -> Shares:
    """What is to be done, by partition. What a consumer had that is gone with its channel is its queue's."""
    shares: Shares = {}
    for run, route in publishes:
        assert isinstance(route, Targets)
        route.flow.routed += run.count * route.queues
        for link, queues in route.links:
            shares.setdefault(link, Share()).publishes.append((run, queues))
    for consumer, first, last, outcome in settled:
        attached = consumers.get(consumer)
        if attached is not None:
            share = shares.setdefault(attached.link, Share())
            share.settled.append((attached.queue, outcome, [(first, last)]))
    return shares


class Commits:
    """Carries out the commits of a front end's sessions."""

    def commit(self, shares: Shares, answer: Done) -> None:
        """Answers without a refusal once everything is durable; else nothing has been done, and what was
        leased is given back to its queues.
        """
        if not shares:
            answer(None)
        elif any(link.unreachable for link in shares):
            # Nobody could say when it will be safe.
            self._refuse(shares, PreconditionFailedError("partial tx completion"), answer)
        elif len(shares) == 1:
            ((link, share),) = shares.items()
            do_at_once(link, share, lambda: answer(None))
        else:
            self._refuse(shares, NotImplementedRefusal("queues in several partitions"), answer)

    def _refuse(self, shares: Shares, refusal: Refusal, answer: Done) -> None:
        for link, share in shares.items():
            give_back(link, share.settled)
        answer(refusal)


def do_at_once(link: PartitionLink, share: Share, committed: Callable[[], None]) -> None:
    """Put everything into the batch of this turn, which one entry takes as a whole."""
    for run, queues in share.publishes:
        link.publish(run, queues, None)
    for queue, outcome, ranges in share.settled:
        match outcome:
            case Outcome.ACCEPTED:
                for first, last in ranges:
                    link.settle(queue, first, last)
            case Outcome.REJECTED:
                link.discard(queue, ranges)
            case Outcome.RETURNED:
                link.give_back(queue, ranges, failed=True)
    link.when_committed(committed)


def give_back(link: PartitionLink, settled: Iterable[tuple[int, Outcome, Ranges]]) -> None:
    """The transaction has not happened: its client had the messages, and has not settled them."""
    for queue, _, ranges in settled:
        link.give_back(queue, ranges, failed=True)
