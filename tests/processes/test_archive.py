"""Real nodes that use segments of their journals again, and keep them in archives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pika import BasicProperties

from pipeline.audit.audit import audit
from pipeline.audit.verdict import Verdict
from pipeline.journal.rows import MessageRow
from pipeline.journal.segments import segments_in
from pipeline.journal.tables import read_table
from tests.processes.nodes import Cluster, Node, until

SETTINGS = {"journal": {"segment_bytes": 1 << 20, "snapshot_bytes": 64 << 10}}
BODY = bytes(16 << 10)
PERSISTENT = BasicProperties(delivery_mode=2)
LEAST_STORED = 4


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes with archives in one directory. A file there is in the way of the third one."""
    cluster = Cluster(tmp_path, SETTINGS)
    for node in cluster.nodes:
        tables = node.configured()
        tables["node"]["archive_directory"] = str(tmp_path / "archive")
        node.replace_configuration(tables)
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "n3").touch()
    with cluster.running():
        yield cluster


def metric(node: Node, name: str) -> float:
    return node.metrics()[f"quorate_archive_{name}"]


def passed_through(node: Node, first: int, count: int) -> None:
    """Publish so many messages, each with its number, and consume them."""
    with closing(node.connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for number in range(first, first + count):
            channel.basic_publish("", "q", b"%08d" % number + BODY, PERSISTENT)
        for _ in range(count):
            method, _, _ = channel.basic_get("q")
            assert method is not None
            channel.basic_ack(method.delivery_tag)


def judged(cluster: Cluster, archive: Path | None) -> Verdict:
    """The audit of the journals of all nodes, with those archives that there are."""
    places = []
    for node in cluster.nodes:
        place = str(node.local.config.data_dir)
        if archive is not None and (archive / node.name).is_dir():
            place += f",{archive / node.name}"
        places.append(place)
    return audit(segments_in(place) for place in places)


def bodies(place: str) -> set[int]:
    """The numbers of the messages in the segments of a node."""
    found = set()
    for segment in segments_in(place):
        for row in read_table(segment, "messages", columns=("body",)):
            body = MessageRow(*row).body
            assert body is not None
            assert body[8:] == BODY
            found.add(int(body[:8]))
    return found


@pytest.mark.requirement("F8.2", "F8.6")
def test_archives_have_what_journals_have_let_go_and_one_that_fails_stops_no_client(
    archived: Cluster, tmp_path: Path
) -> None:
    archive, count = tmp_path / "archive", 0

    def stored() -> bool:
        return min(metric(node, "segments_stored_total") for node in archived.nodes[:2]) >= LEAST_STORED

    while not stored():
        passed_through(archived[count % 2], count, 60)
        count += 60
    until(lambda: metric(archived[2], "failing") == 1.0, "the third archive fails")
    failed = [
        line for line in archived[2].local.log_file.read_text().splitlines() if "archive_failed" in line
    ]
    assert [json.loads(line)["level"] for line in failed] == ["warning"]
    assert metric(archived[2], "waiting_bytes") >= 1 << 20
    owner = archived.owner("q")
    owner.kill()
    others = archived.others(owner)
    for node in others:
        passed_through(node, count, 60)
        count += 60
    (archive / "n3").unlink()
    owner.start()
    archived.wait_ready()
    archived[2].terminate()
    archived[2].start()
    archived.wait_ready()
    until(
        lambda: metric(archived[2], "segments_stored_total") >= LEAST_STORED, "the third archive has segments"
    )
    assert metric(archived[2], "failing") == 0.0
    alone, both = judged(archived, None), judged(archived, archive)
    for verdict in (alone, both):
        assert (verdict.violations, verdict.damage) == ([], [])
    part = max(both.partitions.values(), key=lambda one: one.published)
    assert part.judged[0] == (1, part.committed)
    assert part.published in (count - 1, count)
    assert sum(one.published for one in alone.partitions.values()) < count
    whole = next(node for node in archived.nodes[:2] if node is not owner)
    assert bodies(f"{whole.local.config.data_dir},{archive / whole.name}") == set(range(count))
    assert len(bodies(str(whole.local.config.data_dir))) < count
    linked = (archive / whole.name / "journal").iterdir()
    assert all(one.stat().st_nlink in (1, 2) for one in linked)
