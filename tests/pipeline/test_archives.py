"""A node's journal and its archive, read together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli.main import main
from pipeline.audit.audit import audit
from pipeline.journal.segments import FileOctets, OtherJournalError, Segment, SegmentReader, segments_in
from pipeline.journal.tables import read_table
from replication.journal.records import RecordKind, encode_hard_state
from replication.raft.types import HardState
from tests.pipeline.journals import Written, entry, segment_of


def name_of(number: int) -> str:
    return f"{number:010d}.segment"


def put(directory: Path, number: int, index: int, *, sealed: bool = True) -> Path:
    """A segment with one entry and the commit index."""
    directory.mkdir(parents=True, exist_ok=True)
    records: list[Written] = [
        entry(index, b""),
        Written(RecordKind.HARD_STATE, index, 1, encode_hard_state(HardState(1, "n1"))),
    ]
    path = directory / name_of(number)
    path.write_bytes(segment_of([records], number, sealed=sealed))
    return path


@pytest.fixture
def node(tmp_path: Path) -> str:
    """Segments 1 and 2 in the archive, 2 to 4 in the journal."""
    data, archive = tmp_path / "data" / "n1" / "journal", tmp_path / "archive" / "n1" / "journal"
    put(archive, 1, 1)
    put(data, 2, 2)
    put(data, 3, 3)
    put(data, 4, 4, sealed=False)
    os.link(data / name_of(2), archive / name_of(2))
    (archive / "0000000003.new").write_bytes(b"a copy that is not whole")
    (archive.parent / "lock").touch()
    return f"{data.parent},{archive.parent}"


@pytest.mark.requirement("F8.2")
def test_a_segment_that_is_in_both_counts_once(node: str) -> None:
    segments = segments_in(node)
    assert [(one.node, one.number, one.newest) for one in segments] == [
        ("n1", 1, False), ("n1", 2, False), ("n1", 3, False), ("n1", 4, True),
    ]  # fmt: skip
    rows = [row.log_index for one in segments for row in read_table(one, "entries", columns=("log_index",))]
    assert rows == [1, 2, 3, 4]
    verdict = audit([segments])
    assert (verdict.violations, verdict.damage, verdict.unread, verdict.entries) == ([], [], [], 4)


def test_the_command_takes_a_journal_with_its_archive(node: str) -> None:
    done = CliRunner().invoke(main, ["pipeline", "audit", f"n7={node}"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("1 nodes: n7\n")
    missing = CliRunner().invoke(main, ["pipeline", "audit", node + "/none"])
    assert f"{node.split(',')[1]}/none is no directory" in missing.output


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "linked"])
def test_a_segment_that_goes_to_the_archive_is_found_there(node: str, copied: bool) -> None:
    """The node stores segment 3 between the look at the directories and the reading."""
    segments = segments_in(node)
    data, archive = (Path(one) / "journal" for one in node.split(","))
    (archive / name_of(3)).write_bytes((data / name_of(3)).read_bytes())
    (data / name_of(3)).unlink()
    if copied:
        (data / "0000000003.spare").write_bytes(b"")
    verdict = audit([segments])
    assert (verdict.violations, verdict.unread, verdict.entries) == ([], [], 4)


def test_a_segment_that_is_in_no_directory_any_more_is_missing(node: str) -> None:
    (third,) = [one for one in segments_in(node) if one.number == 3]
    Path(third.path).unlink()
    with pytest.raises(FileNotFoundError):
        FileOctets.of(third)
    assert audit([segments_in(node)]).entries == 3


def test_directories_of_two_nodes_are_refused(node: str, tmp_path: Path) -> None:
    other = put(tmp_path / "other", 2, 2)
    octets = bytearray(segment_of([[entry(2, b"")]], 2, sealed=True, key=bytes(16)))
    other.write_bytes(octets)
    with pytest.raises(OtherJournalError, match=r"0000000002\.segment and .*segments of different journals"):
        segments_in(f"{node},{other.parent}")
    done = CliRunner().invoke(main, ["pipeline", "audit", f"{node},{other.parent}"])
    assert (done.exit_code, "segments of different journals" in done.output.replace("\n", " ")) == (2, True)


def test_a_head_that_is_damaged_is_no_other_journal(node: str) -> None:
    data = Path(node.split(",")[0]) / "journal" / name_of(2)
    copy = data.read_bytes()
    data.unlink()
    data.write_bytes(copy[:25] + b"\xff" + copy[26:])
    assert len(segments_in(node)) == 4


def test_a_directory_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    path = put(tmp_path / "data,1", 1, 1, sealed=False)
    assert segments_in(path.parent) == [Segment("data,1", str(path), 1, True)]
    octets = FileOctets.of(segments_in(path.parent)[0])
    assert len(list(SegmentReader(segments_in(path.parent)[0], octets).records())) == 3
    octets.close()
