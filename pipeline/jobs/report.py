"""The job report as a function."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from pipeline.jobs.settings import JOURNAL_OPTIONS, journals_of, queue_names, runner
from pipeline.journal.damage import FAIL, REPORT
from pipeline.log.nodes import NodesClient
from pipeline.log.options import named_options, node_urls, password_of
from pipeline.options import OptionError
from pipeline.report.job import Report, report_of
from pipeline.report.metrics import Sample, node_figures, queue_figures, samples_in

REPORT_OPTIONS: Final = (*JOURNAL_OPTIONS, "url", "user", "passwordFile", "caFile")


def report(options: Mapping[str, str], master: str | None = None) -> Report:
    """Report on the journals of nodes, and on nodes that run where `url` names them.

    Raises OptionError, MissingExtraError, EntryGoneError, DamageError, LogApiError, NoNodeError, OSError.
    """
    found = named_options(options, REPORT_OPTIONS)
    if not {"journals", "url"}.intersection(found):
        raise OptionError("journals, url or both say what to report on")
    on_damage = found.get("onDamage", FAIL)
    if on_damage not in (FAIL, REPORT):
        raise OptionError(f"onDamage is {FAIL} or {REPORT}, not {on_damage}")
    made = Report()
    if "journals" in found:
        with runner(master) as run:
            made = report_of(journals_of(found["journals"].split(";")), on_damage, run, queue_names(found))
    if "url" in found:
        _ask(found, made)
    return made


def _ask(found: Mapping[str, str], made: Report) -> None:
    """Add what nodes that run tell."""
    urls = node_urls(found["url"])
    if not found.get("user"):
        raise OptionError("the option user is missing")
    password = password_of(found.get("passwordFile"), os.environ)
    client = NodesClient(urls, found["user"], password, found.get("caFile"))
    samples = list[Sample]()
    for url in urls:
        made.nodes[url] = node_figures(samples_in(client.text(url, "/metrics")))
        samples += samples_in(client.text(url, "/metrics/queues"))
    made.running = queue_figures(samples)
