"""Tells the log of entries that the disk did not give back: found, mended, or lost with their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.log.event_log import EventLog
from replication.journal import DamagedEntryError

if TYPE_CHECKING:
    from cluster.broker.broker import Broker


class DamageLog:
    """Hears of a broker's damaged entries."""

    def __init__(self, broker: Broker, log: EventLog) -> None:
        self._queues = broker.catalog.state.queues_by_id
        self.log = log
        broker.repair.on_found = self._found
        broker.repair.on_repaired = self._repaired
        broker.lost_entries.on_lost = self._lost

    def _found(self, error: DamagedEntryError) -> None:
        self.log.warning("entry_damaged", **_place(error))

    def _repaired(self, error: DamagedEntryError, peer: str) -> None:
        self.log.warning("entry_repaired", peer=peer, **_place(error))

    def _lost(self, error: DamagedEntryError, counts: dict[int, int]) -> None:
        for queue, messages in counts.items():
            known = self._queues.get(queue)
            named = {"vhost": known.vhost, "queue": known.name} if known is not None else {"queue": queue}
            self.log.error("messages_lost", messages=messages, **named, **_place(error))


def _place(error: DamagedEntryError) -> dict[str, Any]:
    return {"partition": error.partition, "index": error.index, "file": error.file, "offset": error.offset}
