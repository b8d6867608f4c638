"""The Raft consensus core: pure, driven through `Raft`."""

from replication.raft.raft import Raft
from replication.raft.roles import Role
from replication.raft.types import Entry, EntryKind, HardState, Membership, RaftConfig, Ready, Snapshot

__all__ = ["Entry", "EntryKind", "HardState", "Membership", "Raft", "RaftConfig", "Ready", "Role", "Snapshot"]
