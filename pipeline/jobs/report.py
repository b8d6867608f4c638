"""The job report as a function."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from time import time_ns
from typing import Final

from pipeline.jobs.samples import kept_samples
from pipeline.jobs.settings import JOURNAL_OPTIONS, journals_of, queue_names, runner
from pipeline.journal.damage import FAIL, REPORT
from pipeline.log.nodes import NodesClient
from pipeline.log.options import named_options, node_urls, password_of
from pipeline.options import OptionError
from pipeline.report.job import Report, report_of
from pipeline.report.metrics import Sample, node_figures, queue_figures, samples_in
from pipeline.report.samples import (
    Capacity,
    capacities_of,
    forecasts_of_journals,
    forecasts_of_samples,
    observed,
)

_AGE: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_QUEUES: Final = "/api/queues?columns=name,arguments,effective_policy_definition"

REPORT_OPTIONS: Final = (*JOURNAL_OPTIONS, "url", "user", "passwordFile", "caFile", "samples", "window")


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
    window = _window(found)
    if "samples" in found and "url" not in found:
        raise OptionError("samples keeps what nodes that run tell: url names them")
    made = Report()
    if "journals" in found:
        with runner(master) as run:
            made = report_of(journals_of(found["journals"].split(";")), on_damage, run, queue_names(found))
    capacities = _ask(found, made) if "url" in found else {}
    made.forecasts = forecasts_of_journals(made.queues, capacities, window)
    if "url" in found:
        now = observed(time_ns() // 1_000_000, made.running, made.nodes)
        samples = kept_samples(Path(found["samples"]), now) if "samples" in found else [now]
        made.forecasts += forecasts_of_samples(samples, capacities, window)
    return made


def _window(found: Mapping[str, str]) -> int | None:
    """The milliseconds that forecasts look back; None for all. Raises OptionError."""
    if "window" not in found:
        return None
    match = _AGE.fullmatch(found["window"])
    if match is None or not int(match[1]):
        raise OptionError(f"window is an age such as 30m, 12h or 7d, not {found['window']}")
    return int(match[1]) * _UNITS_S[match[2]] * 1000


def _ask(found: Mapping[str, str], made: Report) -> dict[str, Capacity]:
    """Add the figures of running nodes, and return the limits of their queues."""
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
    return capacities_of(client.json("GET", _QUEUES))
