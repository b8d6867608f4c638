"""The messages between the replicas of a group, and how they travel.

`term` is the sender's term, except in a pre-vote, where it is the term that the sender would campaign in.
On the wire a message is one msgpack array, followed by one part for each entry's data or for the
snapshot's, so that encoding copies no body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from replication.raft.errors import MessageError
from replication.raft.types import Entry, EntryKind, Membership, Snapshot

WIRE_VERSION = 1


@dataclass(frozen=True, slots=True)
class PreVoteRequest:
    """Would you vote for me in `term`? Changes nothing at the receiver (thesis §9.6).

    in_every_majority: as in VoteRequest.
    """

    sender: str
    to: str
    term: int
    last_index: int
    last_term: int
    in_every_majority: bool = False


@dataclass(frozen=True, slots=True)
class PreVoteResponse:
    """Granted: `term` is the one asked about. Refused: it is the responder's own."""

    sender: str
    to: str
    term: int
    granted: bool


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """RequestVote of figure 2.

    transfer: the leader itself asked for this election (thesis §4.2.3).
    in_every_majority: no majority of the membership in the candidate's log does without the candidate
    (`Election.on_vote_request`).
    """

    sender: str
    to: str
    term: int
    last_index: int
    last_term: int
    transfer: bool
    in_every_majority: bool = False


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """Answer to a VoteRequest."""

    sender: str
    to: str
    term: int
    granted: bool


@dataclass(init=False, slots=True)
class AppendRequest:
    """AppendEntries of figure 2. Without entries it asks whether the logs match up to `prev_index`."""

    sender: Final[str]
    to: Final[str]
    term: Final[int]
    prev_index: Final[int]
    prev_term: Final[int]
    commit: Final[int]
    entries: Final[list[Entry]]

    def __init__(
        self,
        sender: str,
        to: str,
        term: int,
        prev_index: int,
        prev_term: int,
        commit: int,
        entries: list[Entry],
    ) -> None:
        self.sender = sender
        self.to = to
        self.term = term
        self.prev_index = prev_index
        self.prev_term = prev_term
        self.commit = commit
        self.entries = entries


@dataclass(init=False, slots=True)
class AppendResponse:
    """Everything up to `index` is durable at the sender and equal to the leader's log."""

    sender: Final[str]
    to: Final[str]
    term: Final[int]
    index: Final[int]

    def __init__(self, sender: str, to: str, term: int, index: int) -> None:
        self.sender = sender
        self.to = to
        self.term = term
        self.index = index


@dataclass(frozen=True, slots=True)
class AppendRejection:
    """The log differs at `index`.

    `hint_index` and `hint_term` name the last entry at which the logs may match (paper §5.3, the faster
    back-off). `last_index` is the end of the sender's log.
    """

    sender: str
    to: str
    term: int
    index: int
    hint_index: int
    hint_term: int
    last_index: int


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """I am the leader. Entry `commit`, of `commit_term`, is committed and known to be at the receiver.

    `round` numbers the leader's questions whether it still leads (thesis §6.4).
    """

    sender: str
    to: str
    term: int
    commit: int
    commit_term: int
    round: int


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """You are. `last_index` is the end of the sender's log."""

    sender: str
    to: str
    term: int
    round: int
    last_index: int


@dataclass(init=False, slots=True)
class CommitNotice:
    """Entry `index` of the leader's own term `term` is committed. Needs no answer."""

    sender: Final[str]
    to: Final[str]
    term: Final[int]
    index: Final[int]

    def __init__(self, sender: str, to: str, term: int, index: int) -> None:
        self.sender = sender
        self.to = to
        self.term = term
        self.index = index


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """InstallSnapshot of figure 13, in one piece. The driver may carry it by a road of its own."""

    sender: str
    to: str
    term: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class ReadIndexRequest:
    """A follower asks for the index that a linearizable read must wait for (thesis §6.4)."""

    sender: str
    to: str
    term: int
    context: bytes


@dataclass(frozen=True, slots=True)
class ReadIndexResponse:
    """The read `context` may be answered once `index` is applied."""

    sender: str
    to: str
    term: int
    context: bytes
    index: int


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """The leader hands over: campaign at once (thesis §3.10)."""

    sender: str
    to: str
    term: int


Message = (
    PreVoteRequest
    | PreVoteResponse
    | VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | AppendRejection
    | HeartbeatRequest
    | HeartbeatResponse
    | CommitNotice
    | SnapshotRequest
    | ReadIndexRequest
    | ReadIndexResponse
    | TimeoutNow
)

_PLAIN: dict[int, tuple[Callable[..., Message], tuple[tuple[str, type], ...]]] = {
    1: (PreVoteRequest, (("last_index", int), ("last_term", int))),
    2: (PreVoteResponse, (("granted", bool),)),
    3: (VoteRequest, (("last_index", int), ("last_term", int), ("transfer", bool))),
    4: (VoteResponse, (("granted", bool),)),
    6: (AppendResponse, (("index", int),)),
    7: (AppendRejection, (("index", int), ("hint_index", int), ("hint_term", int), ("last_index", int))),
    8: (HeartbeatRequest, (("commit", int), ("commit_term", int), ("round", int))),
    9: (HeartbeatResponse, (("round", int), ("last_index", int))),
    10: (CommitNotice, (("index", int),)),
    12: (ReadIndexRequest, (("context", bytes),)),
    13: (ReadIndexResponse, (("context", bytes), ("index", int))),
    14: (TimeoutNow, ()),
    15: (PreVoteRequest, (("last_index", int), ("last_term", int), ("in_every_majority", bool))),
    16: (
        VoteRequest,
        (("last_index", int), ("last_term", int), ("transfer", bool), ("in_every_majority", bool)),
    ),
}
"""Code → message and its fields after sender, to and term. Codes are never used again for another."""

