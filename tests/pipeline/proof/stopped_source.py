"""The data source `quorate` whose processes come to stops: at each they tell the proof so (`STOPS` in the
environment is its socket), and wait until they are let go on.

Readers and writers carry a `Stopping`, so that each process of Spark that has one imports this module.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from pipeline.log.blocks import Block
from pipeline.log.client import LogClient
from pipeline.log.sinks import SinkClient
from pipeline.log.takes import TakeClient
from pipeline.spark.topic_source import TopicSource

CALLS: Final[dict[str, tuple[type, str]]] = {
    "plan": (LogClient, "plan"),
    "advance": (LogClient, "advance"),
    "take": (TakeClient, "take"),
    "settle": (TakeClient, "commit"),
    "stage": (SinkClient, "stage"),
    "commit": (SinkClient, "commit"),
}
"""A stop is in front of each of these calls, and one behind it."""


class Stopping:
    """Marks a reader or a writer."""


class StoppedSource(TopicSource):
    """As `TopicSource`, with stops."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _marked(super().streamReader(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return _marked(super().streamWriter(schema, overwrite))


def _marked(one: Any) -> Any:
    one.stopping = Stopping()
    return one


def stop(point: str, **facts: str) -> None:
    """Come to a stop. Where the proof has ended, so does this process."""
    told = json.dumps({"point": point, "pid": os.getpid(), **facts})
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.environ["STOPS"])
            connection.sendall(told.encode() + b"\n")
            leave = connection.recv(1)
        except OSError:
            leave = b""
    if not leave:
        os._exit(1)


def _around(call: str, of: type, name: str) -> None:
    whole: Callable[..., Any] = getattr(of, name)

    def stopping(*arguments: Any, **named: Any) -> Any:
        stop(f"before {call}")
        found = whole(*arguments, **named)
        stop(f"after {call}")
        return found

    setattr(of, name, stopping)


def _in_reads(of: type, name: str) -> None:
    whole: Callable[..., Iterator[Block]] = getattr(of, name)

    def stopping(self: LogClient, url: str, path: str) -> Iterator[Block]:
        stop("before read", url=url, path=path)
        for block in whole(self, url, path):
            stop("in read", url=url, path=path)
            yield block

    setattr(of, name, stopping)


for _call, (_of, _name) in CALLS.items():
    _around(_call, _of, _name)
_in_reads(LogClient, "_read")
