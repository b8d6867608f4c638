"""The safety properties of figure 3 of the paper, checked while a simulation runs."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from replication.raft import Entry, HardState, Raft, Role
from replication.raft.messages import AppendRequest, Message, VoteRequest, VoteResponse
from tests.raft.memory_log import MemoryLog


class SafetyViolation(AssertionError):
    """A property that Raft guarantees does not hold."""


def require(condition: bool, text: str) -> None:
    if not condition:
        raise SafetyViolation(text)


class Checker:
    """Sees everything that all replicas do, over all their lives."""

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self.votes: dict[tuple[str, int], str] = {}
        self.written: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.committed: dict[int, Entry] = {}
        self.commit_terms: dict[int, int] = {}
        self.digests: dict[int, int] = {0: 0}
        self.hard_states: dict[str, HardState] = {}

    def sent(self, message: Message) -> None:
        """One vote a voter and term (§5.2), also over restarts; log matching."""
        vote = None
        if isinstance(message, AppendRequest):
            self.shown(message.sender, message.entries, message.prev_term)
        elif isinstance(message, VoteRequest):
            vote = (message.sender, message.term, message.sender)
        elif isinstance(message, VoteResponse) and message.granted:
            vote = (message.sender, message.term, message.to)
        if vote is not None:
            voter, term, candidate = vote
            first = self.votes.setdefault((voter, term), candidate)
            require(first == candidate, f"{voter} voted for {first} and {candidate} in term {term}")

    def durable_hard_state(self, node: str, state: HardState) -> None:
        """Terms never go back, and a vote does not change within one."""
        last = self.hard_states.get(node, HardState())
        require(state.term >= last.term, f"{node} went from term {last.term} back to {state.term}")
        if state.term == last.term and last.vote is not None:
            require(state.vote == last.vote, f"{node} changed its vote in term {state.term}")
        self.hard_states[node] = state

    def lost_disk(self, node: str) -> None:
        """A node forgot its votes; whether that lets two leaders be elected is checked all the same."""
        self.hard_states.pop(node, None)
        self.votes = {key: candidate for key, candidate in self.votes.items() if key[0] != node}

    def shown(self, node: str, entries: Iterable[Entry], before: int) -> None:
        """Log matching: an entry of one index and term is the same everywhere, and so is the one before,
        whose term `before` is. It counts once it is on a disk or was sent: a single voter that crashes
        between its election and its first sync begins the term again, and has no record of the first time.
        """
        for entry in entries:
            first = self.written.setdefault((entry.index, entry.term), (before, entry.data))
            require(first == (before, entry.data), f"{node}: two entries {entry.index} of term {entry.term}")
            require(before <= entry.term, f"{node}: terms fall at entry {entry.index}")
            before = entry.term

    def role(self, node: str, raft: Raft, log: MemoryLog) -> bool:
        """Election safety, and leader completeness at the moment of election; whether that is now."""
        if raft.role is not Role.LEADER or self.leaders.get(raft.term) == node:
            return False
        require(raft.term not in self.leaders, f"two leaders in term {raft.term}")
        self.leaders[raft.term] = node
        for entry in self.committed.values():
            # A leader of an older term than the one that committed may still be elected by late votes.
            if entry.index >= log.first_index() and raft.term > self.commit_terms[entry.index]:
                has = entry.index <= log.last_index() and log.term(entry.index) == entry.term
                require(has, f"{node} leads term {raft.term} without committed entry {entry.index}")
        return True

    def applied(self, node: str, digest: int, entry: Entry, raft: Raft, disks: dict[str, MemoryLog]) -> int:
        """State machine safety, and nothing committed before a majority has it on disk; the new digest."""
        first = self.committed.get(entry.index)
        if first is None:
            self.committed[entry.index] = entry
            self.commit_terms[entry.index] = raft.term
            voters = raft.membership.voters
            copies = sum(voter not in disks or has_entry(disks[voter], entry) for voter in voters)
            require(
                2 * copies > len(voters), f"entry {entry.index} is committed with {copies} durable copies"
            )
        else:
            require(first == entry, f"{node} applies another entry at {entry.index}")
        digest = crc32(b"%d %d " % (entry.index, entry.term) + entry.data, digest)
        self.digest(node, entry.index, digest)
        return digest

    def digest(self, node: str, index: int, digest: int) -> None:
        """All state machines are equal after the same entry."""
        require(self.digests.setdefault(index, digest) == digest, f"{node} has another state at {index}")


def has_entry(disk: MemoryLog, entry: Entry) -> bool:
    if entry.index < disk.first_index():
        return True
    return entry.index <= disk.last_index() and disk.term(entry.index) == entry.term
