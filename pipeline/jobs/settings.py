"""Options of jobs: which messages to read, and where tasks run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pipeline.journal.damage import FAIL, REPORT
from pipeline.journal.segments import Segment, segments_in
from pipeline.log.options import TOPIC_OPTIONS, checked_options
from pipeline.options import OptionError
from pipeline.sources.journals import JournalMessages
from pipeline.sources.message_log import MessageSource, Run, in_turn
from pipeline.sources.topics import TopicMessages

JOURNAL_OPTIONS: Final = ("journals", "onDamage", "queueNames")
EXTRA: Final = "needs an extra: pip install 'quorate[spark]'"


class MissingExtraError(Exception):
    """The job needs the extra `spark`, which is not installed."""


@contextmanager
def runner(master: str | None) -> Iterator[Run[Any, Any]]:
    """Runs tasks in this process, or with Spark at a master. Raises MissingExtraError."""
    if master is None:
        yield in_turn
        return
    try:
        from pipeline.spark.runner import runner_at
    except ImportError as error:
        raise MissingExtraError(f"--master {EXTRA} ({error})") from error
    with runner_at(master) as run:
        yield run


def source_of(given: Mapping[str, str], run: Run[Any, Any]) -> MessageSource:
    """The source of streams or journals that options name. Raises OptionError."""
    if "journals" not in given:
        return TopicMessages(checked_options({name: given[name] for name in given if name in TOPIC_OPTIONS}))
    wrong = [name for name in ("topic", *TOPIC_OPTIONS) if name in given and name != "maxRows"]
    if wrong:
        raise OptionError(f"journals and {wrong[0]}: messages are read from journals, or from topics")
    on_damage = given.get("onDamage", FAIL)
    if on_damage not in (FAIL, REPORT):
        raise OptionError(f"onDamage is {FAIL} or {REPORT}, not {on_damage}")
    names = queue_names(given)
    return JournalMessages(journals_of(given["journals"].split(";")), on_damage, run, names)


def queue_names(given: Mapping[str, str]) -> dict[int, str]:
    """The names of queues by number, of the option `queueNames`: `NUMBER=NAME;…`. Raises OptionError."""
    found = {}
    for one in filter(None, given.get("queueNames", "").split(";")):
        number, equals, name = one.partition("=")
        if not (equals and name and number.isascii() and number.isdigit()):
            raise OptionError(f"queueNames has NUMBER=NAME with ; between, not {one}")
        found[int(number)] = name
    return found


def journals_of(directories: Sequence[str]) -> list[list[Segment]]:
    """The segments of journals that are named as `[NAME=]DIR`. Raises OptionError."""
    found = []
    for one in directories:
        name, _, path = one.rpartition("=")
        try:
            segments = segments_in(path, name or None)
        except OSError:
            raise OptionError(f"{path} is no directory with a journal") from None
        if not segments:
            raise OptionError(f"{path} has no segments of a journal")
        found.append(segments)
    return found
