"""The job audit with Spark: the verdict that the audit without Spark gives."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.audit.audit import audit
from pipeline.audit.verdict import Promise
from pipeline.journal.damage import REPORT
from pipeline.journal.segments import segments_in
from tests.pipeline.test_audit import Clustered, Planting, clustered, written

__all__ = ["clustered", "written"]

pytestmark = pytest.mark.spark


def both(spark: Any, journals: Clustered) -> tuple[Any, Any]:
    from pipeline.spark.audit import audit_with

    segments = [segments_in(one) for one in sorted(journals.directory.iterdir())]
    return audit_with(spark, segments, REPORT).as_json(), audit(segments).as_json()


@pytest.mark.requirement("F8.1", "F8.6")
def test_the_verdict_is_the_same_with_spark(spark: Any, written: Clustered) -> None:
    found, expected = both(spark, written)
    assert found == expected
    assert found["kept"]


@pytest.mark.requirement("F8.1", "F8.6")
def test_violations_are_found_with_spark(spark: Any, clustered: Clustered) -> None:
    planting = Planting(clustered)
    _, partition = clustered.place("q")
    term = planting.entries(partition, "n2")[-1].term + 1
    for vote in ("n1", "n3"):
        planting.tell("n2", partition, commit=1, vote=vote, term=term)
    planting.verdict()
    found, expected = both(spark, clustered)
    assert found == expected
    assert [one["promise"] for one in found["violations"]] == [Promise.ONE_VOTE]
