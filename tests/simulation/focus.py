"""The focus of a seed: all faults at once, or one kind over and over, which finds defects sooner."""

from __future__ import annotations

from enum import StrEnum


class Focus(StrEnum):
    """The foci, by the option of `python -m tests.simulation`."""

    EVERYTHING = ""
    ELECTIONS = "elections"
    """Faults around elections only, and logs are sent entry by entry (figure 8 of the paper)."""
    MEMBERS = "members"
    """All faults, while nodes join and leave."""
    LEASES = "leases"
    """Late messages, and connections cut in one direction, while clients declare and leases are short."""
    ANSWERS = "answers"
    """Clients ask all the time for state that others change, while answering nodes are cut off."""
    RESTARTS = "restarts"
    """Nodes leave in order and start again, one after the other, with slow nodes and late messages."""

    CONSUMERS = "consumers"
    """Consumers share queues, are given up with messages that they keep, and come back."""
    COMMITS = "commits"
    """Clients commit over several partitions all the time, and are cut off in the middle of it."""

    @property
    def option(self) -> str:
        """The option behind a seed's number, for reports."""
        return f" --{self}" if self else ""
