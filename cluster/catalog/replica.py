"""A node's replica of the catalog: proposes commands, and answers a command once every node sees its effect.

Pure but for its callbacks. Its messages are those of `cluster.peers.catalog_messages`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cluster.catalog.access.control import Answer
from cluster.catalog.definitions import MemberState
from cluster.catalog.node_time import NodeTime
from cluster.catalog.observer import Observer
from cluster.catalog.placement import RestartedError
from cluster.catalog.state import CatalogState, CommandOutcome, encode_command, encode_commands
from cluster.catalog.visibility import AwaitedVisibility, LeaseGrantor, LeaseHolder, counts_from
from cluster.config.formats import COMMANDS_IN_BATCHES
from cluster.config.node import BrokerConfig
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
from replication.host import Host
from replication.journal import DamagedEntryError
from replication.raft import Entry, NotLeaderError, Raft, Snapshot

CATALOG: Final = 0
"""The catalog's partition."""

FELL_BEHIND: Final = "this node's catalog fell behind, so that the outcome is not known; declare again"
COMMAND_RETRY_S: Final = 0.3
"""A replica sends a command or question again that has had no answer for so long: messages get lost, and so
do leaders."""

COMMANDS_UNDER_WAY: Final = 512
"""Commands of this node that may be proposed and not applied. Later ones wait, so that a command that comes
twice is among the requests that the catalog remembers (`cluster.catalog.recent_requests`)."""

BATCH_BYTES: Final = 256 * 1024
"""Octets of commands from which on a batch takes no further command."""

WhenApplied = Callable[[Any], None]


@dataclass(slots=True)
class PendingCommand:
    """A command of this node that the node has not applied. `proposed`: when, for the last time."""

    request: int
    data: bytes
    answer: Answer
    applied: WhenApplied | None
    proposed: float = math.inf


