"""Decodes what records say of Raft: votes, memberships and snapshots (docs/journal-format.md)."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, NamedTuple

import msgpack

from pipeline.octets.cursor import Cursor, MalformedError, Range

NORMAL: Final = 0
MEMBERSHIP: Final = 1
_VOTED, _JOINING = 1, 2
_SNAPSHOT: Final = Struct("<QQII")
_MEMBERSHIP_VERSION: Final = 1


class Vote(NamedTuple):
    """The payload of a HARD_STATE. `node` is the node that got the vote of the term; None for no vote."""

    node: str | None
    joining: bool


class Members(NamedTuple):
    """The members of a partition by their parts in it."""

    voters: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()


class SnapshotBody(NamedTuple):
    """The payload of a SNAPSHOT. `state` is that of the partition."""

    last_index: int
    installation: int
    live: list[Range]
    members: Members
    state: bytes


def vote_in(payload: bytes) -> Vote:
    """Decode the payload of a HARD_STATE."""
    flags = payload[0] if payload else 0
    name = payload[1:].decode("utf-8", "backslashreplace")
    return Vote(name if flags & _VOTED else None, bool(flags & _JOINING))


def members_in(data: bytes) -> Members:
    """Decode a membership. Raises MalformedError."""
    value = unpacked(data)
    if isinstance(value, list) and len(value) == 4 and value[0] == _MEMBERSHIP_VERSION:
        groups = value[1:]
        if all(isinstance(group, list) and all(isinstance(one, str) for one in group) for group in groups):
            return Members(*map(tuple, groups))
    raise MalformedError(0, "a membership of another form")


def snapshot_in(payload: bytes) -> SnapshotBody:
    """Decode the payload of a SNAPSHOT. Raises MalformedError."""
    cursor = Cursor(payload)
    last_index, installation, count, size = cursor.fields(_SNAPSHOT)
    if count % 2:
        raise MalformedError(0, "a snapshot with a range that has no end")
    live = cursor.pairs(count // 2)
    members = members_in(cursor.octets(size))
    return SnapshotBody(last_index, installation, live, members, payload[cursor.at :])


def unpacked(data: bytes) -> Any:
    """The value of msgpack. Raises MalformedError."""
    try:
        return msgpack.unpackb(data, ext_hook=_extension, unicode_errors="surrogateescape")
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException) as error:
        raise MalformedError(0, f"msgpack that does not decode ({error})") from error


def _extension(code: int, octets: bytes) -> Any:
    return octets.decode("utf-8", "backslashreplace") if code == 1 else octets


_BATCH: Final = 2


def command_names(data: bytes) -> list[str]:
    """The names of the commands in an entry of the catalog. Raises MalformedError."""
    value = unpacked(data) if data else []
    commands = value[1] if isinstance(value, list) and len(value) == 2 and value[0] == _BATCH else [value]
    names = []
    for one in commands if isinstance(commands, list) and value else []:
        if not (isinstance(one, list) and len(one) == 5 and isinstance(one[3], str)):
            raise MalformedError(0, "an entry of the catalog without a command")
        names.append(one[3])
    return names
