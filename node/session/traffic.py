"""Counters of publishes. Sessions add to them once a run; metrics and the administration read them."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Traffic:
    """Messages published on one connection, or on all connections of a node."""

    published: int = 0
    confirmed: int = 0
    confirmable: int = 0
    """Messages published on channels in confirm mode."""
    returned: int = 0
    """Mandatory messages that no queue took."""
    dropped: int = 0
    """Other messages that no queue took."""

    def add(self, other: Traffic) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class ExchangeFlow:
    """Messages published to an exchange on this node, and the copies of them that went to queues."""

    published: int = 0
    routed: int = 0
