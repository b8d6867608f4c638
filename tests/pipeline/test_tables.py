"""The tables of the journals of a cluster, beside the deeds of its clients and the broker's own reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node.message.bookmarks import bookmark_of
from node.queue import operations as broker
from node.queue.entry_format import read_batches, read_operations
from pipeline.journal.rows import ROWS, OperationRow, columns_of
from replication.raft import EntryKind
from tests.cluster.test_modified_annotations import sent
from tests.pipeline.journals import opened, put_down, rows_of
from tests.site import Client, Site
from tests.wire.amqp10.sections import application, message

NAMES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Of a cluster that has had messages of both protocols, with every end that a message can take."""
    site = Site(*NAMES)
    client = site.client("n1")
    lives(client)
    sent(site, "ten", message(application(colour="red"), body=b"from 1.0"))
    site.run(0.5)
    yield put_down(site.nodes.values(), tmp_path_factory.mktemp("journals"))


def lives(client: Client) -> None:
    site = client.site
    for name in ("q", "grave", "purged", "ten"):
        client.declare(name)
    client.declare("mortal", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="grave")
    client.declare("once", semantics="at-most-once")
    client.declare("s", queue_type="stream")
    bodies = [f"{number}".encode() * number for number in range(1, 6)]
    client.confirms(client.publish("q", *bodies, headers={"n": 7, "deep": {"a": [1, "b"]}}, message_id="m"))
    client.confirms(client.publish("mortal", b"dies"))
    client.confirms(client.publish("purged", b"one", b"two"))
    client.confirms(client.publish("once", b"removed"))
    client.confirms(client.publish("s", b"stays"))
    client.purge("purged")
    client.consume("q", prefetch=10)
    site.until(lambda: len(client.deliveries) == 5)
    client.ack(client.deliveries[0])
    client.nack(client.deliveries[1], requeue=True)
    client.reject(client.deliveries[2], requeue=False)
    site.until(lambda: len(client.deliveries) == 6)
    assert client.get("once") is not None
    site.until(lambda: client.depth("grave") == 1)


def messages(journals: list[Path], node: int = 0) -> list[Any]:
    """The messages of the entries of one node."""
    return [row for row in rows_of(journals[node], "messages") if row.record == "entry"]


@pytest.mark.requirement("F8.2")
def test_messages_are_those_that_clients_published(journals: list[Path]) -> None:
    bodies = Counter(row.body for row in messages(journals))
    published = [f"{number}".encode() * number for number in range(1, 6)]
    published += [b"one", b"two", b"removed", b"stays", b"from 1.0"]
    assert bodies == Counter({**dict.fromkeys(published, 1), b"dies": 2})
    first = next(row for row in messages(journals) if row.body == b"1")
    assert (first.exchange, first.routing_key, first.persistent, first.format) == ("", "q", True, 0)
    assert first.properties == {"delivery_mode": 2, "message_id": "m"}
    assert first.headers == {"n": 7, "deep": {"a": [1, "b"]}}
    assert first.bookmark == bookmark_of(first.queue, first.sequence)
    later = next(row for row in messages(journals) if row.body == b"from 1.0")
    assert (later.format, later.routing_key, later.headers) == (1, "ten", {"colour": "red"})
    assert message(application(colour="red"), body=b"from 1.0") in later.raw
    (stream,) = {row.queue for row in messages(journals) if row.body == b"stays"}
    timed = {row.queue for row in messages(journals) if row.time is not None}
    assert timed == {stream}


@pytest.mark.requirement("F8.2")
def test_only_the_columns_that_are_named_are_decoded(journals: list[Path]) -> None:
    rows = rows_of(journals[0], "messages", columns=("bookmark", "raw"))
    assert rows
    assert {(row.properties, row.headers, row.body, row.time) for row in rows} == {(None,) * 4}
    assert all(row.raw for row in rows)
    without = rows_of(journals[0], "messages", columns=("bookmark",))
    assert [row.bookmark for row in without] == [row.bookmark for row in rows]
    assert {row.raw for row in without} == {None}


