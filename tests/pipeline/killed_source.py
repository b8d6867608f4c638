"""A data source `quorate` whose driver is killed at a point of a query. The environment says where: `KILL_AT`
is a point and a number, such as `taken 2`, and `KILL_PIDS` a file with the processes of the driver.

The source and the sink run in processes of their own, which import this module, beside the driver.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pipeline.log.sinks import SinkClient
from pipeline.log.takes import TakeClient
from pipeline.spark.topic_source import TopicSource

POINTS: Final = {
    "taken": (TakeClient, "take", False),
    "settled": (TakeClient, "commit", False),
    "staged": (SinkClient, "commit", True),
    "sunk": (SinkClient, "commit", False),
}
"""By name: a method, and whether the point is in front of the call or behind it."""


class KilledSource(TopicSource):
    """As `TopicSource`; Spark's processes import this module with it."""


def kill_driver() -> None:
    """Kill the driver, its JVM and this process."""
    for pid in Path(os.environ["KILL_PIDS"]).read_text(encoding="ascii").split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_at(point: str, number: int) -> None:
    of, name, before = POINTS[point]
    whole: Callable[..., Any] = getattr(of, name)
    count = 0

    def counting(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if before and count == number:
            kill_driver()
        found = whole(*arguments, **named)
        if count == number:
            kill_driver()
        return found

    setattr(of, name, counting)


if "KILL_AT" in os.environ:
    _place, _number = os.environ["KILL_AT"].split()
    _kill_at(_place, int(_number))
