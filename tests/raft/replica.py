"""One replica under test: feed it messages, see what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from replication.raft import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    Message,
    Raft,
    RaftConfig,
    ReadState,
    Ready,
    Role,
)
from replication.raft.messages import (
    AppendRequest,
    AppendResponse,
    HeartbeatResponse,
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
    VoteResponse,
)
from tests.raft.memory_log import MemoryLog

Kind = TypeVar("Kind")


def entries(*terms: int, first: int = 1) -> list[Entry]:
    """Entries from index `first` on, one of each term; their data names both."""
    return [
        Entry(first + offset, term, EntryKind.NORMAL, f"{first + offset}/{term}".encode())
        for offset, term in enumerate(terms)
    ]


def log_of(*terms: int, term: int = 0, vote: str | None = None, commit: int = 0) -> MemoryLog:
    """A log with entries of these terms, as found on disk at a start."""
    log = MemoryLog()
    if terms:
        log.append(entries(*terms))
    log.set_hard_state(HardState(term or (terms[-1] if terms else 0), vote, commit))
    return log


class Replica:
    """A `Raft` with a driver that stages at once; `sync` says when that becomes durable.

    `now_sent` and `after_sync` are the messages of the two kinds since they were last taken.
    """

    def __init__(
        self,
        log: MemoryLog | None = None,
        voters: str = "abc",
        learners: str = "",
        node: str = "a",
        joining: bool = False,
        outgoing: str = "",
        **settings: object,
    ) -> None:
        self.log = log if log is not None else MemoryLog()
        if joining:
            self.log.set_hard_state(replace(self.log.hard_state(), joining=True))
        self.now = 100.0
        membership = Membership(frozenset(voters), frozenset(outgoing), frozenset(learners))
        config = RaftConfig(node, **settings)  # type: ignore[arg-type]  # settings are its fields
        self.raft = Raft(config, self.log, membership, self.now, lambda: 0.5)
        self.now_sent: list[Message] = []
        self.after_sync: list[Message] = []
        self.applied: list[Entry] = []
        self.reads: list[ReadState] = []
        self.readies: list[Ready] = []
        self.drive()

    def drive(self) -> None:
        """Carry out all Readys, without making anything durable."""
        while self.raft.has_ready():
            ready = self.raft.ready()
            self.readies.append(ready)
            self.log.stage(ready)
            self.now_sent += ready.messages
            self.after_sync += ready.messages_after_sync
            self.applied += ready.committed
            self.reads += ready.reads

    def sync(self) -> None:
        """Everything staged is durable."""
        last = self.log.last_index()
        if last:
            self.raft.persisted(last, self.log.term(last), self.now)
        self.drive()

    def step(self, *messages: Message) -> None:
        """Take messages, one turn each."""
        for message in messages:
            self.raft.step(message, self.now)
            self.drive()

    def advance(self, seconds: float) -> None:
        """Let time pass, calling `tick` whenever it is due."""
        end = self.now + seconds
        while self.raft.next_deadline() <= end:
            self.now = max(self.now, self.raft.next_deadline())
            self.raft.tick(self.now)
            self.drive()
        self.now = end

    def take(self, kind: type[Kind]) -> list[Kind]:
        """The messages of one kind, of both ways out, since the last `take` of anything."""
        found = [message for message in [*self.now_sent, *self.after_sync] if isinstance(message, kind)]
        self.now_sent.clear()
        self.after_sync.clear()
        return found

    def terms(self) -> list[int]:
        """The term of each entry in the log."""
        return [
            entry.term
            for entry in self.log.entries(self.log.first_index(), self.log.last_index() + 1, 1 << 30)
        ]

    def become_candidate(self) -> None:
        """Campaign, and win the pre-vote."""
        self.raft.campaign(self.now)
        self.drive()
        for request in self.take(PreVoteRequest):
            self.step(PreVoteResponse(request.to, "a", request.term, True))
        assert self.raft.role is Role.CANDIDATE

    def become_leader(self) -> None:
        """Campaign, and win."""
        self.become_candidate()
        for request in self.take(VoteRequest):
            self.step(VoteResponse(request.to, "a", request.term, True))
        assert self.raft.role is Role.LEADER

    def lead(self) -> None:
        """Become the leader, with everything so far durable, replicated and committed everywhere."""
        self.become_leader()
        self.sync()
        for peer in self.raft.progress:
            self.acknowledge(peer)
        assert self.raft.commit_index == self.raft.last_index
        self.take(object)

    def acknowledge(self, peer: str, index: int | None = None) -> None:
        """`peer` has the log up to `index`, or to its end."""
        self.step(AppendResponse(peer, "a", self.raft.term, self.raft.last_index if index is None else index))

    def answer_heartbeat(self, peer: str, round: int = 0, last_index: int | None = None) -> None:
        """`peer` answers a heartbeat."""
        last = self.raft.last_index if last_index is None else last_index
        self.step(HeartbeatResponse(peer, "a", self.raft.term, round, last))

    def propose(self, data: bytes = b"x") -> int:
        """Propose and carry out."""
        index = self.raft.propose(data, self.now)
        self.drive()
        return index

    def follow(
        self, leader: str = "b", term: int = 1, prev: int = 0, prev_term: int = 0, commit: int = 0
    ) -> None:
        """Hear of a leader that has nothing to append."""
        self.step(AppendRequest(leader, self.raft.node, term, prev, prev_term, commit, []))
        self.take(object)


def vote_request(
    replica: Replica, sender: str, term: int, last_index: int = 9, last_term: int = 9
) -> VoteResponse:
    """A replica's answer to a vote request."""
    replica.step(VoteRequest(sender, "a", term, last_index, last_term, False))
    (response,) = replica.take(VoteResponse)
    return response
