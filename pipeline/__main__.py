"""`python -m pipeline`: the jobs of the data pipeline."""

from __future__ import annotations

from pipeline.command import pipeline

pipeline(prog_name="python -m pipeline")
