"""The job audit with Spark: executors scan the journals, a task for each node, and the driver judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from pipeline.audit.audit import Scan, audit
from pipeline.audit.verdict import Verdict
from pipeline.journal.segments import Segment
from pipeline.spark.session import opened


def audit_with(spark: SparkSession, journals: Sequence[Sequence[Segment]], on_damage: str) -> Verdict:
    """Judge journals with a session, which has this package (`pipeline.spark.register`). The driver and the
    executors see the same files.

    Raises DamageError, OSError, or an error of Spark's that has one of them in its text.
    """

    def scans(
        scan: Callable[[Sequence[Segment]], Scan], wanted: Sequence[Sequence[Segment]]
    ) -> Sequence[Scan]:
        found: list[Scan] = spark.sparkContext.parallelize(wanted, max(len(wanted), 1)).map(scan).collect()
        return found

    return audit(journals, on_damage, scans)


def audit_on(master: str, journals: Sequence[Sequence[Segment]], on_damage: str) -> Verdict:
    """The same with a session of its own at a master."""
    with opened(master) as spark:
        return audit_with(spark, journals, on_damage)
