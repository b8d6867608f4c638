"""Sources for Spark, with the extra `quorate[spark]`; `register` makes them known to a session."""

from pipeline.spark.session import register

__all__ = ["register"]
