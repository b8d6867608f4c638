"""The data pipeline: reads what a cluster has written, by its documented formats and its public API alone."""
