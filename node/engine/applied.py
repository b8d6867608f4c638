"""What a log entry did to a partition, for its owner to act on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Applied:
    """What an entry did, for the owner to act on; other replicas ignore it.

    `appended` and `discarded` are (queue, first, last), `settled` (front end, queue, first, last),
    `returned` (front end, queue, first, last). `discarded` and `returned` name exactly the messages
    that were alive; `settled` what the operation said. `purged` is (queue, how many messages went).
    `acknowledged` maps each front end with batches in the entry to the highest number applied.
    """

    appended: list[tuple[int, int, int]] = field(default_factory=list)
    settled: list[tuple[int, int, int, int]] = field(default_factory=list)
    returned: list[tuple[int, int, int, int]] = field(default_factory=list)
    discarded: list[tuple[int, int, int]] = field(default_factory=list)
    purged: list[tuple[int, int]] = field(default_factory=list)
    created: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
