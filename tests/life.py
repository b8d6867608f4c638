"""The table of a message's life, as models of queues read it: no message goes a way that the table lacks."""

from __future__ import annotations

from node.queue.life import LEGAL, Place

walked: set[tuple[Place, Place]] = set()
"""The ways that messages of models have gone since this process began."""


def goes(place: Place, to: Place) -> None:
    """A message goes from one place to another, or stays. Raises AssertionError."""
    if place is not to:
        assert (place, to) in LEGAL, f"no message goes from {place} to {to}"
        walked.add((place, to))
