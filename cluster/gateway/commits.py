"""Commits of transactions, on the front end's side.

A transaction in one partition is one operation there. A transaction in several partitions is committed in two
phases (`docs/decisions/0010-transactions.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from cluster.catalog.definitions import PartitionKind
from cluster.catalog.membership.formats import Formats
from cluster.catalog.state import CatalogState
from cluster.gateway.link import PartitionLink
from cluster.gateway.routes import Targets
from cluster.gateway.state import Vote
from cluster.gateway.targets import FrontEndTargets
from cluster.peers.link_messages import Ranges
from node.delivery.backlog import NO_BACKLOG
from node.delivery.settlements import Outcome, Settlement, attached_as, token_of
from node.message.run import Run
from node.queue.decision_format import encode_target
from node.queue.entry_format import Buffer, encode_discard, encode_publish, encode_return, encode_settle
from node.queue.targets import UpdateTarget
from node.queue.transaction_format import encode_conclude, encode_decide, encode_end, encode_prepare
from node.queue.transaction_operations import MOVES, TransactionKey
from node.refusal import PreconditionFailedError, Refusal
from node.session.ports import Done


@dataclass(slots=True)
class Attached:
    """The link and the queue of a consumer number of a front end. `for_link`: the queue keeps the consumer's
    messages for its link (`node.queue.link_leases`). `no_ack`: the consumer does not acknowledge. `asked` is
    the backlog that the consumer asks for, and `backlog` the one that it has (`cluster.gateway.backlogs`).
    `replacing`: its owner is told other terms, and it gets no credit before the owner has answered.
    """

    link: PartitionLink
    queue: int
    for_link: bool = False
    no_ack: bool = True
    asked: int = NO_BACKLOG
    backlog: int = NO_BACKLOG
    replacing: bool = False

    def under(self, lease: int, ranges: Ranges) -> Ranges:
        """The messages that no client of this front end has got since they came under the lease `lease`
        (`node.delivery.settlements.TOKEN_SHIFT`).
        """
        return self.link.held.under(self.queue, lease, ranges)


@dataclass(slots=True)
class Share:
    """A transaction's part in one partition: runs with their queues, settlements as (queue, outcome, token,
    annotations, messages), and the steps of targets whose deliveries the runs have come in.
    """

    publishes: list[tuple[Run, list[int]]] = field(default_factory=list)
    settled: list[tuple[int, Outcome, int, bytes, Ranges]] = field(default_factory=list)
    received: list[UpdateTarget] = field(default_factory=list)

    def operations(self) -> list[Buffer]:
        """The encoded operations, as parts to join."""
        parts: list[Buffer] = [encode_target(step) for step in self.received]
        parts += [part for run, queues in self.publishes for part in encode_publish(run, queues)]
        gathered: dict[tuple[int, Outcome, int, bytes], Ranges] = {}
        for queue, outcome, token, told, ranges in self.settled:
            gathered.setdefault((queue, outcome, token, told), []).extend(ranges)
        parts += (_encode_settled(*one, ranges) for one, ranges in gathered.items())
        return parts

    def leases(self) -> list[tuple[int, int, int]]:
        """The leases that the share settles: (queue, first, last)."""
        return [(queue, *one) for queue, *_, ranges in self.settled for one in ranges]


def _encode_settled(queue: int, outcome: Outcome, token: int, annotations: bytes, ranges: Ranges) -> bytes:
    match outcome:
        case Outcome.ACCEPTED:
            return encode_settle(queue, ranges, token)
        case Outcome.REJECTED:
            return encode_discard(queue, ranges, token, annotations)
        case _:
            return encode_return(queue, ranges, outcome.failed, token, annotations, outcome.cancelled)


PartitionShares = dict[PartitionLink, Share]


def shares_of(
    publishes: Iterable[tuple[Run, Targets]],
    settled: Iterable[Settlement],
    consumers: Mapping[int, Attached],
    *,
    formats: Formats,
) -> PartitionShares:
    """The shares of a transaction by link. A settlement of a consumer that is gone has no share: its messages
    are back in the queue.
    """
    shares: PartitionShares = {}
    keep_remarks, know_cancels = formats.keep_remarks(), formats.know_cancels()
    know_errors = formats.know_errors()
    for run, route in publishes:
        route.flow.routed += run.count * route.queues
        for link, queues in route.links:
            shares.setdefault(link, Share()).publishes.append((run, queues))
    for lease, ranges, outcome, told in settled:
        attached = consumers.get(attached_as(lease))
        if attached is not None:
            share = shares.setdefault(attached.link, Share())
            mine = attached.under(lease, ranges)
            if mine:
                token = attached.link.told_token(token_of(lease))
                kept = told if (know_errors if outcome is Outcome.REJECTED else keep_remarks) else b""
                told_outcome = outcome.told(cancels=know_cancels)
                share.settled.append((attached.queue, told_outcome, token, kept, mine))
    return shares


class Commits:
    """Carries out the commits of a front end's sessions."""

    def __init__(
        self,
        front_end: int,
        state: CatalogState,
        undecided: set[TransactionKey],
        targets: FrontEndTargets | None = None,
    ) -> None:
        """`undecided` gets the transactions of which the coordinator has no share yet. `targets` are those
        that have deliveries in transactions.
        """
        self._front_end = front_end
        self._state, self._undecided, self._targets = state, undecided, targets
        self._last = 0

    def commit(self, shares: PartitionShares, answer: Done, *, moves: bool = False) -> None:
        """Commit a transaction. Answers None once it is durable, and visible in all its partitions.

        With a refusal as the answer nothing has been done, and the settled messages are returned to their
        queues as failed deliveries. With `moves` the settled messages are those that no client has: after a
        refusal they are in their queues as before.
        """
        steps = [] if self._targets is None or moves else self._targets.committed_steps()
        for way, step in steps or ():
            shares.setdefault(way, Share()).received.append(step)
        if not shares:
            answer(None)
        elif steps is None or any(link.unreachable for link in shares):
            # The owner on the lost node cannot tell when the transaction is safe, and another link may have
            # the target of a link that is gone.
            for link, share in shares.items() if not moves else ():
                give_back(link, share)
            answer(incomplete())
        else:
            self._last += 1
            key = TransactionKey(self._front_end, self._last + (MOVES if moves else 0))
            Commit(key, shares, min(shares, key=self._rank), self._undecided, answer).begin()

    def _rank(self, link: PartitionLink) -> tuple[int, int]:
        """The link with the lowest rank coordinates: a replicated partition is seldom out of reach, and does
        not lose its decisions; a transient one loses them with its node.
        """
        definition = self._state.partitions.get(link.partition)
        if definition is None or definition.kind is PartitionKind.TRANSIENT:
            return 2, link.partition
        return 1 if len(definition.replicas) == 1 else 0, link.partition


