"""The format of entries: every encoded entry decodes to the same operations, and other octets do
not decode.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.settlements import NO_TOKEN
from node.message.run import OWN_METHODS, Run
from node.queue.decision_format import (
    encode_annotate,
    encode_forget_ids,
    encode_lent,
    encode_refuse,
    encode_remember_ids,
    encode_remove,
    encode_transfer,
    encode_transferred,
)
from node.queue.entry_format import (
    FORMAT_VERSION,
    EntryFormatError,
    EntryMessages,
    count_messages,
    encode_attach,
    encode_batch,
    encode_create_queue,
    encode_detach,
    encode_discard,
    encode_drop_queue,
    encode_entry,
    encode_forget,
    encode_mark,
    encode_publish,
    encode_purge,
    encode_return,
    encode_seal_queue,
    encode_settle,
    read_batches,
    read_operations,
    read_run,
)
from node.queue.operations import (
    OWNER,
    Annotate,
    Aspect,
    Attach,
    BeginTransfer,
    CreateQueue,
    Detach,
    Discard,
    DropQueue,
    Forget,
    ForgetIds,
    Lent,
    Mark,
    Operation,
    OpKind,
    Publish,
    Purge,
    Reason,
    Refuse,
    RememberIds,
    Remove,
    Return,
    SealQueue,
    Semantics,
    Settle,
    Transferred,
)
from node.queue.transfers import Transfer
from tests.queue.building import RUNS, contents, one_batch, published, uniform_run, varied_run

U64 = st.integers(0, 2**64 - 1)
TOKENS = st.one_of(st.just(NO_TOKEN), U64)
U64S = st.lists(U64, max_size=4)
RANGES = st.lists(st.tuples(U64, U64).map(lambda pair: (min(pair), max(pair))), max_size=4)
ENCODED_BY_TYPE = {
    Settle: lambda op: encode_settle(*op),
    Return: lambda op: encode_return(*op),
    Discard: lambda op: encode_discard(*op),
    Purge: lambda op: encode_purge(*op),
    Mark: lambda op: encode_mark(*op),
    Attach: lambda op: encode_attach(*op),
    Detach: lambda op: encode_detach(*op),
    CreateQueue: lambda op: encode_create_queue(*op),
    DropQueue: lambda op: encode_drop_queue(*op),
    SealQueue: lambda op: encode_seal_queue(*op),
    Forget: lambda op: encode_forget(*op),
    BeginTransfer: lambda op: encode_transfer(*op),
    Transferred: lambda op: encode_transferred(*op),
    Refuse: lambda op: encode_refuse(*op),
    ForgetIds: lambda op: encode_forget_ids(*op),
    RememberIds: lambda op: encode_remember_ids(
        op.queue, op.time, [op.digests[at : at + 16] for at in range(0, len(op.digests), 16)]
    ),
    Lent: encode_lent,
    Remove: lambda op: encode_remove(*op),
    Annotate: lambda op: encode_annotate(*op[:2], list(zip(*op[2:], strict=True))),
}


def disjoint(pairs: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Sorted spans, from the first number of each pair on, with small gaps and any values."""
    firsts = sorted(first for first, _ in pairs)
    values = [value for _, value in pairs]
    lasts = [following - 1 for following in firsts[1:]] + firsts[-1:]
    return list(zip(firsts, lasts, values, strict=True))


OPERATIONS = st.one_of(
    st.builds(Settle, U64, RANGES, TOKENS),
    st.builds(Return, U64, RANGES, st.booleans(), TOKENS, cancelled=st.just(False)),
    st.builds(Return, U64, RANGES, st.just(True), TOKENS, cancelled=st.just(True)),
    st.builds(Discard, U64, RANGES, TOKENS),
    st.builds(Purge, U64, RANGES),
    st.builds(Mark, U64, U64),
    st.builds(Attach, U64, U64, st.booleans()),
    st.builds(Detach, U64, U64),
    st.builds(CreateQueue, U64, st.sampled_from(Semantics)),
    st.builds(DropQueue, U64),
    st.builds(SealQueue, U64, U64),
    st.builds(Forget, U64),
    st.builds(ForgetIds, U64, U64),
    st.builds(Lent, U64, st.integers(0, 2**32 - 1), RANGES),
    st.builds(RememberIds, U64, U64, st.lists(st.binary(min_size=16, max_size=16), max_size=3).map(b"".join)),
    st.builds(Remove, U64, st.sampled_from(Reason), RANGES),
    st.builds(Refuse, U64, U64, RANGES),
    st.builds(Transferred, U64, U64),
    st.builds(BeginTransfer, U64, st.builds(Transfer, U64, U64, U64S.map(tuple), RANGES.map(tuple))),
    st.builds(
        lambda queue, aspect, spans: Annotate(
            queue, aspect, *(array("Q", [span[i] for span in spans]) for i in range(3))
        ),
        U64,
        st.sampled_from(Aspect),
        st.lists(st.tuples(U64, U64), max_size=5, unique_by=lambda pair: pair[0]).map(disjoint),
    ),
)


