"""The messages of journals of several nodes: each committed one once, and no other one (F8)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from node.queue.entry_format import encode_batch, encode_entry, encode_publish
from node.queue.transaction_format import encode_conclude, encode_prepared
from node.queue.transaction_operations import Prepared, TransactionKey
from pipeline.audit.audit import audit
from pipeline.journal.segments import segments_in
from pipeline.options import OptionError
from pipeline.sources.committed import EntryGoneError
from pipeline.sources.journals import JournalMessages
from pipeline.sources.message_log import Piece
from tests.messages import content, run_of
from tests.pipeline.journals import rows_of
from tests.pipeline.test_audit import NAMES, Clustered, Planting, clustered, planting, written

__all__ = ["clustered", "planting", "written"]

pytestmark = pytest.mark.requirement("F8.2")


def source_of(directory: Path) -> JournalMessages:
    return JournalMessages([segments_in(one) for one in sorted(directory.iterdir())])


def pieces_of(source: JournalMessages, rows: int = 20) -> Iterator[Piece]:
    for log in source.logs():
        yield from source.pieces(log, None, rows)


def messages(source: JournalMessages, *pieces: Piece) -> list[tuple[str, bytes]]:
    """Bookmarks and octets, of all pieces unless some are given."""
    return [
        row
        for piece in pieces or list(pieces_of(source))
        for rows in source.read(piece, ["bookmark", "raw"])
        for row in zip(rows["bookmark"], rows["raw"], strict=True)
    ]


def test_each_message_comes_once_in_the_order_of_its_partition(written: Clustered) -> None:
    source = source_of(written.directory)
    found = messages(source)
    assert len(found) >= 3 * 3 * 20 + 3 * 4
    assert len({bookmark for bookmark, _ in found}) == len(found)
    parts = audit(segments_in(written.directory / name) for name in NAMES).partitions
    known = {
        row.bookmark: row.raw
        for name in NAMES
        for row in rows_of(written.directory / name, "messages")
        if row.log_index <= parts[row.partition].committed
    }
    assert dict(found) == known
    for log in source.logs():
        numbers = [int(mark[8:], 16) for mark, _ in messages(source, *source.pieces(log, None, 50))]
        assert numbers == sorted(numbers)


def test_pieces_go_on_behind_a_position_and_are_read_elsewhere(written: Clustered) -> None:
    source = source_of(written.directory)
    log = max(source.logs(), key=lambda one: len(list(source.pieces(one, None, 20))))
    whole = list(source.pieces(log, None, 20))
    assert len(whole) > 2 and all(one.end == later.first for one, later in pairwise(whole))
    elsewhere = pickle.loads(pickle.dumps(source))
    rest = list(source.pieces(log, whole[1].first, 20))
    assert messages(elsewhere, *rest) == messages(source, *whole[1:])
    assert list(source.pieces(log, whole[-1].end, 20)) == []


def prepared(planting: Planting, queue: int, partition: int, number: int, body: bytes) -> None:
    """Have all nodes commit a share of a transaction."""
    publish = b"".join(encode_publish(run_of([content(body)]), [queue]))
    share = Prepared(TransactionKey(7, number), 1, ((queue, number, number),), b"")
    planting.commit_entry(
        partition, encode_entry([encode_batch(0, 0, number, [publish, encode_prepared(share)])])
    )


@pytest.mark.parametrize("outcome", [True, False, None])
def test_messages_of_transactions_come_when_these_are_committed(
    planting: Planting, outcome: bool | None
) -> None:
    queue, partition = planting.clustered.place("more")
    prepared(planting, queue, partition, 1 << 61, b"of a transaction")
    behind = b"".join(encode_publish(run_of([content(b"behind")]), [queue]))
    planting.commit_entry(partition, encode_entry([encode_batch(0, 0, (1 << 61) + 9, [behind])]))
    if outcome is not None:
        planting.commit(partition, encode_conclude(TransactionKey(7, 1 << 61), outcome))
    assert planting.verdict().kept
    raws = [raw for _, raw in messages(source_of(planting.clustered.directory))]
    assert (content(b"of a transaction") in raws) is (outcome is True)
    assert (content(b"behind") in raws) is (outcome is not None)


def test_an_entry_that_all_nodes_have_freed_meanwhile(clustered: Clustered) -> None:
    source = source_of(clustered.directory)
    pieces = list(pieces_of(source))
    for path in clustered.directory.glob("*/*.segment"):
        path.unlink()
    with pytest.raises(EntryGoneError, match="run the job again"):
        messages(source, *pieces)


def test_journals_that_break_a_promise_are_refused(planting: Planting) -> None:
    _, partition = planting.clustered.place("q")
    chosen = next(one for one in planting.entries(partition) if len(one.payload) > 500)
    planting.change(partition, chosen.index, chosen.payload[:-1] + b"\0", "n2")
    assert not planting.verdict().kept
    source = source_of(planting.clustered.directory)
    with pytest.raises(OptionError, match="on node n2 is not that of node n1"):
        source.logs()


def test_two_journals_of_one_node_are_refused(written: Clustered) -> None:
    twice = [segments_in(written.directory / "n1")] * 2
    with pytest.raises(OptionError, match="two journals of one node: n1, n1"):
        JournalMessages(twice).logs()


def test_queues_have_their_numbers_where_no_snapshot_names_them(written: Clustered) -> None:
    source = source_of(written.directory)
    found = [rows["queue"] for piece in pieces_of(source) for rows in source.read(piece, ["queue"])]
    names = {name for one in found for name in one}
    known = [(name, str(number)) for name, (number, _) in written.queues.items()]
    assert names and all(len(names.intersection(one)) <= 1 for one in known)
    assert names <= {name for one in known for name in one}
