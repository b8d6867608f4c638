"""The Raft consensus core: pure, driven through `Raft`."""

from replication.raft.errors import (
    CompactedError,
    InvariantError,
    MembershipChangeError,
    MessageError,
    NotLeaderError,
    RaftError,
    TransferInProgressError,
    UnknownPeerError,
)
from replication.raft.messages import (
    LAST_RELEASE_CODES,
    Message,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from replication.raft.progress import FollowerState, Progress
from replication.raft.raft import Raft
from replication.raft.ready import Ready
from replication.raft.roles import Role
from replication.raft.types import (
    Entry,
    EntryKind,
    HardState,
    LogStorage,
    Membership,
    MembershipChange,
    RaftConfig,
    ReadState,
    Snapshot,
)

__all__ = [
    "LAST_RELEASE_CODES",
    "CompactedError",
    "Entry",
    "EntryKind",
    "FollowerState",
    "HardState",
    "InvariantError",
    "LogStorage",
    "Membership",
    "MembershipChange",
    "MembershipChangeError",
    "Message",
    "MessageError",
    "NotLeaderError",
    "Progress",
    "Raft",
    "RaftConfig",
    "RaftError",
    "ReadState",
    "Ready",
    "Role",
    "Snapshot",
    "SnapshotRequest",
    "TransferInProgressError",
    "UnknownPeerError",
    "decode_message",
    "encode_message",
]
