"""Runs a job for `spark-submit`, which was told the master: `spark-submit …/submit.py JOB …`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pipeline.command import pipeline

if __name__ == "__main__":
    master = SparkSession.builder.getOrCreate().sparkContext.master
    pipeline([*sys.argv[1:], "--master", master], prog_name="submit.py")
