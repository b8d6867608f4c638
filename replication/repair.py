"""Mends entries that a disk does not give back: another replica's copy takes their place.

Entries with one index and one term are equal on all replicas (paper §5.3), so that the copy of any replica
will do: no vote and no acknowledgement that this node gave is void meanwhile, and nothing else is copied.
The idea is that of "Protocol-Aware Recovery for Consensus-Based Storage" (Alagappan et al., FAST 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import msgpack

from replication.forms import ENVELOPE, addressed, expect
from replication.group import RaftGroup
from replication.journal import DamagedEntryError, Journal
from replication.raft import Entry, Membership, NotLeaderError, Role
from replication.raft.errors import CompactedError, MessageError
from replication.raft.quorum import VoteTally, tally
from replication.resigning import resign

REPAIR_TAG: Final = b"D"
REPAIR_INTERVAL_S: Final = 0.5
"""Between two questions for one entry: the node that has it may be down."""

ASK: Final = 1
TELL: Final = 2

LACKS: Final = 0
HAS: Final = 1
HAS_PART: Final = 2
"""Only the messages that wait are left of the entry: enough for one that a snapshot covers."""

Propose = Callable[[int, bytes, float], object]
"""Appends an entry to a partition's log, at a time. Raises NotLeaderError."""

Send = Callable[[str, Sequence[bytes | memoryview]], object]
"""Queues one message, as parts, for a peer."""


@dataclass(frozen=True, slots=True)
class EntryQuestion:
    """Asks whether a replica has the entry of that index and term. `whole`: with all its content, not only
    with the part that a snapshot left.
    """

    index: int
    term: int
    whole: bool

    def encode(self, partition: int) -> list[bytes]:
        asked = msgpack.packb([ASK, self.index, self.term, int(self.whole)])
        return [ENVELOPE.pack(REPAIR_TAG, partition), asked]


@dataclass(frozen=True, slots=True)
class EntryAnswer:
    """LACKS, HAS or HAS_PART, and with HAS the entry's data."""

    index: int
    term: int
    found: int
    data: bytes = b""

    def encode(self, partition: int) -> list[bytes]:
        told = msgpack.packb([TELL, self.index, self.term, self.found])
        parts = [ENVELOPE.pack(REPAIR_TAG, partition), told]
        return [*parts, self.data] if self.found == HAS else parts


@dataclass(slots=True)
class Damage:
    """An entry that cannot be read here. `lacking`: replicas that have no copy that would do."""

    error: DamagedEntryError
    asked_at: float
    lacking: set[str] = field(default_factory=set)


def _unheard(*_: object) -> None:
    """The default: no listener."""


@dataclass(frozen=True, slots=True)
class RepairEvents:
    """Callables of the process; each may be left out."""

    found: Callable[[DamagedEntryError], None] = _unheard
    """An entry cannot be read here."""
    repaired: Callable[[DamagedEntryError, str], None] = _unheard
    """Another replica's copy took the entry's place; called with that replica's node."""


NO_REPAIR_EVENTS: Final = RepairEvents()


