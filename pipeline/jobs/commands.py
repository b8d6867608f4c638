"""The jobs archive and replay as commands of `quorate pipeline`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import click

from pipeline.archive.job import ArchiveError
from pipeline.jobs.archive import ArchiveOutcome
from pipeline.jobs.archive import archive as archive_job
from pipeline.jobs.replay import replay as replay_job
from pipeline.jobs.report import report as report_job
from pipeline.jobs.settings import MissingExtraError
from pipeline.journal.damage import JournalReadError
from pipeline.log.nodes import LogApiError, NoNodeError
from pipeline.log.options import NotThereYetError
from pipeline.log.sinks import RowError
from pipeline.octets.cursor import MalformedError
from pipeline.options import OptionError
from pipeline.replay.job import Replayed, ReplayError
from pipeline.report.job import Report
from pipeline.report.page import html_of, text_of

_FAILURES: Final = (
    ArchiveError, ReplayError, JournalReadError, LogApiError, NoNodeError, NotThereYetError, RowError,
    MalformedError, OSError, HTTPException,
)  # fmt: skip

_Command = Callable[..., Any]

_CLUSTER: Final = (
    ("url", "The HTTP address of a node, or of several with commas between."),
    ("user", "Who reads and writes."),
    ("passwordFile", "A file with the password; without it the environment has QUORATE_PASSWORD."),
    ("caFile", "The certificates that nodes are trusted by."),
    ("vhost", "The virtual host; / by default."),
)
_TOPIC: Final = (
    ("topic", "A stream, or a pattern ^…$ of names of streams."),
    ("startingAt", "Where a topic begins: earliest, latest, a bookmark, a time, or an age such as 12h."),
    ("endingAt", "Where a topic ends: latest, a bookmark, a time or an age."),
    ("taskBytes", "Octets of the log for each task; 64 MiB by default."),
    ("onGone", "Where retention has passed messages: fail, or continue with the oldest one."),
)
_ARCHIVE: Final = (
    ("name", "The name of the job, under which the table has its progress; archive by default."),
    ("maxRows", "Messages of a batch, which a commit adds as one; 10,000,000 by default."),
    ("columns", "The columns that the table has, beside those that a replay needs; all by default."),
    ("codec", "zstd (the default), snappy or none."),
    ("compactBytes", "The octets up to which --compact joins files; 256 MiB by default."),
)
_REPLAY: Final = (
    ("archive", "Replay an archive: the directory of its table."),
    ("toQueue", "The queue that messages go to; by default each goes to a queue of the name of its own."),
    ("toExchange", "The exchange that messages go to, with their own routing keys."),
    ("toVhost", "The virtual host that messages go to; that of --vhost by default."),
    ("fromQueue", "Replay the messages of this queue alone."),
    ("key", "Replay messages with routing keys as a topic exchange matches them: a.*.c, a.#."),
    ("since", "Replay messages that came at this time (ISO 8601) or later."),
    ("before", "Replay messages that came before this time."),
    ("first", "The bookmark of the first message."),
    ("last", "The bookmark of the last message."),
    ("rate", "Messages a second at most."),
    ("batchRows", "Messages of a batch, which becomes visible as one; 100,000 by default."),
    ("unroutable", "fail (the default) or drop: the fate of messages that no queue takes."),
    ("blockBytes", "Octets of a block; 1 MiB by default."),
    ("name", "The name of the replay: messages that it has replayed do not come again."),
)


_FORECAST: Final = (
    ("samples", "A file that keeps what nodes tell: each report adds a line, and forecasts by all of them."),
    ("window", "How far forecasts look back: 30m, 12h or 7d; over everything by default."),
)


def _flag(name: str) -> str:
    return "--" + "".join(f"-{one.lower()}" if one.isupper() else one for one in name)


def _with(*tables: Sequence[tuple[str, str]]) -> Callable[[_Command], _Command]:
    """Adds an option for each row of the tables."""

    def add(command: _Command) -> _Command:
        for name, text in reversed([row for table in tables for row in table]):
            command = click.option(_flag(name), name, help=text)(command)
        return command

    return add


def _of_jobs(command: _Command) -> _Command:
    for one in (
        click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON."),
        click.option("--master", help="Have Spark at this master run the tasks."),
        click.option(
            "--queue-names", "queueNames", metavar="NUMBER=NAME;…", help="Names of queues in journals."
        ),
        click.option(
            "--on-damage", "onDamage", type=click.Choice(["fail", "report"]), help="Damage in journals."
        ),
        click.option(
            "--journal", "journals", multiple=True, metavar="[NAME=]DIR", help="A node's journal; repeat it."
        ),
    ):
        command = one(command)
    return command


_PROGRESS: Final = click.option("--progress", is_flag=True, help="Tell each batch on the standard error.")


def given(options: dict[str, Any]) -> dict[str, str]:
    """The options that were given, as texts."""
    texts = {name: value for name, value in options.items() if isinstance(value, str)}
    if options.get("journals"):
        texts["journals"] = ";".join(options["journals"])
    return texts | {name: "true" for name, value in options.items() if value is True}


def carried_out(work: Callable[[], Any]) -> Any:
    """The result of a job. A failure ends the process with 1. Raises UsageError for wrong usage."""
    try:
        return work()
    except (OptionError, MissingExtraError) as error:
        raise click.UsageError(str(error)) from error
    except _FAILURES as error:
        click.echo(str(error) or type(error).__name__, err=True)
        sys.exit(1)
    except Exception as error:
        if not type(error).__module__.startswith(("py4j", "pyspark", "deltalake", "_internal", "pyarrow")):
            raise
        click.echo(str(error), err=True)
        sys.exit(1)


def teller(progress: bool) -> Callable[[str], None]:
    """Takes the lines about the progress of a job."""
    return (lambda line: click.echo(line, err=True)) if progress else (lambda line: None)


@click.command()
@click.argument("table", metavar="TABLE")
@_with(_CLUSTER, _TOPIC, _ARCHIVE)
@click.option("--compact", is_flag=True, help="Join small files, and remove those of no use.")
@_PROGRESS
@_of_jobs
def archive(table: str, master: str | None, as_json: bool, progress: bool, **options: Any) -> None:
    """Archive the messages of streams, or of journals, in a Delta table.

    TABLE is the directory of the table, which is made if it is not there. The table has the progress: run the
    job again for what has come since.
    """
    done: ArchiveOutcome = carried_out(lambda: archive_job(table, given(options), master, teller(progress)))
    if as_json:
        click.echo(json.dumps(done.as_json(), indent=2))
        return
    click.echo("{2} files with {1} messages and {3} octets in {0} batches".format(*done.added))
    if done.compacted is not None:
        click.echo("compacted from {} files to {}, {} removed".format(*done.compacted))


@click.command()
@_with(_CLUSTER, _TOPIC, _REPLAY)
@click.option("--dry-run", "dryRun", is_flag=True, help="Count what would be replayed, and write nothing.")
@_PROGRESS
@_of_jobs
def replay(master: str | None, as_json: bool, progress: bool, **options: Any) -> None:
    """Replay messages of an archive, of journals or of streams into queues, bit for bit.

    A replay that is run again goes on behind what it has replayed.
    """
    done: list[Replayed] = carried_out(lambda: replay_job(given(options), master, teller(progress)))
    if as_json:
        click.echo(json.dumps([one._asdict() for one in done], indent=2))
        return
    for one in done:
        behind = "" if one.skipped is None else f", behind what was replayed up to {one.skipped}"
        click.echo(f"{one.log}: {one.messages} messages in {one.batches} batches{behind} ({one.sink})")


@click.command()
@_with(_CLUSTER[:-1], _FORECAST)
@click.option("--html", metavar="FILE", help="Write the report as an HTML page, too.")
@_of_jobs
def report(master: str | None, as_json: bool, html: str | None, **options: Any) -> None:
    """Report on queues, from the journals of all nodes, and from nodes that run.

    Time in queue, publish to settlement, redeliveries, dead letters, lag, fairness, hot keys, and when queues
    and disks fill.
    """

    def work() -> Report:
        made = report_job(given(options), master)
        if html is not None:
            Path(html).write_text(html_of(made), encoding="utf-8")
        return made

    done: Report = carried_out(work)
    click.echo(json.dumps(done.as_json(), indent=2) if as_json else text_of(done))
