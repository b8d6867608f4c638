"""A node's replica of the catalog: proposes commands, and answers a command once every node sees its effect.

Pure but for its callbacks. Its messages are those of `cluster.peers.catalog_messages`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cluster.catalog.access.control import Answer
from cluster.catalog.definitions import MemberState
from cluster.catalog.node_time import NodeTime
from cluster.catalog.observer import Observer
from cluster.catalog.placement import RestartedError
from cluster.catalog.state import CatalogState, CommandOutcome, encode_command
from cluster.catalog.visibility import LeaseGrantor, LeaseHolder, counts_from
from cluster.peers.catalog_messages import (
    BarrierPassed,
    BarrierRequest,
    CatalogApplied,
    CatalogMessage,
    CommandProposal,
    LeasePing,
    LeasePong,
    decode_catalog_message,
)
from node.refusal import Refusal
from replication.host import Host
from replication.journal import DamagedEntryError
from replication.raft import Entry, NotLeaderError, Raft, RaftConfig, Snapshot

CATALOG: Final = 0
"""The catalog's partition."""

FELL_BEHIND: Final = "this node's catalog fell behind, so that the outcome is not known; declare again"
COMMAND_RETRY_S: Final = 0.3
"""A replica sends a command or question again that has had no answer for so long: messages get lost, and so
do leaders."""


@dataclass(slots=True)
class PendingCommand:
    """A command of this node. One without `data` only waits for the other nodes (`Catalog.when_visible`).

    `index` is the command's log index, once this node has applied the command: the answer then waits until
    every node sees that index.
    """

    data: bytes
    answer: Answer
    asked: float
    index: int = 0
    value: Any = None
    error: Refusal | None = None


