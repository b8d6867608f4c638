"""What has become of a queue's messages since its owner took it over: plain counters, for whoever looks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Messages by what was done with them. Counted by range, never one by one.

    What left by basic.get is counted apart from deliveries, and so is what needs no acknowledgement.
    """

    published: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    got: int = 0
    got_no_ack: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    got_empty: int = 0
    """Times that basic.get found nothing."""
    duplicates: int = 0
    """Messages dropped because their id had been seen (queue argument x-deduplication-window)."""

    def add(self, other: Tally) -> None:
        """Take over the counts of a queue that is gone."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def served(self, count: int, *, by_get: bool, no_ack: bool, redelivered: bool) -> None:
        """`count` messages went to one consumer."""
        if redelivered:
            self.redelivered += count
        if by_get:
            self.got += 0 if no_ack else count
            self.got_no_ack += count if no_ack else 0
        elif no_ack:
            self.delivered_no_ack += count
        else:
            self.delivered += count