LAST_RELEASE_CODES: Final[dict[Any, int]] = {PreVoteRequest: 1, VoteRequest: 3}
"""The codes of messages that a peer of the last release, which knows none above 14, is sent instead."""

_APPEND = 5
_SNAPSHOT = 11
_CODES: dict[Any, int] = {kind: code for code, (kind, _) in _PLAIN.items()}
_KINDS: dict[int, EntryKind] = {int(kind): kind for kind in EntryKind}


_pack: Final = msgpack.Packer().pack
"""As msgpack.packb, which makes a packer with a buffer of its own for each message."""


def encode_message(message: Message, *, to_last_release: bool = False) -> list[bytes]:
    """The parts that `decode_message` understands: a header, then the bodies as they are.

    to_last_release: the peer is of the release before, and reads no votes that tell of majorities.
    """
    head: list[Any]
    if isinstance(message, AppendRequest):
        entries = message.entries
        head = [WIRE_VERSION, _APPEND, message.sender, message.to, message.term]
        head += [message.prev_index, message.prev_term, message.commit]
        head.append([value for entry in entries for value in (entry.term, int(entry.kind))])
        return [_pack(head), *[entry.data for entry in entries]]
    if isinstance(message, SnapshotRequest):
        snapshot = message.snapshot
        head = [WIRE_VERSION, _SNAPSHOT, message.sender, message.to, message.term]
        head += [snapshot.index, snapshot.term, snapshot.membership.encode()]
        return [_pack(head), snapshot.data]
    code = _CODES[type(message)]
    if to_last_release:
        code = LAST_RELEASE_CODES.get(type(message), code)
    head = [WIRE_VERSION, code, message.sender, message.to, message.term]
    head += [getattr(message, name) for name, _ in _PLAIN[code][1]]
    return [_pack(head)]


def decode_message(parts: Sequence[bytes]) -> Message:
    """Inverse of `encode_message`; bodies are taken over as they are, not copied.

    Raises MessageError if the parts are anything else than a message of this version.
    """
    try:
        version, code, sender, to, term, *rest = msgpack.unpackb(parts[0])
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise MessageError(f"message header does not decode: {error}") from error
    if version != WIRE_VERSION:
        raise MessageError(f"message has version {version!r}, not {WIRE_VERSION}")
    _expect(sender, str)
    _expect(to, str)
    _expect(term, int)
    if code == _APPEND:
        return _decode_append(sender, to, term, rest, parts)
    if code == _SNAPSHOT:
        return _decode_snapshot(sender, to, term, rest, parts)
    if not isinstance(code, int) or code not in _PLAIN:
        raise MessageError(f"unknown message code {code!r}")
    kind, fields = _PLAIN[code]
    if len(rest) != len(fields) or len(parts) != 1:
        raise MessageError(f"message of code {code} has another number of fields or parts")
    for value, (_, wanted) in zip(rest, fields, strict=True):
        _expect(value, wanted)
    return kind(sender, to, term, *rest)


def _expect(value: object, wanted: type) -> None:
    if type(value) is not wanted:
        raise MessageError(f"message field is of type {type(value).__name__}, not {wanted.__name__}")
    if wanted is int and value < 0:  # type: ignore[operator]
        raise MessageError("message field is negative")


def _decode_append(sender: str, to: str, term: int, rest: list[Any], parts: Sequence[bytes]) -> AppendRequest:
    if len(rest) != 4:
        raise MessageError("append request has another number of fields")
    prev_index, prev_term, commit, terms_and_kinds = rest
    for value in (prev_index, prev_term, commit):
        _expect(value, int)
    _expect(terms_and_kinds, list)
    if len(terms_and_kinds) != 2 * (len(parts) - 1):
        raise MessageError("append request has another number of parts than entries")
    entries = []
    for offset in range(len(parts) - 1):
        entry_term, kind = terms_and_kinds[2 * offset], terms_and_kinds[2 * offset + 1]
        _expect(entry_term, int)
        if type(kind) is not int or kind not in _KINDS:
            raise MessageError(f"unknown entry kind {kind!r}")
        if kind == EntryKind.MEMBERSHIP:
            # In force from the moment it is in the log: one that does not decode must not get there.
            Membership.decode(parts[offset + 1])
        entries.append(Entry(prev_index + 1 + offset, entry_term, _KINDS[kind], parts[offset + 1]))
    return AppendRequest(sender, to, term, prev_index, prev_term, commit, entries)


def _decode_snapshot(
    sender: str, to: str, term: int, rest: list[Any], parts: Sequence[bytes]
) -> SnapshotRequest:
    if len(rest) != 3 or len(parts) != 2:
        raise MessageError("snapshot request has another number of fields or parts")
    index, snapshot_term, membership = rest
    _expect(index, int)
    _expect(snapshot_term, int)
    _expect(membership, bytes)
    snapshot = Snapshot(index, snapshot_term, Membership.decode(membership), parts[1])
    return SnapshotRequest(sender, to, term, snapshot)
