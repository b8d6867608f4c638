"""Reads the journals of nodes, as `docs/journal-format.md` describes them."""
