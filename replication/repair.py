"""Mends entries that a disk does not give back: another replica's copy takes their place.

Entries with one index and one term are equal on all replicas (paper §5.3), so that the copy of any replica
will do: no vote and no acknowledgement that this node gave is void meanwhile, and nothing else is copied.
The idea is that of "Protocol-Aware Recovery for Consensus-Based Storage" (Alagappan et al., FAST 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from replication.forms import ENVELOPE, addressed
from replication.group import Group
from replication.host import Host
from replication.journal import DamagedEntryError, Journal
from replication.raft import Entry, Role
from replication.raft.errors import CompactedError, MessageError
from replication.resigning import resign

REPAIR_TAG: Final = b"D"
ASK_INTERVAL_S: Final = 0.5
"""Between two questions for one entry: the node that has it may be down."""

ASK: Final = 1
TELL: Final = 2

LACKS: Final = 0
HAS: Final = 1
HAS_PART: Final = 2
"""Only the messages that wait are left of the entry: enough for one that a snapshot covers."""

Send = Callable[[str, Sequence[bytes | memoryview]], object]


@dataclass(slots=True)
class Damage:
    """An entry that cannot be read here. `lacking`: replicas that have no copy that would do."""

    error: DamagedEntryError
    asked_at: float
    lacking: set[str] = field(default_factory=set)


class Repair:
    """The damaged entries of a node's partitions, until they are mended.

    Whoever catches a DamagedEntryError says so to `found`. What read the entry was broken off in the middle:
    a leader steps down, and another replica, which has the entry, leads.
    """

    def __init__(self, host: Host, journal: Journal, send: Send) -> None:
        self.damaged: dict[tuple[int, int], Damage] = {}
        """By partition and index."""
        self.found_here = self.repaired = 0
        """Entries of this node that could not be read, and those that another replica gave back."""
        self.on_found: Callable[[DamagedEntryError], None] = _unheard
        self.on_repaired: Callable[[DamagedEntryError, str], None] = _unheard
        """Called with the node that had the entry."""
        self.on_lost: Callable[[Group, DamagedEntryError], None] = _unheard
        """No replica has the entry: called while this node leads, and may propose what makes it needless."""
        self._host, self._journal, self._send = host, journal, send
        host.on_damaged = self.found

    def found(self, error: DamagedEntryError, now: float) -> None:
        """An entry could not be read. Raises the error where no replica ever can give it to this one."""
        group = self._host.groups.get(error.partition)
        if group is None:
            return
        key = (error.partition, error.index)
        damage = self.damaged.get(key)
        if damage is None:
            damage = self._note(group, error, now)
            self._ask(group, damage, now)
        others = group.raft.membership.voters - {group.raft.node}
        if damage.lacking >= others and group.raft.role is Role.LEADER:
            if error.index > group.raft.applied_index:
                raise error
            self.on_lost(group, error)
            del self.damaged[key]
        self._step_down(group, now)

    def _note(self, group: Group, error: DamagedEntryError, asked_at: float) -> Damage:
        damage = self.damaged[error.partition, error.index] = Damage(error, asked_at)
        self.found_here += 1
        group.log.suspect(error.index)
        self.on_found(error)
        return damage

    def broken_off(self, work: Callable[[], object], now: float) -> None:
        """Do the work; where an entry cannot be read, it is broken off, and the entry found."""
        try:
            work()
        except DamagedEntryError as error:
            self.found(error, now)

    def _step_down(self, group: Group, now: float) -> None:
        raft = group.raft
        if raft.role is Role.LEADER:
            resign([group], self._send)
            raft.step_down(now)
            # At once: what the leader had granted, and not sent, is void.
            group.machine.role_changed(False, raft.term, None, now)
            if raft.membership.voters == {raft.node}:
                raft.campaign(now)

    def tick(self, now: float) -> None:
        """Ask again for what is not mended, and look whether it is needed yet."""
        for error in self._journal.take_damaged():
            if (error.partition, error.index) not in self.damaged and error.partition in self._host.groups:
                self._note(self._host.groups[error.partition], error, now - ASK_INTERVAL_S)
        for key, damage in list(self.damaged.items()):
            group = self._host.groups.get(key[0])
            if group is None or not _needed(group, damage.error):
                del self.damaged[key]
            elif now >= damage.asked_at + ASK_INTERVAL_S:
                self._ask(group, damage, now)

    def _ask(self, group: Group, damage: Damage, now: float) -> None:
        damage.asked_at = now
        damage.lacking.clear()
        error = damage.error
        # What a snapshot covers may have been cut down to the messages that wait; other entries go whole.
        whole = error.index >= group.log.first_index()
        for peer in sorted(group.raft.membership.members - {group.raft.node}):
            self._say(peer, error.partition, [ASK, error.index, error.term, int(whole)])

    def receive(self, peer: str, parts: Sequence[bytes], now: float) -> None:
        """A question or an answer of another replica. Raises MessageError."""
        partition, (kind, index, term, flag), data = decode(parts)
        group = self._host.groups.get(partition)
        if group is None:
            return
        if kind == ASK:
            self._answer(group, peer, index, term, whole=bool(flag), now=now)
        else:
            damage = self.damaged.get((partition, index))
            if damage is not None and damage.error.term == term:
                self._told(group, peer, damage, flag, data)

    def _answer(self, group: Group, peer: str, index: int, term: int, *, whole: bool, now: float) -> None:
        found: Entry | None = None
        try:
            found = group.log.entry(index)
        except CompactedError:
            pass
        except DamagedEntryError as error:
            self.found(error, now)
        if found is None or found.term != term:
            self._say(peer, group.partition, [TELL, index, term, LACKS])
        elif whole and index < group.log.first_index():
            self._say(peer, group.partition, [TELL, index, term, HAS_PART])
        else:
            self._say(peer, group.partition, [TELL, index, term, HAS], found.data)

    def _told(self, group: Group, peer: str, damage: Damage, told: int, data: bytes) -> None:
        error = damage.error
        if told == LACKS:
            damage.lacking.add(peer)
        elif told == HAS and group.log.repair(error.index, error.term, data):
            del self.damaged[error.partition, error.index]
            self.repaired += 1
            self.on_repaired(error, peer)

    def _say(self, peer: str, partition: int, said: list[Any], *data: bytes) -> None:
        self._send(peer, [ENVELOPE.pack(REPAIR_TAG, partition), msgpack.packb(said), *data])


def _needed(group: Group, error: DamagedEntryError) -> bool:
    """Whether the log still has the entry."""
    row = group.log.table.find(error.index)
    return row >= 0 and group.log.table.terms[row] == error.term


def decode(parts: Sequence[bytes]) -> tuple[int, tuple[int, int, int, int], bytes]:
    """Partition, what is asked or told, and the entry's data. Raises MessageError."""
    try:
        _, partition = addressed(parts)
        kind, index, term, flag = msgpack.unpackb(parts[1])
        return (
            partition,
            (int(kind), int(index), int(term), int(flag)),
            bytes(parts[2]) if len(parts) > 2 else b"",
        )
    except Exception as error:
        raise MessageError(f"no message about a damaged entry: {error}") from error


def _unheard(*_: object) -> None:
    """Nobody wants to be told."""