@pytest.mark.requirement("F8.2")
def test_operations_tell_what_became_of_the_messages(journals: list[Path]) -> None:
    numbers = {row.body: (row.queue, row.sequence) for row in messages(journals)}
    became: dict[str, set[tuple[int, int]]] = {}
    for row in rows_of(journals[0], "operations"):
        if row.first is not None and row.queue is not None:
            places = {(row.queue, number) for number in range(row.first, row.last + 1)}
            became.setdefault(row.action, set()).update(places)
    assert {numbers[b"1"], numbers[b"removed"]} <= became["settle"]
    assert numbers[b"22"] in became["return"]
    assert numbers[b"333"] in became["discard"]
    assert {numbers[b"one"], numbers[b"two"]} <= became["purge"]
    died = [row for row in rows_of(journals[0], "operations") if row.action == "expire"]
    assert {row.time is not None for row in died if row.kind == "annotate"} == {True}
    assert set(numbers.values()) <= became["publish"]


def described(operation: Any) -> tuple[Any, ...]:
    """The parts of an operation of the broker's that a row has as well."""
    ranges = getattr(operation, "ranges", None)
    if isinstance(operation, broker.Annotate):
        ranges = list(zip(operation.firsts, operation.lasts, strict=True))
    return getattr(operation, "queue", None), tuple(ranges or ())


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize("node", range(3))
def test_the_decoder_reads_what_the_broker_reads(journals: list[Path], node: int, tmp_path: Path) -> None:
    journal = opened(journals[node], tmp_path / "copy")
    entries = {(row.partition, row.log_index, row.term): row for row in rows_of(journals[node], "entries")}
    found: dict[tuple[int, int], dict[int, list[OperationRow]]] = {}
    for row in rows_of(journals[node], "operations"):
        of_entry = found.setdefault((row.segment, row.offset), {})
        of_entry.setdefault(row.position, []).append(row)
    compared = 0
    for partition in journal.partitions():
        log = journal.log(partition)
        for each in log.read(range(len(log.table))):
            row = entries[partition, each.index, each.term]
            assert (row.octets, row.kind) == (len(each.data), each.kind.name.lower())
            if partition and each.kind is EntryKind.NORMAL:
                ours = found.get((row.segment, row.offset), {})
                theirs = [
                    one
                    for batch in read_batches(each.data)
                    for one in read_operations(each.data, batch.start, batch.end)
                ]
                assert len(ours) == len(theirs)
                for position, operation in enumerate(theirs):
                    compare(ours[position], operation)
                    compared += 1
    assert compared > 20
    journal.close()


def compare(ours: list[OperationRow], theirs: Any) -> None:
    if isinstance(theirs, broker.Publish):
        assert {row.queue for row in ours} == set(theirs.queues or (None,))
        assert {row.last - row.first + 1 for row in ours} == {theirs.count}
        return
    queue, ranges = described(theirs)
    assert {row.queue for row in ours} == {queue}
    assert tuple((row.first, row.last) for row in ours if row.first is not None) == ranges


@pytest.mark.requirement("F8.2")
def test_raft_has_terms_votes_and_members(journals: list[Path]) -> None:
    rows = rows_of(journals[0], "raft")
    assert {row.what for row in rows} >= {"hard_state", "leader"}
    assert {row.vote for row in rows if row.vote is not None} <= set(NAMES)
    commits = [row.log_index for row in rows if row.what == "hard_state" and row.partition == 0]
    assert commits == sorted(commits)
    assert max(commits) > 0


@pytest.mark.requirement("F8.2")
def test_the_catalog_has_the_names_of_its_commands(journals: list[Path]) -> None:
    names = [name for row in rows_of(journals[0], "entries") for name in row.commands]
    assert names.count("declare_queue") == 7


@pytest.mark.requirement("F8.2")
def test_a_journal_without_damage_has_no_rows_of_damage(journals: list[Path]) -> None:
    assert [rows_of(one, "damage") for one in journals] == [[], [], []]


def test_every_table_has_typed_columns() -> None:
    assert {table: len(columns_of(table)) for table in ROWS} == {
        "messages": 19, "operations": 19, "entries": 14, "raft": 15, "damage": 7,
    }  # fmt: skip
