"""What a seed is about: everything at once, or one kind of fault over and over, which finds faults sooner."""

from __future__ import annotations

from enum import StrEnum


class Focus(StrEnum):
    """By the option of `python -m tests.simulation` that asks for it."""

    EVERYTHING = ""
    ELECTIONS = "elections"
    """Nothing but elections goes wrong, and logs are sent entry by entry (figure 8 of the paper)."""
    MEMBERS = "members"
    """Everything, and nodes join and leave meanwhile."""
    LEASES = "leases"
    """Words come late, on ways that are cut in one direction, while clients declare and leases are short."""
    ANSWERS = "answers"
    """Clients ask all the time for what others change, while those who answer are cut off."""
    RESTARTS = "restarts"
    """Nodes leave in order and come back, one after the other, while some are slow and words come late."""

    @property
    def option(self) -> str:
        """As it stands behind a seed's number."""
        return f" --{self}" if self else ""
