"""The job replay as a function."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pipeline.jobs.settings import EXTRA, JOURNAL_OPTIONS, MissingExtraError, runner, source_of
from pipeline.log.options import TOPIC_OPTIONS, named_options, number_option
from pipeline.log.sink_options import SinkOptions, checked_sink_options
from pipeline.options import OptionError
from pipeline.replay.job import BATCH_ROWS, Replay, Replayed, Target, count_messages, replay_messages
from pipeline.replay.pace import Pace
from pipeline.replay.selection import Selection, checked_bookmark, time_of
from pipeline.replay.staging import CountsPiece, SinkLedger, StagesPiece
from pipeline.sources.message_log import MessageSource, Run

REPLAY_OPTIONS: Final = (
    *TOPIC_OPTIONS, *JOURNAL_OPTIONS, "archive", "toQueue", "toExchange", "toVhost", "unroutable",
    "blockBytes", "name", "fromQueue", "key", "since", "before", "first", "last", "rate", "batchRows",
    "dryRun",
)  # fmt: skip
_OF_CLUSTER: Final = ("url", "user", "passwordFile", "caFile")
_OF_SINK: Final = ("unroutable", "blockBytes")


def replay(
    options: Mapping[str, str],
    master: str | None = None,
    told: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> list[Replayed]:
    """Replay messages of an archive, of journals or of topics into queues of a cluster.

    Raises OptionError, MissingExtraError, ReplayError, and as sources, ledger and tasks.
    """
    found = named_options(options, REPLAY_OPTIONS)
    _check_source(found)
    selection, target, sink = _selection(found), _target(found), _sink(found)
    rate = number_option(found, "rate")
    rows = number_option(found, "batchRows") or BATCH_ROWS
    if rate is not None:
        # A batch becomes visible as one: a second's messages at most.
        rows = min(rows, rate)
    with runner(master) as run:
        source = _source(found, run)
        pace = Pace(rate, clock, pause)
        job = Replay(source, selection, target, SinkLedger(sink), pace, found.get("name"), rows, run, told)
        if found.get("dryRun") == "true":
            return count_messages(job, CountsPiece(source, selection))
        return replay_messages(job, StagesPiece(source, selection, target, sink))


def _check_source(found: Mapping[str, str]) -> None:
    kinds = [name for name in ("archive", "journals", "topic") if name in found]
    if len(kinds) != 1:
        raise OptionError("one of archive, journals and topic says what to replay")


def _source(found: Mapping[str, str], run: Run[Any, Any]) -> MessageSource:
    if "archive" not in found:
        of_cluster = () if "topic" in found else (*_OF_CLUSTER, "vhost")
        return source_of({name: one for name, one in found.items() if name not in of_cluster}, run)
    try:
        from pipeline.archive.source import ArchivedMessages
    except ImportError as error:
        raise MissingExtraError(f"an archive {EXTRA} ({error})") from error
    return ArchivedMessages(found["archive"])


def _sink(found: Mapping[str, str]) -> SinkOptions:
    given = {name: found[name] for name in (*_OF_CLUSTER, *_OF_SINK) if name in found}
    vhost = found.get("toVhost", found.get("vhost", "/"))
    return checked_sink_options({**given, "vhost": vhost})


def _target(found: Mapping[str, str]) -> Target:
    if "toQueue" in found and "toExchange" in found:
        raise OptionError("toQueue and toExchange: messages go to a queue, or by an exchange")
    if "topic" in found and not {"toQueue", "toExchange"}.intersection(found):
        raise OptionError("a topic is not replayed into itself: toQueue or toExchange says where to")
    return Target(found.get("toQueue"), found.get("toExchange"))


def _selection(found: Mapping[str, str]) -> Selection:
    times = {name: time_of(found[name]) for name in ("since", "before") if name in found}
    marks = {name: checked_bookmark(found[name]) for name in ("first", "last") if name in found}
    return Selection(
        found.get("fromQueue"), found.get("key"), times.get("since"), times.get("before"),
        marks.get("first"), marks.get("last"),
    )  # fmt: skip
