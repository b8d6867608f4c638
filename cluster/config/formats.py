"""Numbers of formats: what a release reads, and from which number on something may be written.

`cluster.catalog.membership.formats` has the rules.
"""

from __future__ import annotations

from typing import Final

FORMAT_LEVEL: Final = 1
"""What this release reads. 1: nodes say which formats they read, seal queues, and tell in requests for votes
whether every majority has the candidate."""

SEALED_QUEUES: Final = 1
"""From here on the log of a partition may seal a queue that is to be deleted if it is empty, or unused."""

MAJORITIES_IN_VOTES: Final = 1
"""From here on a node reads requests for votes that tell whether every majority has the candidate."""
