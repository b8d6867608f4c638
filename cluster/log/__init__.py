"""The events that a node logs, and the writer of its log."""
