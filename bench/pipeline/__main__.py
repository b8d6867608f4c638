"""`python -m bench.pipeline`: measure, and print the table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
from pyspark.sql import SparkSession

from bench.load import build
from bench.pipeline.measuring import ROUNDS, Pipeline, fill_streams
from bench.pipeline.memory_source import MemorySource
from bench.pipeline.micro_batches import batches
from bench.pipeline.nodes import audits, beside_publishers, plans, sinks, takes
from bench.pipeline.resources import cores, memory
from bench.pipeline.sources import archives, sources
from bench.pipeline.stream_clients import streams_of_rabbitmq
from bench.pipeline.table import Measured, markdown
from bench.quorate import Quorate
from pipeline.log.options import PASSWORD_VARIABLE
from pipeline.spark.session import opened
from replication.journal import log as compiled_or_not

ROOT = Path(__file__).resolve().parents[2]
MEASURES: Final[dict[str, Callable[[Pipeline], Iterator[Measured]]]] = {
    "sources": sources,
    "streams": streams_of_rabbitmq,
    "archives": archives,
    "cores": cores,
    "memory": memory,
    "batches": batches,
    "sinks": sinks,
    "beside": beside_publishers,
    "plans": plans,
    "takes": takes,
    "audits": audits,
}
"""By the names that the option `--rows` has."""


def chosen_measures(_: click.Context, __: click.Parameter, value: str | None) -> list[str]:
    names = list(MEASURES) if value is None else value.split(",")
    if unknown := [name for name in names if name not in MEASURES]:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    return names


def searched(given: str) -> str:
    """Where the nodes and Spark's Python workers find their modules: where they are compiled, as `given`
    says, and then in the tree, which has the bench itself.
    """
    return os.pathsep.join([*filter(None, [given]), str(ROOT)])


@click.command()
@click.option("--rows", callback=chosen_measures, help="Measurements, with commas between; all without it.")
@click.option("--messages", default=500_000, show_default=True, type=click.IntRange(100))
@click.option("--seconds", default=5.0, show_default=True, help="Seconds of each load.")
@click.option("--planned", default=10_000_000, show_default=True, help="Messages of the stream of `plans`.")
@click.option("--tasks", default=2, show_default=True, help="Tasks of Spark at a time.")
def measure_pipeline(rows: list[str], messages: int, seconds: float, planned: int, tasks: int) -> None:
    """Measures sources, sink and audit of the pipeline on three nodes, beside their peers and limits."""
    build()
    os.environ["PYTHONPATH"] = searched(os.environ.get("PYTHONPATH", ""))
    os.environ[PASSWORD_VARIABLE] = "guest"
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", ignore_cleanup_errors=True) as directory:
        cluster = Quorate(Path(directory) / "quorate")
        cluster.start()
        try:
            with opened(f"local[{tasks}]") as spark:
                bench = Pipeline(
                    cluster, Path(directory) / "quorate" / "data", spark, messages, seconds, planned
                )
                found = list(_measured(bench, spark, rows))
        finally:
            cluster.stop()
    build_of = "interpreted" if str(compiled_or_not.__file__).endswith(".py") else "compiled"
    note = (
        f"{messages:,} messages of 256 octets, three {build_of} nodes, Spark with {tasks} tasks at a time, "
        f"all on {os.cpu_count()} cores; medians of {ROUNDS} rounds in turn, behind one that does not count."
    )
    click.echo(markdown(found, note))


def _measured(bench: Pipeline, spark: SparkSession, names: list[str]) -> Iterator[Measured]:
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(MemorySource)
    fill_streams(bench)
    for name in names:
        click.echo(f"measuring {name}", err=True)
        for measured in MEASURES[name](bench):
            click.echo(" | ".join(measured.cells()), err=True)
            yield measured


if __name__ == "__main__":
    measure_pipeline()
