"""Jobs on a Spark master with two workers, beside a cluster of three nodes (F8)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.spark_master import running_master, spark_environment
from tests.pipeline.test_spark_archive import declare_stream, mixed, read, stage, table_of
from tests.pipeline.test_spark_sink import channel, options
from tests.processes.nodes import Cluster
from tests.structure.tree import ROOT

__all__ = ["channel", "options"]

pytestmark = pytest.mark.spark

COPIES = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("nodes"))
    with cluster.running():
        yield cluster


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return spark_environment()


@pytest.fixture(scope="module")
def master(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_master(tmp_path_factory.mktemp("spark"), environment) as address:
        yield address


@pytest.mark.requirement("F8.1", "F8.5", "F8.8")
def test_workers_archive_and_replay(
    options: dict[str, str], cluster: Cluster, channel: Any, master: str, environment: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    for name in ("source", "copy"):
        declare_stream(channel, name)
    raws = mixed() * COPIES
    stage(options, "source", *raws)

    def run(*arguments: str) -> Any:
        command = [sys.executable, "-m", "pipeline", *arguments, "--json", f"--master={master}"]
        command += [f"--url={','.join(one.http for one in cluster.nodes)}", "--user=guest"]
        command += [f"--password-file={options['passwordFile']}"]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    table = str(tmp_path / "t")
    told = run("archive", table, "--topic=source", f"--task-bytes={4 << 20}")
    assert told["rows"] == len(raws) and told["files"] > 4
    assert [row["raw"] for row in table_of(tmp_path / "t")] == raws
    (replayed,) = run("replay", f"--archive={table}", "--to-queue=copy", "--batch-rows=50")
    assert replayed["messages"] == len(raws) and replayed["batches"] > 3
    assert sorted(one.raw or b"" for one in read(options, "copy")) == sorted(raws)
