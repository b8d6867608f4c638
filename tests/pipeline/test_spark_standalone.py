"""Jobs on a Spark master with two workers, beside a cluster of three nodes (F8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pyspark
import pytest

from chaos.targets.ports import free_ports
from tests.pipeline.test_spark_archive import declare_stream, mixed, read, stage, table_of
from tests.pipeline.test_spark_sink import channel, options
from tests.processes.nodes import Cluster, until
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
    return {
        **os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip


@pytest.fixture(scope="module")
def master(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    directory = tmp_path_factory.mktemp("spark")
    program = str(Path(pyspark.__path__[0]) / "bin" / "spark-class")
    port, pages = free_ports(2)
    address, of = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    place = ["--host", "127.0.0.1"]
    ports = ["--port", str(port), "--webui-port", str(pages)]
    commands = [[program, f"{of}.master.Master", *place, *ports]]
    for name in ("one", "two"):
        own = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / name), "--webui-port", "0"]
        commands.append([program, f"{of}.worker.Worker", *place, *own, address])
    log = directory / "log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        for command in commands:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        until(lambda: alive(f"http://127.0.0.1:{pages}/json/") == 2, lambda: log.read_text("utf-8"), 120)
        yield address


def alive(url: str) -> int:
    """How many workers the master at an address has."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=10) as page:
            found: int = json.loads(page.read())["aliveworkers"]
            return found
    except URLError:
        return 0


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
