"""What clients have published, in plain counters: added to by runs, read by whoever looks."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Traffic:
    """Messages of one connection, or of all that a node had."""

    published: int = 0
    confirmed: int = 0
    confirmable: int = 0
    """Published on channels that confirm."""
    returned: int = 0
    """Mandatory, and no queue took them."""
    dropped: int = 0
    """Not mandatory, and no queue took them."""

    def add(self, other: Traffic) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class ExchangeFlow:
    """Messages that came to an exchange of one virtual host on this node, and copies that went to queues."""

    published: int = 0
    routed: int = 0
