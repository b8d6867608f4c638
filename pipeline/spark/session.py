"""Makes the sources known to a Spark session."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from pyspark.sql import SparkSession

from pipeline.spark.journal_source import JournalSource

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def register(spark: SparkSession) -> None:
    """Register the sources, and send the code of this package to the executors of the session. Their Python
    needs pyarrow and msgpack.
    """
    # The driver serves the file to executors from its place for as long as the session lasts.
    scratch = Path(tempfile.mkdtemp(prefix="quorate-pipeline-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    archive = scratch / "quorate-pipeline.zip"
    with ZipFile(archive, "w") as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            packed.write(path, path.relative_to(_PACKAGE.parent))
    spark.sparkContext.addPyFile(str(archive))
    spark.dataSource.register(JournalSource)