class Repair:
    """The damaged entries of a node's partitions, until they are mended.

    Code that catches a DamagedEntryError calls `found`. The reader of the entry was interrupted in the middle
    of its work: a leader steps down, and another replica, which has the entry, leads.
    """

    def __init__(
        self,
        groups: Mapping[int, RaftGroup],
        journal: Journal,
        send: Send,
        propose: Propose,
        told: RepairEvents,
    ) -> None:
        self.damaged: dict[tuple[int, int], Damage] = {}
        """The damaged entries by partition and index."""
        self.found_here = self.repaired = 0
        """Entries of this node that could not be read, and those that another replica gave back."""
        self._groups, self._journal, self._send = groups, journal, send
        self._propose, self._told = propose, told

    def found(self, error: DamagedEntryError, now: float) -> None:
        """An entry could not be read.

        Raises the error where no replica ever can give it to this one, and no other can lead without it.
        """
        group = self._groups.get(error.partition)
        if group is None:
            return
        key = (error.partition, error.index)
        damage = self.damaged.get(key)
        if damage is None:
            damage = self._note(group, error, now)
            self._ask(group, damage, now)
        raft = group.raft
        membership = raft.membership
        others = (membership.voters | membership.outgoing) - {raft.node}
        if damage.lacking >= others and raft.role is Role.LEADER:
            if error.index <= raft.applied_index:
                self._let_go(group, error, now)
                del self.damaged[key]
            elif error.index <= raft.commit_index or not _elect_alone(membership, others):
                raise error
            else:
                # A leader could never send the entry, which is not committed. A leader without the entry
                # replaces it.
                raft.stand_aside(True)
        self._step_down(group, now)

    def _let_go(self, group: RaftGroup, error: DamagedEntryError, now: float) -> None:
        """No replica has the entry. Raises the error where the machine cannot do without."""
        needless = group.machine.lost(error)
        if needless is None:
            raise error
        try:
            # Before the first entry of the next leader, which then never needs the lost one.
            self._propose(group.partition, needless, now)
        except NotLeaderError:
            # The leader hands over: the next one finds the damage anew.
            return

    def _note(self, group: RaftGroup, error: DamagedEntryError, asked_at: float) -> Damage:
        damage = self.damaged[error.partition, error.index] = Damage(error, asked_at)
        self.found_here += 1
        group.log.suspect(error.index)
        self._told.found(error)
        return damage

    def broken_off(self, work: Callable[[], object], now: float) -> None:
        """Do the work; where an entry cannot be read, it is broken off, and the entry found."""
        try:
            work()
        except DamagedEntryError as error:
            self.found(error, now)

    def _step_down(self, group: RaftGroup, now: float) -> None:
        raft = group.raft
        if raft.role is Role.LEADER:
            resign([group], self._send)
            raft.step_down(now)
            # At once: what the leader had granted, and not sent, is void.
            group.machine.role_changed(False, raft.term, None, now)
            if raft.membership.voters == {raft.node}:
                raft.campaign(now)

    def tick(self, now: float) -> None:
        """Ask again for entries that are not repaired, and forget those that are not needed any more."""
        for error in self._journal.take_damaged():
            if (error.partition, error.index) not in self.damaged and error.partition in self._groups:
                self._note(self._groups[error.partition], error, now - REPAIR_INTERVAL_S)
        for key, damage in list(self.damaged.items()):
            group = self._groups.get(key[0])
            if group is None or not _needed(group, damage.error):
                self._end_damage(key)
            elif now >= damage.asked_at + REPAIR_INTERVAL_S:
                self._ask(group, damage, now)

    def _ask(self, group: RaftGroup, damage: Damage, now: float) -> None:
        damage.asked_at = now
        damage.lacking.clear()
        error = damage.error
        # Entries that a snapshot covers may have been cut down to the messages that wait; other entries go
        # whole.
        whole = error.index >= group.log.first_index()
        question = EntryQuestion(error.index, error.term, whole).encode(error.partition)
        for peer in sorted(group.raft.membership.members - {group.raft.node}):
            self._send(peer, question)

    def receive(self, peer: str, parts: Sequence[bytes], now: float) -> None:
        """A question or an answer of another replica. Raises MessageError."""
        partition, message = decode_repair(parts)
        group = self._groups.get(partition)
        if group is None:
            return
        if isinstance(message, EntryQuestion):
            self._send(peer, self._answer(group, message, now).encode(partition))
        else:
            damage = self.damaged.get((partition, message.index))
            if damage is not None and damage.error.term == message.term:
                self._answered(group, peer, damage, message)

    def _answer(self, group: RaftGroup, question: EntryQuestion, now: float) -> EntryAnswer:
        index, term = question.index, question.term
        found: Entry | None = None
        try:
            found = group.log.entry(index)
        except CompactedError:
            pass
        except DamagedEntryError as error:
            self.found(error, now)
        if found is None or found.term != term:
            return EntryAnswer(index, term, LACKS)
        if question.whole and index < group.log.first_index():
            return EntryAnswer(index, term, HAS_PART)
        return EntryAnswer(index, term, HAS, found.data)

    def _answered(self, group: RaftGroup, peer: str, damage: Damage, answer: EntryAnswer) -> None:
        error = damage.error
        if answer.found == LACKS:
            damage.lacking.add(peer)
        elif answer.found == HAS and group.log.repair(error.index, error.term, answer.data):
            self._end_damage((error.partition, error.index))
            self.repaired += 1
            self._told.repaired(error, peer)

    def _end_damage(self, key: tuple[int, int]) -> None:
        del self.damaged[key]
        group = self._groups.get(key[0])
        if group is not None:
            group.raft.stand_aside(False)


def _elect_alone(membership: Membership, others: Set[str]) -> bool:
    """Whether the `others` are majorities that need no vote of this replica."""
    return tally(membership.voters, membership.outgoing, dict.fromkeys(others, True)) is VoteTally.WON


def _needed(group: RaftGroup, error: DamagedEntryError) -> bool:
    """Whether the log still has the entry."""
    row = group.log.table.find(error.index)
    return row >= 0 and group.log.table.terms[row] == error.term


def decode_repair(parts: Sequence[bytes]) -> tuple[int, EntryQuestion | EntryAnswer]:
    """The partition, and the question or answer. Raises MessageError."""
    _, partition = addressed(parts)
    try:
        plain = msgpack.unpackb(parts[1])
    except (ValueError, IndexError, msgpack.UnpackException) as error:
        raise MessageError(f"no message about a damaged entry: {error}") from error
    expect(plain, (int, int, int, int))
    code, index, term, flag = plain
    if code == ASK:
        return partition, EntryQuestion(index, term, bool(flag))
    if code != TELL or flag not in (LACKS, HAS, HAS_PART):
        raise MessageError("what is said of a damaged entry is of an unknown kind")
    return partition, EntryAnswer(index, term, flag, bytes(parts[2]) if len(parts) > 2 else b"")
