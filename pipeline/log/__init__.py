"""Reads streams over the log API of a cluster (docs/log-api.md)."""
