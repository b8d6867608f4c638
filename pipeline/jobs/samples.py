"""The file with the samples of nodes that reports have taken: a line of JSON for each report."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.options import OptionError
from pipeline.report.samples import Observed, sample_in


def kept_samples(path: Path, now: Observed) -> list[Observed]:
    """The samples of a file, and this one, which becomes its last line. Raises OptionError, OSError."""
    found = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            found.append(sample_in(line))
        except ValueError:
            raise OptionError(f"line {number} of {path} is no sample of a report: remove that line") from None
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(now.as_json(), sort_keys=True) + "\n")
    return [*found, now]
