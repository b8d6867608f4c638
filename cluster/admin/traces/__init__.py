"""OpenTelemetry traces of sampled messages: what records spans, put in place only where they are wanted."""
