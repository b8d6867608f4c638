"""OpenTelemetry traces of sampled messages; a node without traces configured records no spans."""
