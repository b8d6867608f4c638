"""Logs damaged entries: found on reading, repaired by another replica, or lost with their messages."""

from __future__ import annotations

from typing import Any

from cluster.log.event_log import EventLog
from cluster.owner.lost_entries import MessageLoss
from replication.journal import DamagedEntryError


class DamageLog:
    """Observes the damaged entries of a node."""

    def __init__(self, log: EventLog) -> None:
        self.log = log

    def found(self, error: DamagedEntryError) -> None:
        self.log.warning("entry_damaged", **_place(error))

    def repaired(self, error: DamagedEntryError, peer: str) -> None:
        self.log.warning("entry_repaired", peer=peer, **_place(error))

    def lost(self, error: DamagedEntryError, losses: list[MessageLoss]) -> None:
        for loss in losses:
            named: dict[str, Any] = {"queue": loss.queue}
            if loss.name is not None:
                named["vhost"], named["queue"] = loss.name
            self.log.error("messages_lost", messages=loss.messages, **named, **_place(error))


def _place(error: DamagedEntryError) -> dict[str, Any]:
    return {"partition": error.partition, "index": error.index, "file": error.file, "offset": error.offset}
