"""Messages on the wire: everything decodes to what was encoded, and nothing else decodes."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.raft import (
    Entry,
    EntryKind,
    Membership,
    MessageError,
    Snapshot,
    decode_message,
    encode_message,
)
from replication.raft.messages import (
    WIRE_VERSION,
    AppendRequest,
    Message,
    PreVoteRequest,
    SnapshotRequest,
    VoteRequest,
)

NUMBERS = st.integers(0, 2**64 - 1)
NAMES = st.text(max_size=5)


def _plain(hint: Any) -> Any:
    """The type of a field that never changes."""
    return get_args(hint)[0] if get_origin(hint) is Final else hint


@st.composite
def messages_of(draw: st.DrawFn, kind: Any) -> Message:
    """Any message of a kind."""
    head = (draw(NAMES), draw(NAMES), draw(NUMBERS))
    if kind is AppendRequest:
        prev = draw(st.integers(0, 2**32))
        parts = draw(
            st.lists(st.tuples(NUMBERS, st.sampled_from(EntryKind), st.binary(max_size=20)), max_size=5)
        )
        encoded = Membership(draw(st.frozensets(NAMES))).encode()
        appended = [
            Entry(prev + 1 + offset, term, of, encoded if of is EntryKind.MEMBERSHIP else data)
            for offset, (term, of, data) in enumerate(parts)
        ]
        return AppendRequest(*head, prev, draw(NUMBERS), draw(NUMBERS), appended)
    if kind is SnapshotRequest:
        names = st.frozensets(NAMES)
        membership = Membership(draw(names), draw(names), draw(names))
        return SnapshotRequest(*head, Snapshot(draw(NUMBERS), draw(NUMBERS), membership, draw(st.binary())))
    types = {int: NUMBERS, bool: st.booleans(), bytes: st.binary(max_size=20)}
    hints = get_type_hints(kind)
    rest = [draw(types[_plain(hints[field.name])]) for field in dataclasses.fields(kind)[3:]]
    message: Message = kind(*head, *rest)
    return message


def messages() -> st.SearchStrategy[Message]:
    """Any message."""
    return st.sampled_from(get_args(Message)).flatmap(messages_of)


@given(messages())
def test_every_message_survives_the_wire(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (PreVoteRequest("a", "b", 3, 2, 1, in_every_majority=True), 1),
        (VoteRequest("a", "b", 3, 2, 1, transfer=True, in_every_majority=True), 3),
    ],
)
def test_the_last_release_reads_votes_that_do_not_tell_of_majorities(request_: Message, code: int) -> None:
    (head,) = encode_message(request_, to_last_release=True)
    assert msgpack.unpackb(head)[1] == code
    assert decode_message([head]) == dataclasses.replace(request_, in_every_majority=False)


def test_bodies_are_not_copied() -> None:
    body = bytes(1000)
    request = AppendRequest("a", "b", 1, 0, 0, 0, [Entry(1, 1, EntryKind.NORMAL, body)])
    parts = encode_message(request)
    assert parts[1] is body
    decoded = decode_message(parts)
    assert isinstance(decoded, AppendRequest)
    assert decoded.entries[0].data is body


@given(st.lists(st.binary(max_size=40), max_size=3))
def test_garbage_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(MessageError):
        decode_message(parts)


FIELDS = st.lists(
    st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=2) | st.binary(max_size=2)
)


@given(st.integers(0, 20), FIELDS, st.lists(st.binary(max_size=3), max_size=3))
def test_well_formed_headers_of_no_message(code: int, fields: list[object], bodies: list[bytes]) -> None:
    """Whatever the header says, it is refused or it is a message that encodes to the same parts."""
    parts = [msgpack.packb([WIRE_VERSION, code, "a", "b", *fields]), *bodies]
    try:
        decoded = decode_message(parts)
    except MessageError:
        return
    assert parts in (encode_message(decoded), encode_message(decoded, to_last_release=True))


def test_another_version_is_refused() -> None:
    with pytest.raises(MessageError, match="version"):
        decode_message([msgpack.packb([WIRE_VERSION + 1, 14, "a", "b", 1])])
