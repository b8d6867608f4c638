"""A Spark session on this machine, where the extra `spark` is installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

OF_SPARK = [path.name for path in Path(__file__).parent.glob("test_spark*.py")]

if find_spec("pyspark") is None:
    # Where only `make test` was run, those of `make test-pipeline` cannot be.
    collect_ignore = OF_SPARK


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores; a task that fails is tried again once. Spark binds an outer address, and runs another
    Python, unless it is told otherwise.
    """
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from pipeline.spark import register

    directory = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2, 2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()
