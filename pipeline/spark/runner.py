"""Runs the tasks of jobs on the executors of a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from pipeline.sources.message_log import Run
from pipeline.spark.session import opened


def run_with(spark: SparkSession) -> Run[Any, Any]:
    """Runs tasks with a session, which has this package (`pipeline.spark.register`). Results alone come to
    the driver. A task that fails is tried again, as the session's settings say.
    """

    def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if not tasks:
            return []
        found: list[Any] = spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect()
        return found

    return run


@contextmanager
def runner_at(master: str) -> Iterator[Run[Any, Any]]:
    """Runs tasks with a session of its own at a master."""
    with opened(master) as spark:
        yield run_with(spark)
