"""The command `quorate pipeline`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cluster.cli.main import main
from replication.journal.records import RecordKind, encode_hard_state
from replication.raft.types import HardState
from tests.pipeline.journals import Written, entry, segment_of
from tests.pipeline.test_audit import Clustered, written

__all__ = ["written"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", *map(str, arguments)])


@pytest.mark.requirement("F8.6")
def test_the_audit_of_a_cluster_that_has_kept_its_promises(written: Clustered) -> None:
    done = run("audit", *sorted(written.directory.iterdir()))
    assert done.exit_code == 0, done.output
    assert done.output.startswith("3 nodes: n1, n2, n3\n")
    assert done.output.endswith("\nkept\n")
    told = json.loads(run("audit", "--json", *sorted(written.directory.iterdir())).output)
    assert (told["kept"], told["nodes"]) == (True, ["n1", "n2", "n3"])


def journal(directory: Path, *records: Written) -> Path:
    """A journal with these records in one batch."""
    directory.mkdir(parents=True)
    (directory / "0000000001.segment").write_bytes(segment_of([records]))
    return directory


def commit(index: int, **fields: int) -> Written:
    return Written(RecordKind.HARD_STATE, index, 1, encode_hard_state(HardState(1, "n1")), **fields)


@pytest.mark.requirement("F8.6")
def test_broken_promises_are_told_with_their_places(tmp_path: Path) -> None:
    journal(tmp_path / "n1" / "journal", entry(1, b"\x01"), commit(1))
    journal(tmp_path / "copy", entry(1, b""), commit(1))
    done = run("audit", tmp_path / "n1", f"other={tmp_path / 'copy'}")
    assert done.exit_code == 1
    assert (
        "entry 1 of term 1 is not that of node n1 (partition 1, node other, segment 1, offset 512)"
        in done.output
    )


def test_damage_fails_where_that_is_asked(tmp_path: Path) -> None:
    path = journal(tmp_path / "n1", entry(1, b"\x01cut"), commit(1)) / "0000000001.segment"
    assert run("audit", path.parent).exit_code == 0
    octets = bytearray(path.read_bytes())
    octets[3] ^= 1
    path.write_bytes(octets)
    done = run("audit", "--on-damage", "fail", path.parent)
    assert done.exit_code == 1
    assert f"{path} is damaged at offset 0: the head of the segment does not validate" in done.output
    assert run("audit", path.parent).exit_code == 1


def test_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("audit").exit_code == 2
    assert "is no directory" in run("audit", tmp_path / "none").output
    one, other = (journal(tmp_path / name / "n1", entry(1, b""), commit(1)) for name in "ab")
    assert "two journals of one node: n1, n1" in run("audit", one, other).output
    assert "has no segments of a journal" in run("audit", tmp_path / "empty").output


def test_the_command_stands_among_the_others() -> None:
    done = CliRunner().invoke(main, ["--help"])
    assert "pipeline" in done.output


@pytest.mark.requirement("F8.6")
def test_an_audit_with_spark_says_which_extra_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith(("pyspark.", "pipeline.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    done = run("audit", "--master", "local[1]", journal(tmp_path / "n1", entry(1, b"\x01"), commit(1)))
    assert done.exit_code == 2
    assert "pip install 'quorate[spark]'" in done.output


@pytest.mark.requirement("F8.5", "F8.8")
@pytest.mark.parametrize("job", [["archive", "t"], ["replay", "--archive=t"]])
def test_archives_say_which_extra_is_missing(
    job: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORATE_PASSWORD", "p")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in ("parquet", "source", "table"):
        monkeypatch.delitem(sys.modules, f"pipeline.archive.{name}", raising=False)
    topic = ["--topic=s"] if job[0] == "archive" else []
    done = run(*job, *topic, "--url=http://127.0.0.1:1", "--user=u")
    assert done.exit_code == 2 and "pip install 'quorate[spark]'" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("F8.5", "F8.7", "F8.8")
def test_the_nearest_option_of_a_job_is_named() -> None:
    for job, wrong, right in (
        (["archive", "t"], "--tpoic=s", "--topic"), (["replay"], "--to-queu=q", "--to-queue"),
        (["report"], "--jornal=d", "--journal"),
    ):  # fmt: skip
        done = run(*job, wrong)
        assert done.exit_code == 2 and right in done.output.partition("No such option")[2]
