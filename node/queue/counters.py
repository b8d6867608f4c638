"""What has become of a queue's messages since its owner took it over: plain counters, for whoever looks."""

from __future__ import annotations

from dataclasses import dataclass, fields

from node.message.reason import Reason


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

    refused: int = 0
    """Messages that the queue did not take because it was full (queue argument x-overflow)."""
    dead_rejected: int = 0
    dead_expired: int = 0
    dead_maxlen: int = 0
    dead_delivery_limit: int = 0
    """Given up, and moved to the dead-letter exchange: by reason."""
    discarded_rejected: int = 0
    discarded_expired: int = 0
    discarded_maxlen: int = 0
    discarded_delivery_limit: int = 0
    """Given up for good: by reason."""

    def add(self, other: Tally) -> None:
        """Take over the counts of a queue that is gone."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def discarded(self, reason: Reason, count: int, *, dead_letters: bool) -> None:
        """The queue discards `count` messages, which are dead letters or gone."""
        name = f"{'dead' if dead_letters else 'discarded'}_{reason.name.lower()}"
        setattr(self, name, getattr(self, name) + count)

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