def encode(operation: Operation | tuple[Run, list[int]]) -> bytes:
    if type(operation) is tuple:
        return b"".join(encode_publish(*operation))
    return ENCODED_BY_TYPE[type(operation)](operation)


@given(
    st.lists(
        st.tuples(
            U64, U64, U64, st.lists(st.one_of(OPERATIONS, st.tuples(RUNS, st.lists(U64, max_size=10))))
        ),
        max_size=3,
    )
)
def test_what_is_encoded_is_decoded(batches: list[tuple[int, int, int, list[object]]]) -> None:
    data = encode_entry(
        encode_batch(front_end, number, first, list(map(encode, operations)))
        for front_end, number, first, operations in batches
    )
    assert data[0] == FORMAT_VERSION
    found = list(read_batches(memoryview(data)))
    assert [(each.front_end, each.number, each.first_sequence) for each in found] == [
        batch[:3] for batch in batches
    ]
    for batch, (_, _, _, operations) in zip(found, batches, strict=True):
        decoded = list(read_operations(data, batch.start, batch.end))
        for got, wanted in zip(decoded, operations, strict=True):
            if type(got) is Publish:
                run, queues = wanted
                assert (got.queues, got.count, got.persistent) == (tuple(queues), run.count, run.persistent)
                assert read_run(data, got.position) == run
            else:
                assert got == wanted
        total = sum(wanted[0].count for wanted in operations if type(wanted) is tuple)
        assert count_messages(data[batch.start : batch.end]) == total


@given(st.binary(max_size=120), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, versioned: bool) -> None:
    data = bytes((FORMAT_VERSION,)) + data if versioned else data
    try:
        for batch in read_batches(data):
            list(read_operations(data, batch.start, batch.end))
            count_messages(data[batch.start : batch.end])
    except EntryFormatError:
        return


@given(st.data())
def test_damaged_operations_are_read_or_refused(data: st.DataObject) -> None:
    run = data.draw(RUNS)
    octets = bytearray(encode((run, [3, 4])) + encode(data.draw(OPERATIONS)))
    octets[data.draw(st.integers(0, min(40, len(octets) - 1)))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(octets)))
    try:
        count_messages(bytes(octets[:cut]))
    except EntryFormatError:
        return


def test_an_empty_entry_has_no_batches() -> None:
    assert list(read_batches(b"")) == []
    assert list(read_batches(encode_entry([]))) == []


def test_an_entry_of_another_version_is_refused_with_the_remedy() -> None:
    with pytest.raises(EntryFormatError, match="version 2, this release reads 1: start the release"):
        list(read_batches(b"\x02"))


@pytest.mark.parametrize(
    "operations",
    [
        bytes((200,)),
        encode_settle(1, [(5, 4)]),
        encode_settle(1, [(1, 2), (5, 4)]),
        encode_settle(1, [(1, 2)])[:-1],
        encode_create_queue(1, Semantics.AT_MOST_ONCE)[:-1] + b"\x07",
        encode_annotate(1, Aspect.EXPIRY, [(1, 2, 0)])[:-1],
        encode_annotate(1, Aspect.EXPIRY, [(1, 2, 0), (2, 3, 0)]),
        encode_remember_ids(1, 2, [bytes(16)])[:-1],
        encode((uniform_run(3), [1]))[:-1],
        encode((replace(uniform_run(3), routing_key=None, skip=OWN_METHODS), [1])),
        encode((Run("", "", 1, True, 0, 0, 0, None, 0, b""), [1])),
        encode((Run("", "", 1, True, 2, 0, 4, None, 4, b"1234567"), [1])),
    ],
    ids=[
        "kind",
        "range",
        "second range",
        "short",
        "semantics",
        "spans short",
        "spans",
        "ids short",
        "short body",
        "keys without lengths",
        "no message",
        "lengths",
    ],
)
def test_malformed_operations_never_enter_a_log(operations: bytes) -> None:
    with pytest.raises(EntryFormatError):
        count_messages(operations)


@pytest.mark.parametrize("size", [1, 10, 30])
def test_a_truncated_entry_is_refused(size: int) -> None:
    data = published(1, uniform_run(2), 7)
    with pytest.raises(EntryFormatError, match="cut short"):
        list(read_batches(data[:-size]))


