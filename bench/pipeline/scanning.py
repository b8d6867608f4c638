"""`python -m bench.pipeline.scanning JSON`: a process whose Spark reads one frame, on so many cores.

A process has one JVM, which begins with the cores and the heap that the process has.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.pipeline.measuring import ROUNDS
from bench.pipeline.process_tree import peak_of_children
from pipeline.spark.session import opened

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Scan:
    """A frame and its options. `schema`: all columns without one; `cores`: of the whole process; `heap`: MiB
    of the JVM, in which driver and executors run.
    """

    source: str
    options: dict[str, str]
    schema: str = ""
    cores: int = 2
    heap: int = 1024


@dataclass(frozen=True, slots=True)
class Scanned:
    """Seconds of the middle round; MiB that the largest Python worker of all rounds has had resident, and
    that the JVM's heap holds behind a garbage collection.
    """

    seconds: float
    worker: float
    heap: float


def scanned(scan: Scan) -> Scanned:
    """Scan in a process of its own. Raises RuntimeError with what the process said."""
    command = [sys.executable, "-m", "bench.pipeline.scanning", json.dumps(asdict(scan))]
    submitted = {"PYSPARK_SUBMIT_ARGS": f"--driver-memory {scan.heap}m pyspark-shell"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | submitted)
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed: {done.stderr[-3000:]}")
    return Scanned(**json.loads(done.stdout.splitlines()[-1]))


def scan_here(scan: Scan) -> Scanned:
    """Scan in this process. Raises RuntimeError if the JVM has another heap than the scan is to have."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: scan.cores])
    with opened(f"local[{scan.cores}]") as spark:
        reader = spark.read.format(scan.source).options(**scan.options)
        frame = (reader.schema(scan.schema) if scan.schema else reader).load()
        times = []
        with peak_of_children(spark.sparkContext._gateway.proc.pid) as peak:
            for _ in range(ROUNDS + 1):
                begun = time.monotonic()
                frame.write.format("noop").mode("overwrite").save()
                times.append(time.monotonic() - begun)
        most, used = _heap(spark)
        if most > scan.heap:
            raise RuntimeError(f"the JVM has a heap of {most:.0f} MiB, not of {scan.heap}")
        return Scanned(statistics.median(times[1:]), peak.octets / MEBIBYTE, used)


def _heap(spark: SparkSession) -> tuple[float, float]:
    """MiB that the JVM's heap may have, and has behind a garbage collection."""
    java: Any = spark.sparkContext._jvm
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return runtime.maxMemory() / MEBIBYTE, (runtime.totalMemory() - runtime.freeMemory()) / MEBIBYTE


if __name__ == "__main__":
    print(json.dumps(asdict(scan_here(Scan(**json.loads(sys.argv[1]))))))
