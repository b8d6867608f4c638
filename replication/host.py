"""Drives every Raft group of one node over one journal and one transport.

The host is the shell's half of the Raft core without sockets, threads or clocks of its own: `send`
queues parts for a peer, `Writer` makes staged journal records durable, `now` is always an argument.
The simulator drives the same code with a simulated writer and network.

Order of one turn, which durability rests on:
1. `Ready.messages` leave at once: a leader's appends travel while its own disk writes;
2. entries and hard states are staged in the journal;
3. `Ready.messages_after_sync` wait until everything staged up to then is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from replication.compaction import Compaction
from replication.forms import ENVELOPE, RAFT_TAG, SNAPSHOT_TAG, addressed
from replication.group import Machine, RaftGroup
from replication.journal import DamagedEntryError, Durations, Journal
from replication.raft import (
    LAST_RELEASE_CODES,
    EntryKind,
    Membership,
    MembershipChange,
    MembershipChangeError,
    Message,
    NotLeaderError,
    Raft,
    RaftConfig,
    Ready,
    Role,
    Snapshot,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from replication.repair import NO_REPAIR_EVENTS, Repair, RepairEvents
from replication.snapshots import (
    ACKNOWLEDGED,
    FINAL,
    Acknowledgement,
    Part,
    SnapshotReceiver,
    SnapshotSender,
)

_EVERY: Final = 2**63 - 1
"""No partition has a higher number."""


class Writer(Protocol):
    """Makes staged journal records durable, one batch at a time (`JournalWriter`)."""

    @property
    def busy(self) -> bool:
        """Whether a batch is being written."""

    def kick(self) -> None:
        """Start writing the staged records, unless a batch is being written already."""


def _no_peer(_peer: str) -> bool:
    return False


class Host:
    """All Raft groups of a node. Not thread-safe: everything runs on the event loop's thread."""

    def __init__(
        self,
        config: RaftConfig,
        journal: Journal,
        send: Callable[[str, Sequence[bytes | memoryview]], object],
        random: Callable[[], float],
        snapshot_bytes: int,
        of_last_release: Callable[[str], bool] = _no_peer,
        damage: RepairEvents = NO_REPAIR_EVENTS,
    ) -> None:
        """`of_last_release` tells whether a peer reads only the formats of the last release."""
        self.node = config.node
        self.groups: dict[int, RaftGroup] = {}
        self.repair = Repair(self.groups, journal, send, self.propose, damage)
        self._damage: list[DamagedEntryError] = []
        """Entries that could not be read in this turn, and that `repair` has still to hear of."""
        self.failed: BaseException | None = None
        self.of_last_release = of_last_release
        self._withheld = False
        self.newest_lost = _EVERY
        """Partitions with higher numbers were founded after this node lost its disk: it has no votes in
        them."""
        self._config, self._journal, self._send_parts, self._random = config, journal, send, random
        self._compaction = Compaction(snapshot_bytes, config.election_timeout_s)
        self._dirty: dict[int, RaftGroup] = {}
        self._early: list[tuple[str, Sequence[bytes]]] = []
        """Messages for groups that this node does not have, and may open in this turn."""
        self._unsynced: list[tuple[RaftGroup, Message | Acknowledgement]] = []
        self._syncing: list[tuple[RaftGroup, Message | Acknowledgement]] = []
        self._senders: dict[tuple[int, str], SnapshotSender] = {}
        self._receivers: dict[int, SnapshotReceiver] = {}
        self._streams = 0
        self._writer: Writer | None = None
        self.elections = 0
        """Elections that replicas of this node have won."""
        self.campaigns = 0
        """Terms in which a replica of this node stood for election."""
        self.commits = Durations()
        """Durations from the proposal of an entry here until it was applied here."""

    def withhold_votes(self, newest_lost: int | None = None) -> None:
        """This node lost its disk: replicas that are opened from now on withhold their votes until they have
        caught up.

        Groups with numbers above `newest_lost` were founded since, and are not lost; None: not known yet.
        """
        self._withheld = True
        if newest_lost is not None:
            self.newest_lost = newest_lost

    @property
    def rebuilding(self) -> bool:
        """Whether this node lost its disk and does not have everything back yet."""
        return self._withheld

    def rebuilt(self) -> None:
        """All groups of the lost disk are whole: groups that are opened from now on are new."""
        self._withheld = False

    def attach_writer(self, writer: Writer) -> None:
        self._writer = writer

    # -- groups ---------------------------------------------------------------------------------

    def open(
        self, partition: int, membership: Membership, machine: Machine, now: float, notices: bool = True
    ) -> RaftGroup:
        """Start this node's replica from its journal; `notices`: `RaftConfig.commit_notices`.

        With an empty `membership` the replica joins a group that exists. The node may have had a replica of
        the group before, and have forgotten its votes when that one was removed. The flag `joining` is staged
        before all entries that the replica receives: a restart while it catches up must not take its log for
        whole.
        """
        log = self._journal.log(partition)
        snapshot = log.snapshot()
        if snapshot is not None:
            machine.restore(snapshot)
        # A group of one has no other replica to get entries back from: the content of its disk is lost.
        alone = membership.members == {self.node}
        joins = not membership.members and log.last_index() == 0
        # A log that began after the disk was lost has the flag itself, until the replica votes again.
        began = log.last_index() > 0 or log.hard_state().term > 0
        forgot = self._withheld and partition <= self.newest_lost and not began
        if joins or (forgot and not alone):
            log.set_hard_state(replace(log.hard_state(), joining=True))
        config = replace(self._config, partition=partition, commit_notices=notices)
        raft = Raft(config, log, membership, now, self._random)
        group = RaftGroup(partition, raft, log, machine)
        self.groups[partition] = group
        self._dirty[partition] = group
        return group

    def close(self, partition: int) -> None:
        """Stop the replica, if it runs, and forget its log."""
        if self.groups.pop(partition, None) is not None:
            self._dirty.pop(partition, None)
            self._forget_senders(partition, None)
            self._receivers.pop(partition, None)
        self._journal.drop(partition)

    # -- inputs ---------------------------------------------------------------------------------

    def propose(self, partition: int, data: bytes, now: float) -> int:
        """Append `data` to the partition's log and return its index; raises `NotLeaderError`."""
        group = self.groups[partition]
        index = group.raft.propose(data, now)
        group.proposed.append((index, now))
        self._dirty[partition] = group
        return index

    def change_membership(self, partition: int, change: MembershipChange, now: float) -> bool:
        """Begin a change of the group's membership. Returns False where that is not possible now."""
        group = self.groups[partition]
        try:
            group.raft.propose_membership(change, now)
        except (NotLeaderError, MembershipChangeError):
            return False
        self._dirty[partition] = group
        return True

    def read_index(self, partition: int, context: bytes, now: float) -> None:
        """Ask for a linearizable read point; `Machine.read_ready(context)` answers."""
        group = self.groups[partition]
        group.raft.read_index(context, now)
        self._dirty[partition] = group

    def receive(self, peer: str, parts: Sequence[bytes], now: float) -> None:
        """Take one message of a peer, whose first part starts with one of this module's tags.

        Raises MessageError.
        """
        tag, partition = addressed(parts)
        group = self.groups.get(partition)
        if group is None:
            self._early.append((peer, parts))
        elif tag == RAFT_TAG:
            group.raft.step(decode_message(parts[1:]), now)
            self._dirty[partition] = group
        else:
            self._receive_stream_part(group, peer, Part.decode(parts[1:]), now)

    def leads(self, partition: int, now: float) -> bool:
        """Whether this node leads the partition, with a lease."""
        group = self.groups.get(partition)
        return group is not None and now < group.raft.leased_until(now)

    @property
    def whole(self) -> bool:
        """Whether every replica of this node has caught up and votes, after a disk was lost."""
        return all(group.raft.may_vote for group in self.groups.values())

    @property
    def idle(self) -> bool:
        """Whether the journal would write an entry at once if it was proposed now."""
        return self._writer is None or not self._writer.busy

    def campaign(self, partition: int, now: float) -> None:
        """Stand for election without waiting for the time-out, where no leader is known."""
        group = self.groups[partition]
        if group.raft.leader is None:
            group.raft.campaign(now)
            self._dirty[partition] = group

    def hand_over(self, partition: int, to: str, now: float) -> None:
        """Have `to` lead the partition as soon as it has the whole log; raises `NotLeaderError`,
        `UnknownPeerError`.
        """
        group = self.groups[partition]
        group.raft.transfer_leadership(to, now)
        self._dirty[partition] = group

    def peer_up(self, peer: str, now: float) -> None:
        """There is a connection to the peer again."""
        for group in self.groups.values():
            group.raft.peer_up(peer, now)
            self._dirty[group.partition] = group

    def peer_lost(self, peer: str, now: float) -> None:
        """The connection to a peer broke: groups that it leads suspect it at once, without a time-out."""
        for group in self.groups.values():
            group.raft.peer_lost(peer, now)
            self._dirty[group.partition] = group
        for key in [key for key in self._senders if key[1] == peer]:
            self._finish_stream(key, ok=False, now=now)

    def tick(self, now: float) -> None:
        """Run every timer that is due."""
        streamed = {partition for partition, _ in self._senders}
        for group in self.groups.values():
            if group.raft.next_deadline() <= now:
                group.raft.tick(now)
                self._dirty[group.partition] = group
            self._compaction.tick(group, now, streaming=group.partition in streamed)
        for key, sender in list(self._senders.items()):
            if sender.stalled(now):
                self._finish_stream(key, ok=False, now=now)
        for partition in [key for key, receiver in self._receivers.items() if receiver.stalled(now)]:
            del self._receivers[partition]
            self.groups[partition].log.abandon()

    # -- the turn -------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Carry out the decisions of all groups, and start the writer if it is idle."""
        if self.failed is not None:
            return
        self._advance_all(now)
        if self._early:
            self._receive_early(now)
            self._advance_all(now)
        self.kick(now)

    def _receive_early(self, now: float) -> None:
        """Take the messages for groups that this turn has opened: a peer may have opened a group earlier, and
        asks for votes at once. The others are for groups that this node does not have any more.
        """
        early, self._early = self._early, []
        for peer, parts in early:
            if addressed(parts)[1] in self.groups:
                self.receive(peer, parts, now)

    def _advance_all(self, now: float) -> None:
        while self._dirty or self._damage:
            groups, self._dirty = self._dirty, {}
            for group in groups.values():
                # An entry that one group applied may have closed another group.
                if self.groups.get(group.partition) is group:
                    self._advance(group, now)
            damage, self._damage = self._damage, []
            for error in damage:
                self.repair.found(error, now)

    def kick(self, now: float) -> None:
        """Hand the staged records to the writer, with the messages that wait for them to be durable."""
        writer = self._writer
        if writer is None or writer.busy:
            return
        self._syncing, self._unsynced = self._unsynced, self._syncing
        writer.kick()
        if not writer.busy:
            self._release(now)

    def durable(self, results: Iterable[tuple[int, int, int]], now: float) -> None:
        """A batch is durable: send the messages that waited for it, and count this node's own copies."""
        self._release(now)
        for partition, index, term in results:
            group = self.groups.get(partition)
            if group is not None:
                group.raft.persisted(index, term, now)
                self._dirty[partition] = group

    def fail(self, error: BaseException) -> None:
        """This node cannot trust its state or its disk any more: drop all messages that wait to be sent.

        The state of the page cache is unknown after a failed fsync, so there is no retry.
        """
        self.failed = error
        self._unsynced.clear()
        self._syncing.clear()

    def _release(self, now: float) -> None:
        messages = self._syncing
        for group, message in messages:
            self._send(group, message, now)
        messages.clear()

    def _advance(self, group: RaftGroup, now: float) -> None:
        try:
            while group.raft.has_ready():
                self._carry_out(group, group.raft.ready(), now)
        except DamagedEntryError as error:
            # Raised by `ready`, which has not handed out the work that it could not complete.
            self._damage.append(error)
        self._report_role(group, now)

    def _carry_out(self, group: RaftGroup, ready: Ready, now: float) -> None:
        """Carry out all of the work, also where an entry cannot be read in the middle of it: the core hands
        the work out once. `_damage` has such entries.
        """
        log = group.log
        if ready.snapshot is not None:
            self._install(group, ready.snapshot)
        for message in ready.messages:
            self._send(group, message, now)
        if ready.entries:
            log.append(ready.entries)
        if ready.hard_state is not None:
            log.set_hard_state(ready.hard_state)
        self._unsynced.extend((group, message) for message in ready.messages_after_sync)
        entries = [entry for entry in ready.committed if entry.kind == EntryKind.NORMAL and entry.data]
        self._report_role(group, now)
        if ready.committed:
            try:
                group.machine.apply(entries, now)
            except DamagedEntryError as error:
                self._damage.append(error)
        while group.proposed and group.proposed[0][0] <= group.raft.applied_index:
            self.commits.add(now - group.proposed.popleft()[1])
        for read in ready.reads:
            group.waiting_reads.append((read.index, read.context))
        while group.waiting_reads and group.waiting_reads[0][0] <= group.raft.applied_index:
            group.machine.read_ready(group.waiting_reads.popleft()[1])

    def _report_role(self, group: RaftGroup, now: float) -> None:
        raft = group.raft
        role = (raft.role, raft.term, raft.leader)
        if role != group.seen:
            if raft.role is Role.LEADER:
                self.elections += 1
            known_term = None if group.seen is None else group.seen[1]
            if raft.role in (Role.CANDIDATE, Role.LEADER) and raft.term != known_term:
                self.campaigns += 1
            group.seen = role
            if raft.role is not Role.LEADER:
                group.proposed.clear()
            self._forget_senders(group.partition, raft.term if raft.role is Role.LEADER else None)
            group.machine.role_changed(raft.role is Role.LEADER, raft.term, raft.leader, now)

    def _send(self, group: RaftGroup, message: Message | Acknowledgement, now: float) -> None:
        if isinstance(message, SnapshotRequest):
            self._start_stream(group, message, now)
            return
        if isinstance(message, Acknowledgement):
            self._send_stream_part(group.partition, message.to, message.part)
            return
        envelope = ENVELOPE.pack(RAFT_TAG, group.partition)
        to_last_release = type(message) in LAST_RELEASE_CODES and self.of_last_release(message.to)
        parts = encode_message(message, to_last_release=to_last_release)
        self._send_parts(message.to, [envelope, *parts])

    # -- snapshots ------------------------------------------------------------------------------

    def _start_stream(self, group: RaftGroup, request: SnapshotRequest, now: float) -> None:
        raft = group.raft
        leading = raft.role is Role.LEADER and raft.term == request.term
        if not leading or request.snapshot.index < group.log.first_index() - 1:
            # The core decided this before a long sync: the log may have been cut, or replaced, since.
            raft.report_snapshot(request.to, False, now)
            self._dirty[group.partition] = group
            return
        self._streams += 1
        sender = SnapshotSender(request, self._streams, group.log, now)
        self._senders[(group.partition, request.to)] = sender
        self._send_stream(group.partition, request.to, sender)

    def _send_stream(self, partition: int, peer: str, sender: SnapshotSender) -> None:
        """Send what the window has room for. An entry that cannot be read ends the stream: the leader steps
        down, and the next leader begins another.
        """
        try:
            parts = sender.parts()
        except DamagedEntryError as error:
            del self._senders[partition, peer]
            self._damage.append(error)
            return
        for part in parts:
            self._send_stream_part(partition, peer, part)

    def _send_stream_part(self, partition: int, peer: str, part: Part) -> None:
        self._send_parts(peer, [ENVELOPE.pack(SNAPSHOT_TAG, partition), *part.encode()])

    def _finish_stream(self, key: tuple[int, str], *, ok: bool, now: float) -> None:
        del self._senders[key]
        partition, peer = key
        group = self.groups[partition]
        group.raft.report_snapshot(peer, ok, now)
        self._dirty[partition] = group

    def _forget_senders(self, partition: int, led_term: int | None) -> None:
        """Drop the streams of other terms: only while this node leads does its log keep their entries."""
        for key, sender in list(self._senders.items()):
            if key[0] == partition and sender.request.term != led_term:
                del self._senders[key]

    def _receive_stream_part(self, group: RaftGroup, peer: str, part: Part, now: float) -> None:
        if part.kind != ACKNOWLEDGED:
            self._take_part(group, peer, part, now)
            return
        key = (group.partition, peer)
        sender = self._senders.get(key)
        if sender is not None:
            sender.acknowledged(part, now)
            if sender.delivered:
                self._finish_stream(key, ok=True, now=now)
            else:
                self._send_stream(*key, sender)

    def _take_part(self, group: RaftGroup, peer: str, part: Part, now: float) -> None:
        """Stage a part of a leader's snapshot stream. The first part of a stream ends any other stream."""
        partition = group.partition
        if part.term < group.raft.term or self.failed is not None:
            return
        receiver = self._receivers.get(partition)
        if part.number == 0:
            receiver = self._receivers[partition] = SnapshotReceiver(peer, part.stream, group.log, now)
        if receiver is None or (receiver.peer, receiver.stream) != (peer, part.stream):
            return
        if not receiver.take(part, now):
            return
        if part.kind == FINAL:
            # Install at once: a later part could replace the received entries.
            group.raft.step(decode_message(part.body), now)
            self._advance(group, now)
            self._receivers.pop(partition, None)
            group.log.abandon()
        self._unsynced.append((group, receiver.acknowledgement()))

    def _install(self, group: RaftGroup, snapshot: Snapshot) -> None:
        """Replace log and machine by a leader's snapshot, with the live entries streamed before it."""
        group.pending = None
        group.log.install(snapshot)
        group.machine.restore(snapshot)
