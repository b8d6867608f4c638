"""A driver that copies a queue to another one: `python -m tests.pipeline.killed_query OPTIONS` (JSON), which
is killed where `tests.pipeline.killed_source` says.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pipeline.spark.session import opened
from tests.pipeline.killed_source import KilledSource

if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    place, target = options.pop("checkpoint"), options.pop("target")
    with opened("local[2]") as spark:
        spark.sparkContext.setLogLevel("ERROR")
        pids = f"{spark.sparkContext._gateway.proc.pid} {os.getpid()}"
        Path(os.environ["KILL_PIDS"]).write_text(pids, encoding="ascii")
        spark.dataSource.register(KilledSource)
        frame = spark.readStream.format("quorate").options(**options).schema("body binary").load()
        sink = {name: options[name] for name in ("url", "user", "passwordFile")}
        writer = frame.repartition(2).writeStream.format("quorate").options(**sink, queue=target)
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        query.awaitTermination()
