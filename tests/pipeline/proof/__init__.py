"""The proof of the pipeline on Spark: a query that runs while its parts are killed (docs/pipeline.md)."""
