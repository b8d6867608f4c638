"""Makes the sources known to a Spark session."""

from __future__ import annotations

import atexit
import marshal
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from pipeline.message.batches import BATCH_OCTETS
from pipeline.spark.journal_source import JournalSource
from pipeline.spark.topic_source import TopicSource

_LOOPBACK: Final = "127.0.0.1"
_LARGE_OCTETS: Final = "spark.executorEnv.MALLOC_MMAP_THRESHOLD_"
"""A variable of the GNU C library: an object of so many octets has memory of its own, which the system has
back at once. Workers would keep the memory of large messages otherwise.
"""
_UNCHECKED: Final = (1).to_bytes(4, "little")
_PACKAGE: Final = Path(__file__).resolve().parents[1]


@contextmanager
def opened(master: str) -> Iterator[SparkSession]:
    """A session at a master, with the sources, for as long as the context lasts. A process has one session:
    where its program has begun one, that session is used, wherever its master is, and goes on behind the
    context.

    Executors run the Python of this process, and a session on this machine stays on loopback, unless the
    environment says otherwise: Spark itself would take the first python3 of the path, and an outer address.
    """
    present = _present()
    if present is not None:
        register(present)
        yield present
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    builder = SparkSession.builder.master(master).appName("quorate pipeline")
    spark = builder.config(_LARGE_OCTETS, str(BATCH_OCTETS)).getOrCreate()
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


def _present() -> SparkSession | None:
    """The session that this process has."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def register(spark: SparkSession) -> None:
    """Register the sources, and send the code of this package to the executors of the session. Their Python
    needs pyarrow, numpy and msgpack.
    """
    spark.sparkContext.addPyFile(str(packed_package()))
    spark.dataSource.register(JournalSource)
    spark.dataSource.register(TopicSource)


@cache
def packed_package() -> Path:
    """An archive with the sources of this package, and with their code as this release of Python compiles it:
    Spark begins processes for each query, and each would compile the sources anew. Other releases of Python
    take the sources.
    """
    # The driver serves the file to executors from its place for as long as it has sessions.
    scratch = Path(tempfile.mkdtemp(prefix="quorate-pipeline-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    archive = scratch / "quorate-pipeline.zip"
    with ZipFile(archive, "w") as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            name = path.relative_to(_PACKAGE.parent)
            packed.write(path, name)
            packed.writestr(str(name.with_suffix(".pyc")), _compiled(path))
    return archive


def _compiled(path: Path) -> bytes:
    """The code of a module in the form of PEP 552, without a check of the source."""
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    return MAGIC_NUMBER + _UNCHECKED + source_hash(path.read_bytes()) + marshal.dumps(code)
