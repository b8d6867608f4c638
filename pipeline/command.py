"""The command `quorate pipeline`, and its jobs.

Exit codes: 0 done, and every promise kept; 1 a promise is broken, or a file cannot be read; 2 wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from pipeline.audit.audit import audit as judge
from pipeline.audit.verdict import Verdict
from pipeline.jobs.commands import archive, replay, report
from pipeline.journal.damage import FAIL, REPORT, DamageError
from pipeline.journal.segments import OtherJournalError, Segment, directories_in, segments_in


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def pipeline() -> None:
    """Jobs over what a cluster has written."""


pipeline.add_command(archive)
pipeline.add_command(replay)
pipeline.add_command(report)


@pipeline.command()
@click.argument("journals", nargs=-1, required=True, metavar="[NAME=]DIR[,DIR]…")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--master", help="Have Spark at this master scan the journals, a task for each node.")
@click.option("--on-damage", type=click.Choice([REPORT, FAIL]), default=REPORT, show_default=True)
def audit(journals: Sequence[str], as_json: bool, master: str | None, on_damage: str) -> None:
    """Judge the journals of all nodes of a cluster together.

    DIR is a node's data directory, its journal, or a copy of that; the node's archive may stand behind it:
    `n1=/data/n1,/archive/n1`. NAME is the node's name, by default that of the data directory. The nodes may
    run.
    """
    found = [_journal(one) for one in journals]
    names = [segments[0].node for segments in found]
    if len(set(names)) < len(names):
        raise click.BadParameter(f"two journals of one node: {', '.join(names)}; give names as NAME=DIR")
    try:
        verdict = judge(found, on_damage) if master is None else _on_spark(master, found, on_damage)
    except (DamageError, OSError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(verdict.as_json(), indent=2))
    else:
        click.echo("\n".join(verdict.lines()))
    sys.exit(0 if verdict.kept else 1)


def _on_spark(master: str, journals: Sequence[Sequence[Segment]], on_damage: str) -> Verdict:
    """The verdict, with Spark. Raises click.UsageError where the extra `spark` is not installed."""
    try:
        from pipeline.spark.audit import audit_on
    except ImportError as error:
        raise click.UsageError(f"--master needs an extra: pip install 'quorate[spark]' ({error})") from error
    return audit_on(master, journals, on_damage)


def _journal(argument: str) -> list[Segment]:
    """The segments of a journal that the command line names. Raises click.BadParameter."""
    name, _, path = argument.rpartition("=")
    for one in directories_in(path):
        if not one.is_dir():
            raise click.BadParameter(f"{one} is no directory")
    try:
        segments = segments_in(path, name or None)
    except OtherJournalError as error:
        raise click.BadParameter(str(error)) from None
    if not segments:
        raise click.BadParameter(f"{path} has no segments of a journal")
    return segments
