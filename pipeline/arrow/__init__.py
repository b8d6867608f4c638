"""Columns of messages as Arrow has them, with the extra `quorate[spark]`."""