@pytest.mark.requirement("A21.2")
def test_bodies_and_names_are_kept_octet_for_octet() -> None:
    run = Run("é\udcff", "\udc80k", 3, False, 2, 1, 6, None, 5, b"\x00head\xce\x01body\xce")
    data = published(10, run, 1)
    assert contents(data, 10, 11) == {10: b"head\xce", 11: b"body\xce"}
    ((_, found),) = EntryMessages(data).runs(10, 11)
    assert (found.exchange, found.routing_key, found.persistent) == ("é\udcff", "\udc80k", False)


def test_reading_a_run_copies_no_body() -> None:
    data = published(1, uniform_run(10), 1)
    ((_, run),) = EntryMessages(data).runs(3, 5)
    assert isinstance(run.raw, memoryview)
    assert run.raw.obj is data


def test_messages_are_found_by_sequence_over_batches_and_gaps() -> None:
    first, second = encode_publish(uniform_run(4), [1]), encode_publish(varied_run([1, 2, 3]), [1, 2])
    data = encode_entry(
        [
            encode_batch(5, 1, 100, [encode_mark(1, 9), *first, encode_settle(1, [(1, 2)]), *second]),
            encode_batch(5, 2, 0, [encode_settle(1, [(3, 3)])]),
            encode_batch(OWNER, 0, 200, second),
        ]
    )
    assert sorted(contents(data, 0, 999)) == [*range(100, 107), 200, 201, 202]
    assert contents(data, 103, 105) == {103: b"\0\0\0\0\3", 104: b"\0", 105: b"\1\1"}
    assert contents(data, 107, 199) == {}
    assert contents(data, 50, 99) == {}
    assert contents(data, 106, 200) == {106: b"\2\2\2", 200: b"\0"}
    assert [(start, op.count) for start, op in EntryMessages(data).publishes()] == [
        (100, 4),
        (104, 3),
        (200, 3),
    ]


def test_messages_are_found_without_a_look_at_operations_of_the_owner_alone() -> None:
    """Annotations of each message of an entry are as long as many messages."""
    told = encode_batch(OWNER, 0, 0, [b"\xff is no operation"])
    data = encode_entry([told, encode_batch(5, 1, 7, encode_publish(uniform_run(2), [1])), told])
    assert sorted(contents(data, 0, 99)) == [7, 8]


def test_kinds_in_journals_keep_their_numbers() -> None:
    assert {kind.name: kind.value for kind in OpKind} == {
        "PUBLISH": 1, "SETTLE": 2, "RETURN": 3, "RETURN_FAILED": 4, "DISCARD": 5, "PURGE": 6, "MARK": 7,
        "ATTACH": 8, "DETACH": 9, "CREATE_QUEUE": 10, "DROP_QUEUE": 11, "FORGET": 12, "ANNOTATE": 13,
        "REMOVE": 14, "ATTACH_CONSUMER": 15, "REFUSE": 16, "TRANSFER": 17, "TRANSFERRED": 18,
        "SEAL_QUEUE": 19, "UNDER_LEASE": 20, "MODIFIED": 21, "REMARK": 22, "TARGET": 23,
        "RETURN_CANCELLED": 24, "REFER": 25, "ADVANCE": 26, "NOTE": 27, "LENT": 28, "EPOCH": 29,
        "REMEMBER_IDS": 30, "FORGET_IDS": 31, "TAKE": 32, "READER": 33, "ROWS": 34,
        "PREPARE": 40, "DECIDE": 41, "PREPARED": 42, "DECIDED": 43, "CONCLUDE": 44, "END": 45, "ABANDON": 46,
    }  # fmt: skip


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param("14 0000000000000000 02 0700000000000000 00000000", id="no token"),
        pytest.param("14 0100000000000000", id="no settlement"),
        pytest.param("14 01000000", id="half a token"),
        pytest.param("14 0100000000000000 14 0200000000000000", id="a lease under a lease"),
        pytest.param("14 0100000000000000 06 0700000000000000 00000000", id="a purge"),
    ],
)
def test_a_lease_stands_in_front_of_a_settlement_alone(octets: str) -> None:
    with pytest.raises(EntryFormatError):
        list(read_operations(bytes.fromhex(octets)))


def test_the_format_of_version_1_stays() -> None:
    """An entry that an earlier release has written is read (design rule 7)."""
    run = Run("ex", "key", 2, True, 2, 1, 3, None, 2, b"abcdef")
    settle = encode_settle(7, [(1, 2)])
    data = one_batch([*encode_publish(run, [7]), settle], front_end=5, number=6, first_sequence=9)
    assert data == bytes.fromhex(
        "01"  # version
        "0500000000000000 0600000000000000 0900000000000000 4b000000"  # batch
        "01 03 00 0200 0100 02 03 02000000 0100 03000000 02000000 06000000"  # publish
        "0700000000000000 6578 6b6579 616263646566"  # queue, exchange, key, raw
        "02 0700000000000000 01000000 0100000000000000 0200000000000000"  # settle
    )