class Catalog:
    """Implements `replication.host.Machine` for the catalog's partition."""

    def __init__(
        self,
        config: RaftConfig,
        front_end: int,
        host: Host,
        send: Callable[[str, Sequence[bytes | memoryview]], object],
        observer: Observer,
        default_queue_type: str,
    ) -> None:
        self.state = CatalogState(observer, default_queue_type)
        self.version = 0
        self.applied_index = 0
        self.leader: str | None = None
        self._config = config
        self._node = config.node
        self._front_end = front_end
        self._host = host
        self._send = send
        self._pending: dict[int, PendingCommand] = {}
        self._last_request = 0
        self._visible_index = 0
        """Up to this log index every node that may have a lease has applied the log."""
        self._term = 0
        self._holder = LeaseHolder(config)
        self._grantor: LeaseGrantor | None = None
        self._told = 0

    # -- commands -------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this replica leads the catalog, as far as it knows: it may have been deposed."""
        return self.leader == self._node

    def fresh(self, now: float) -> bool:
        """Whether this replica shows every change of which any client has been told.

        The caller reads `now` from the clock for this question: an older time might prolong a lease.
        """
        grantor = self._grantor
        if grantor is not None and self.applied_index >= grantor.visible and self._host.leads(CATALOG, now):
            return True
        return self._holder.valid(now)

    def expel(self, node: str, now: float) -> bool:
        """Grant no more leases to a node that leaves. Returns whether its last lease is over.

        False while this replica does not lead.
        """
        return self._grantor is not None and self._grantor.expel(node, now)

    def submit(self, name: str, arguments: dict[str, Any], answer: Answer, now: float) -> None:
        """Propose a command, again if need be. Calls `answer(value, refusal)` once every node sees its
        effect.

        A command is carried out once at most. A refusal too is answered only when every node sees the state
        that led to it. The answer is a RestartedError where this replica gets a snapshot instead of the
        command.
        """
        self._last_request += 1
        request = self._last_request
        data = encode_command(self._front_end, request, name, arguments)
        self._pending[request] = PendingCommand(data, answer, now)
        self._propose(data, now)

    def when_visible(self, done: Callable[[], None], now: float) -> None:
        """Call `done` once every node sees the state that this replica shows now, or a later one.

        This replica may already show a queue or exchange that another client is just declaring, and that
        other nodes do not see yet.
        """
        index = self.applied_index
        if index <= self._visible_index:
            done()
            return
        self._last_request += 1
        look = PendingCommand(b"", lambda _value, _refusal: done(), now, index)
        self._pending[self._last_request] = look
        self._ask_barrier(self._last_request, look, now)

    def _propose(self, data: bytes, now: float) -> None:
        if self.leads:
            try:
                self._host.propose(CATALOG, data, now)
            except NotLeaderError:
                return
        else:
            self._tell_leader(CommandProposal(data))

    def _outcome(self, index: int, outcome: CommandOutcome, now: float) -> None:
        if outcome.origin != self._front_end:
            return
        pending = self._pending.get(outcome.request)
        if pending is None:
            return
        # A refusal waits too: it tells the client of changes that other clients have made.
        pending.index, pending.value, pending.error, pending.asked = index, outcome.value, outcome.error, now
        self._ask_barrier(outcome.request, pending, now)

    def _ask_barrier(self, request: int, pending: PendingCommand, now: float) -> None:
        if self._grantor is not None:
            self._grantor.barrier(pending.index, lambda: self._visible(request), now)
        else:
            self._tell_leader(BarrierRequest(pending.index, self._front_end, request))

    def _visible(self, request: int) -> None:
        pending = self._pending.pop(request, None)
        if pending is not None:
            self._visible_index = max(self._visible_index, pending.index)
            pending.answer(pending.value, pending.error)

    # -- messages -------------------------------------------------------------------------------

    def _tell_leader(self, message: CatalogMessage) -> None:
        if self.leader is not None and self.leader != self._node:
            self._send(self.leader, message.encode())

    def receive(self, peer: str, parts: Sequence[bytes], now: float) -> None:
        """Take a message of another node's replica. Raises MessageError."""
        message = decode_catalog_message(parts)
        if isinstance(message, LeasePong):
            if self._is_answered(message):
                self._holder.granted(message.since)
        elif isinstance(message, BarrierPassed):
            # An answer may be to a former process of this node, which numbered its requests in the same way.
            if message.front_end == self._front_end:
                self._visible(message.request)
        elif self._grantor is not None:
            self._receive_as_leader(self._grantor, peer, message, now)

    def _receive_as_leader(
        self, grantor: LeaseGrantor, peer: str, message: CatalogMessage | None, now: float
    ) -> None:
        match message:
            case CommandProposal(command):
                self._propose(command, now)
            case LeasePing():
                self._grant(grantor, peer, message, now)
            case CatalogApplied(index):
                grantor.applied(peer, index, now)
            case BarrierRequest(index, front_end, request):
                grantor.barrier(index, partial(self._pass, peer, BarrierPassed(front_end, request)), now)

    def _pass(self, peer: str, passed: BarrierPassed) -> None:
        self._send(peer, passed.encode())

    def _is_answered(self, pong: LeasePong) -> bool:
        """Whether the pong answers a ping of this process. A leader of an older release does not tell the
        process: there the time of the ping decides.
        """
        if pong.process is not None:
            return pong.process == self._front_end
        return self._holder.asked_at(pong.since)

    def _grant(self, grantor: LeaseGrantor, node: str, ping: LeasePing, now: float) -> None:
        """Grant a member a share of the lease that this leader itself has."""
        config = self._config
        left = self._raft.leased_until(now) - now
        definition = self.state.nodes.get(node)
        if definition is not None and definition.state is not MemberState.LEAVING:
            grantor.admit(node)
        if left > 0 and self._is_member(node) and grantor.ping(node, ping.applied, now):
            since = counts_from(ping.sent, max(0.0, config.held_s - left), config.clock_drift)
            self._send(node, LeasePong(since, ping.process).encode())

    def _is_member(self, node: str) -> bool:
        """Whether every later leader knows that the node may have a lease: the node is in the committed
        membership, and in the present one.
        """
        raft = self._raft
        current = raft.membership
        committed = raft.membership_at(raft.applied_index)
        return node in committed.members and node in current.voters | current.learners

    @property
    def _raft(self) -> Raft:
        return self._host.groups[CATALOG].raft

    def tick(self, now: float) -> None:
        """Ask the leader for another lease, and send again the commands and questions without an answer."""
        if self._grantor is not None:
            self._grantor.tick(now)
        elif self._holder.ping_due(now) and self.leader is not None:
            self._holder.pinged(now)
            self._send(self.leader, LeasePing(now, self.applied_index, self._front_end).encode())
        for request, pending in list(self._pending.items()):
            if now - pending.asked >= COMMAND_RETRY_S:
                pending.asked = now
                if pending.index:
                    self._ask_barrier(request, pending, now)
                else:
                    self._propose(pending.data, now)

    # -- replica (replication.host.Machine) -----------------------------------------------------

    def apply(self, entries: Sequence[Entry], now: float) -> None:
        for entry in entries:
            self.version += 1
            self.applied_index = entry.index
            outcome = self.state.apply(entry.data)
            if outcome is not None:
                self._outcome(entry.index, outcome, now)
        # Raft's own entries (membership, empty ones) do not come to a machine, but count as applied.
        self.applied_index = self._raft.applied_index
        if self._grantor is not None:
            self._grantor.applied(self._node, self.applied_index, now)
        elif self._told != self.applied_index:
            self._told = self.applied_index
            self._tell_leader(CatalogApplied(self.applied_index))

    def restore(self, snapshot: Snapshot) -> None:
        self.version += 1
        self.applied_index = snapshot.index
        self.state.restore(snapshot.data)
        # The snapshot may contain the effect of these commands, but not their answers.
        commands = [request for request, pending in self._pending.items() if pending.data]
        for command in [self._pending.pop(request) for request in commands]:
            command.answer(None, RestartedError(FELL_BEHIND))

    def snapshot(self) -> bytes:
        return self.state.snapshot()

    def live(self) -> list[tuple[int, int]]:
        return []

    def role_changed(self, leading: bool, term: int, leader: str | None, now: float) -> None:
        self.leader = leader
        if not leading:
            self._grantor = None
        elif self._grantor is None or term != self._term:
            raft = self._raft
            others = raft.membership.members - {self._node}
            since = -math.inf if raft.former_leases_over(now) else now
            # A former leader may have shown clients every committed entry, and all of these are in this log.
            self._grantor = LeaseGrantor(self._node, others, raft.last_index, since, self._config.lease_s)
        self._term = term
        if leader is not None:
            for request, pending in self._pending.items():
                if pending.index:
                    self._ask_barrier(request, pending, now)
                else:
                    self._propose(pending.data, now)

    def lost(self, error: DamagedEntryError) -> None:
        """The catalog cannot go on without one of its commands: nothing replaces the entry."""

    def read_ready(self, context: bytes) -> None:
        """Not used: clients read the catalog under a lease, not by read index."""


class CatalogClient:
    """This node's replica for the clients of the node, with the time of the present input."""

    def __init__(self, replica: Catalog, time: NodeTime, wanted: Callable[[], None]) -> None:
        """`wanted` asks for a turn, in which the host sends what the replica proposed."""
        self.state = replica.state
        self._replica = replica
        self._time = time
        self._wanted = wanted

    def fresh(self) -> bool:
        """See `Catalog.fresh`."""
        return self._replica.fresh(self._time.clock())

    def submit(self, name: str, arguments: dict[str, Any], answer: Answer) -> None:
        """See `Catalog.submit`."""
        self._replica.submit(name, arguments, answer, self._time.now)
        self._wanted()

    def when_visible(self, done: Callable[[], None]) -> None:
        """See `Catalog.when_visible`."""
        self._replica.when_visible(done, self._time.now)
        self._wanted()
