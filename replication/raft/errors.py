"""The errors that the Raft core raises."""

from __future__ import annotations


class RaftError(Exception):
    """Base of everything that the Raft core raises on purpose."""


class NotLeaderError(RaftError):
    """Only the leader can do this; `leader` is who that is, as far as this node knows, or None."""

    def __init__(self, leader: str | None, text: str = "not the leader; the leader is") -> None:
        super().__init__(f"{text} {leader if leader is not None else 'unknown'}")
        self.leader = leader


class TransferInProgressError(NotLeaderError):
    """The leader takes no proposals while it hands over to `leader` (thesis §3.10)."""

    def __init__(self, target: str) -> None:
        super().__init__(target, "leadership is being handed over to")


class MembershipChangeError(RaftError):
    """The membership change is not possible now, or at all; the message says why."""


class UnknownPeerError(RaftError):
    """The node named is not a voter of this group."""

    def __init__(self, peer: str) -> None:
        super().__init__(f"{peer} is not a voter of this group")
        self.peer = peer


class CompactedError(RaftError):
    """Entry `index` is gone: a snapshot took its place. `first` is the first entry there is."""

    def __init__(self, index: int, first: int) -> None:
        super().__init__(f"entry {index} is compacted away; the log begins at {first}")
        self.index = index
        self.first = first


class MessageError(RaftError):
    """The bytes are not a message of this protocol."""


class InvariantError(RaftError):
    """A state that Raft proves impossible: a peer or the disk broke the protocol. Stop this replica."""