class Commit:
    """One transaction, as its front end drives it (two-phase commit).

    state       the front end sends      and waits for            then
    preparing   prepare, to all but the  all votes                deciding; after a no concluding with
                coordinator                                       an abort
    deciding    decide, with its share,  the decision             concluding
                to the coordinator
    concluding  conclude, to all that    their commits, so that   end, to the coordinator, and the
                are prepared             all show the outcome     answer to the client

    With a single partition there is only its decision. If the front end dies, the partitions finish the
    transaction themselves (`cluster.owner.two_phase_commit`).
    """

    def __init__(
        self,
        key: TransactionKey,
        shares: PartitionShares,
        coordinator: PartitionLink,
        undecided: set[TransactionKey],
        answer: Done,
    ) -> None:
        self._key, self._undecided = key, undecided
        self._shares = shares
        self._coordinator = coordinator
        self._participants = [link for link in shares if link is not coordinator]
        self._prepared: list[PartitionLink] = []
        self._answer = answer
        self._waiting = 0

    def begin(self) -> None:
        """Send prepare to the participants, or decide at once without any."""
        self._waiting = len(self._participants)
        self._undecided.add(self._key)
        for link in self._participants:
            share = self._shares[link]
            parts = encode_prepare(self._key.number, self._coordinator.partition, share.operations())
            vote = Vote(partial(self._voted, link))
            link.transact(b"".join(parts), self._leases(share), vote)
        if not self._participants:
            self._undecided.discard(self._key)
            self._decide()

    def _voted(self, link: PartitionLink, taken: bool) -> None:
        self._waiting -= 1
        if taken:
            self._prepared.append(link)
        if self._waiting:
            return
        self._undecided.discard(self._key)
        if len(self._prepared) == len(self._participants):
            self._decide()
        else:
            if not self._key.moves:
                give_back(self._coordinator, self._shares[self._coordinator])
            self._conclude(False)

    def _decide(self) -> None:
        share = self._shares[self._coordinator]
        participants = [link.partition for link in self._participants]
        parts = encode_decide(self._key.number, participants, share.operations())
        self._coordinator.transact(b"".join(parts), self._leases(share), Vote(self._conclude))

    def _leases(self, share: Share) -> list[tuple[int, int, int]]:
        """The leases that end with the transaction."""
        return [] if self._key.moves else share.leases()

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
    """The client has its answer already: the end only lets the coordinator forget its decision."""


def incomplete() -> Refusal:
    """The refusal of a transaction, in RabbitMQ's words: there a part of it may have happened, here none."""
    return PreconditionFailedError("partial tx completion")


def give_back(link: PartitionLink, share: Share) -> None:
    """Return the messages that a refused transaction would have settled: the client had them."""
    for queue, _, token, _, ranges in share.settled:
        link.give_back(queue, ranges, failed=True, token=token)