class Catalog:
    """Implements `replication.host.Machine` for the catalog's partition."""

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        send: Callable[[str, Sequence[bytes | memoryview]], object],
        observer: Observer,
    ) -> None:
        self.state = CatalogState(observer, config.default_queue_type)
        self.version = 0
        self.applied_index = 0
        self.leader: str | None = None
        self._config = config.raft
        self._node = config.node
        self._front_end = config.front_end
        self._host = host
        self._send = send
        self._formats = config.formats
        self._unproposed: deque[PendingCommand] = deque()
        self._pending: dict[int, PendingCommand] = {}
        """The commands that are proposed and not applied, by their request numbers."""
        self._awaited = AwaitedVisibility()
        self.dirty = False
        """Whether `flush` has something to do."""
        self._last_request = 0
        self._term = 0
        self._holder = LeaseHolder(config.raft)
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

    @property
    def unanswered(self) -> int:
        """How many commands and questions of this node have no answer yet."""
        return len(self._unproposed) + len(self._pending) + len(self._awaited)

    def submit(
        self, name: str, arguments: dict[str, Any], answer: Answer, applied: WhenApplied | None = None
    ) -> None:
        """Have the next `flush` propose a command, again if need be. Calls `answer(value, refusal)` once
        every node sees its effect, and `applied(value)` before, when this node does.

        A command is carried out once at most. A refusal too is answered only when every node sees the state
        that led to it. The answer is a RestartedError where this replica gets a snapshot instead of the
        command.
        """
        self._last_request += 1
        data = encode_command(self._front_end, self._last_request, name, arguments)
        self._unproposed.append(PendingCommand(self._last_request, data, answer, applied))
        self.dirty = True

    def when_visible(self, done: Callable[[], None]) -> None:
        """Call `done` once every node sees the state that this replica shows now, or a later one.

        This replica may already show a queue or exchange that another client is just declaring, and that
        other nodes do not see yet. The next `flush` asks the leader.
        """
        self._awaited.wait(self.applied_index, done)
        self.dirty = True

    def flush(self, now: float) -> None:
        """Propose the commands of this turn, as one entry, and ask what every node sees. Without a leader
        both wait for the next election.
        """
        self.dirty = False
        if self.leader is None:
            return
        wanted = list[PendingCommand]()
        while self._unproposed and len(self._pending) < COMMANDS_UNDER_WAY:
            command = self._unproposed.popleft()
            self._pending[command.request] = command
            wanted.append(command)
        self._propose(wanted, now)
        if self._awaited.unasked():
            self._ask(now)

    def _propose(self, commands: Iterable[PendingCommand], now: float) -> None:
        """Propose commands in as few entries as the other nodes can read."""
        batch, size = list[bytes](), 0
        together = min(self._formats, self.state.members.formats_of_all) >= COMMANDS_IN_BATCHES
        for command in commands:
            command.proposed = now
            batch.append(command.data)
            size += len(command.data)
            if size >= BATCH_BYTES or not together:
                self._propose_entry(batch, now)
                batch, size = [], 0
        if batch:
            self._propose_entry(batch, now)

    def _propose_entry(self, commands: Sequence[bytes], now: float) -> None:
        entry = commands[0] if len(commands) == 1 else encode_commands(commands)
        if self.leads:
            self._append(entry, now)
        else:
            self._tell_leader(CommandProposal(entry))

    def _append(self, entry: bytes, now: float) -> None:
        try:
            self._host.propose(CATALOG, entry, now)
        except NotLeaderError:
            # Its node proposes the entry again, to the next leader.
            return

    def _outcome(self, index: int, outcome: CommandOutcome) -> None:
        if outcome.origin != self._front_end:
            return
        command = self._pending.pop(outcome.request, None)
        if command is None:
            return
        if command.applied is not None and outcome.error is None:
            command.applied(outcome.value)
        # A refusal waits too: it tells the client of changes that other clients have made.
        self._awaited.wait(index, partial(command.answer, outcome.value, outcome.error))

    def _ask(self, now: float) -> None:
        """Ask the leader when every node sees what this node has applied."""
        self._last_request += 1
        index = self._awaited.asked(self._last_request, now)
        if self._grantor is not None:
            self._grantor.barrier(index, partial(self._awaited.answered, self._last_request), now)
        else:
            self._tell_leader(BarrierRequest(index, self._front_end, self._last_request))

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
                self._awaited.answered(message.request)
        elif self._grantor is not None:
            self._receive_as_leader(self._grantor, peer, message, now)

    def _receive_as_leader(
        self, grantor: LeaseGrantor, peer: str, message: CatalogMessage | None, now: float
    ) -> None:
        match message:
            case CommandProposal(command):
                self._append(command, now)
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
        overdue = now - COMMAND_RETRY_S
        if again := [one for one in self._pending.values() if one.proposed <= overdue]:
            self._propose(again, now)
        if self._awaited.unanswered(overdue):
            self._ask(now)

    # -- replica (replication.host.Machine) -----------------------------------------------------

    def apply(self, entries: Sequence[Entry], now: float) -> None:
        for entry in entries:
            self.version += 1
            self.applied_index = entry.index
            for outcome in self.state.apply(entry.data):
                self._outcome(entry.index, outcome)
        # Raft's own entries (membership, empty ones) do not come to a machine, but count as applied.
        self.applied_index = self._raft.applied_index
        if self._grantor is not None:
            self._grantor.applied(self._node, self.applied_index, now)
        elif self._told != self.applied_index:
            self._told = self.applied_index
            self._tell_leader(CatalogApplied(self.applied_index))
        if self._awaited.unasked():
            self._ask(now)
        # Commands that waited for these may follow them.
        self.dirty = self.dirty or bool(self._unproposed)

    def restore(self, snapshot: Snapshot) -> None:
        self.version += 1
        self.applied_index = snapshot.index
        self.state.restore(snapshot.data)
        # The snapshot may contain the effect of these commands, but not their answers.
        commands, self._pending = self._pending, {}
        for command in commands.values():
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
            self._propose(list(self._pending.values()), now)
            if self._awaited:
                self._ask(now)
            self.dirty = True

    def lost(self, error: DamagedEntryError) -> None:
        """The catalog cannot go on without one of its commands: nothing replaces the entry."""

    def read_ready(self, context: bytes) -> None:
        """Not used: clients read the catalog under a lease, not by read index."""


class CatalogClient:
    """This node's replica for the clients of the node, with the time of the present input."""

    def __init__(self, replica: Catalog, time: NodeTime, wanted: Callable[[], None]) -> None:
        """`wanted` asks for a turn, in which the replica proposes."""
        self.state = replica.state
        self._replica = replica
        self._time = time
        self._wanted = wanted

    def fresh(self) -> bool:
        """See `Catalog.fresh`."""
        return self._replica.fresh(self._time.clock())

    def submit(
        self, name: str, arguments: dict[str, Any], answer: Answer, applied: WhenApplied | None = None
    ) -> None:
        """See `Catalog.submit`."""
        self._replica.submit(name, arguments, answer, applied)
        self._wanted()

    def when_visible(self, done: Callable[[], None]) -> None:
        """See `Catalog.when_visible`."""
        self._replica.when_visible(done)
        self._wanted()
