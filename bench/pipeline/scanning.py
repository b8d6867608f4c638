"""`python -m bench.pipeline.scanning JSON`: a process whose Spark reads one frame, on so many cores.

A process has one JVM, which begins with the cores that the process has.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from bench.pipeline.measuring import ROUNDS
from pipeline.spark.session import opened


@dataclass(frozen=True, slots=True)
class Scan:
    """A frame and its options. `cores`: of the whole process."""

    source: str
    options: dict[str, str]
    schema: str
    cores: int = 2


@dataclass(frozen=True, slots=True)
class Scanned:
    """Seconds of the middle round."""

    seconds: float


def scanned(scan: Scan) -> Scanned:
    """Scan in a process of its own. Raises RuntimeError with what the process said."""
    command = [sys.executable, "-m", "bench.pipeline.scanning", json.dumps(asdict(scan))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed: {done.stderr[-3000:]}")
    return Scanned(**json.loads(done.stdout.splitlines()[-1]))


def scan_here(scan: Scan) -> Scanned:
    """Scan in this process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: scan.cores])
    with opened(f"local[{scan.cores}]") as spark:
        frame = spark.read.format(scan.source).options(**scan.options).schema(scan.schema).load()
        times = []
        for _ in range(ROUNDS + 1):
            begun = time.monotonic()
            frame.write.format("noop").mode("overwrite").save()
            times.append(time.monotonic() - begun)
        return Scanned(statistics.median(times[1:]))


if __name__ == "__main__":
    print(json.dumps(asdict(scan_here(Scan(**json.loads(sys.argv[1]))))))
