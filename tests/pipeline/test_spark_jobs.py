"""The jobs as commands and with Spark, their options, and no password where others see it (F8)."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipimport import zipimporter

import pytest
from click.testing import CliRunner

from cluster.cli.main import main
from pipeline.archive.parquet import ARCHIVE_COLUMNS, WritesPiece
from pipeline.jobs.archive import archive
from pipeline.jobs.report import report
from pipeline.log.options import checked_options
from pipeline.log.sink_options import checked_sink_options
from pipeline.options import OptionError
from pipeline.replay.job import Target
from pipeline.replay.selection import Selection
from pipeline.replay.staging import StagesPiece
from pipeline.report.forecast import FEWEST_LEVELS
from pipeline.sources.topics import TopicMessages
from pipeline.spark.session import opened, packed_package
from tests.pipeline.test_spark_archive import publish, stream, table_of
from tests.pipeline.test_spark_sink import channel, cluster, options
from tests.processes.nodes import Cluster, until
from tests.structure.tree import ROOT

__all__ = ["channel", "cluster", "options", "stream"]

pytestmark = pytest.mark.spark


def test_a_job_leaves_the_session_of_its_program(spark: Any) -> None:
    with opened("local[1]") as used:
        assert used is spark
    assert spark.range(3).count() == 3


def test_executors_need_not_compile_the_package() -> None:
    """Code that a process compiles itself names the archive as its file."""
    archive = packed_package()
    assert archive == packed_package()
    code: Any = zipimporter(str(archive)).get_code("pipeline")
    assert code.co_filename == str(ROOT / "pipeline" / "__init__.py")


def test_no_task_has_the_password(options: dict[str, str], tmp_path: Path) -> None:
    """Tasks go to executors, and into event logs."""
    secret = tmp_path / "password"
    secret.write_text("a very secret word", encoding="utf-8")
    source = TopicMessages(checked_options({**options, "topic": "t", "passwordFile": str(secret)}))
    sink = checked_sink_options({**options, "passwordFile": str(secret)})
    for task in (
        WritesPiece(str(tmp_path), source, ARCHIVE_COLUMNS, "zstd"),
        StagesPiece(source, Selection(), Target("q"), sink),
    ):
        assert b"very secret" not in pickle.dumps(task)


WRONG: dict[str, dict[str, str]] = {
    "the option topik is not known; topic is": {"topik": "t"},
    "a secret is no option, as plans and event logs show password": {"password": "guest"},
    "an archive has no column bodi; body is": {"columns": "bodi"},
    "codec is one of zstd, snappy, none, not gzip": {"codec": "gzip"},
    "journals and topic: messages are read from journals, or from topics": {"journals": "/tmp"},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_of_an_archive_are_refused(options: dict[str, str], text: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=text):
        archive(str(tmp_path / "t"), {**options, "topic": "t", **WRONG[text]})
    assert not (tmp_path / "t").exists()


@pytest.mark.requirement("F8.5", "F8.8")
def test_the_commands_archive_and_replay(
    options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    publish(channel, stream, b"1", b"2")
    place = [f"--url={options['url']}", "--user=guest", f"--password-file={options['passwordFile']}"]

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(main, ["pipeline", *arguments, *place])
        assert done.exit_code == 0, done.output
        return done

    table = str(tmp_path / "t")
    told = json.loads(run("archive", table, f"--topic={stream}", "--json", "--compact").output)
    assert (told["rows"], told["batches"], told["compacted"]["files_after"]) == (2, 1, 1)
    done = run("archive", table, f"--topic={stream}", "--progress")
    assert done.output == "0 files with 0 messages and 0 octets in 0 batches\n"
    channel.queue_declare(f"{stream} queue", durable=True)
    done = run("replay", f"--archive={table}", f"--to-queue={stream} queue", "--progress")
    assert f"{stream}: 2 messages in 1 batches (replay-" in done.output
    assert "behind what was replayed up to" in run(
        "replay", f"--archive={table}", f"--to-queue={stream} queue"
    ).output  # fmt: skip
    assert [channel.basic_get(f"{stream} queue", auto_ack=True)[2] for _ in range(3)] == [b"1", b"2", None]


@pytest.mark.requirement("F8.1", "F8.5")
def test_spark_submit_runs_a_job(options: dict[str, str], channel: Any, stream: str, tmp_path: Path) -> None:
    publish(channel, stream, *[b"%d" % number for number in range(20)])
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }  # fmt: skip
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(ROOT / "pipeline" / "spark" / "submit.py"), "archive", str(tmp_path / "t"), "--json"]
    command += [f"--topic={stream}", f"--url={options['url']}", "--user=guest"]
    environment = {
        **os.environ, "QUORATE_PASSWORD": "guest", "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout[done.stdout.index("{") :])["rows"] == 20
    assert [int(row["body"]) for row in table_of(tmp_path / "t")] == list(range(20))
    logs = [path for path in events.rglob("events*") if path.is_file()]
    text = "".join(path.read_text(encoding="utf-8") for path in logs)
    assert "SparkListenerTaskEnd" in text and "QUORATE_PASSWORD" not in text


@pytest.mark.requirement("F8.7")
def test_a_report_has_metrics_of_nodes_that_run(options: dict[str, str], channel: Any, stream: str) -> None:
    publish(channel, stream, b"1", b"2", b"3")

    def seen() -> Any:
        """Pages of metrics are rendered now and then."""
        made = report(options).as_json()
        return made if made["running"].get(stream, {}).get("ready") == 3 else None

    made = until(seen, "the metrics have the stream")
    (node,) = made["nodes"].values()
    assert node["disk_free_bytes"] > 0 and node["latency"]["confirm"]["p50_s"] > 0


@pytest.mark.requirement("F8.7")
def test_a_forecast_by_spark_is_that_of_one_process(
    options: dict[str, str], cluster: Cluster, channel: Any, tmp_path: Path
) -> None:
    """The stream has a limit, which the node tells; times come from the journal."""
    arguments = {"x-queue-type": "stream", "x-max-length-bytes": 10**9}
    channel.queue_declare("forecast", durable=True, arguments=arguments)
    for _ in range(2 * FEWEST_LEVELS + 1):
        publish(channel, "forecast", b"x" * 1000)
    samples = tmp_path / "samples"
    copied = shutil.copytree(cluster[0].local.config.data_dir, tmp_path / "n1")
    asked = {"journals": str(copied)}
    # The journal has no snapshot of the catalog yet, which would tell the name. A node writes with the next
    # entry that an entry is committed.
    counts = {name: one.published for name, one in report(asked).queues.items()}
    (number,) = [name for name, published in counts.items() if published >= 2 * FEWEST_LEVELS]
    asked |= {**options, "queueNames": f"{number}=forecast", "samples": str(samples)}

    def told(master: str | None) -> dict[str, Any]:
        found = report(asked, master).as_json()["forecasts"]
        return {one["figure"]: one for one in found if one["name"] == "forecast"}

    here, there = told(None), told("local[2]")
    assert here["octets"] == there["octets"] and len(samples.read_text().splitlines()) == 2
    assert here["octets"]["limit"] == 10**9 and here["octets"]["rate_per_s"] > 0
    assert here["octets"]["back_test"]["ahead_s"] > 0
    assert here["octets"]["value"] >= 2 * FEWEST_LEVELS * 1000
