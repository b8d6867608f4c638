"""`make bench-pipeline`: the data pipeline beside its peers and its limits, on one machine, in one run."""
