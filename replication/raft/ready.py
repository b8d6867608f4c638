"""The output of the Raft core: the work of its driver."""

from __future__ import annotations

from dataclasses import dataclass

from replication.raft.messages import Message
from replication.raft.types import Entry, HardState, ReadState, Snapshot


@dataclass(init=False, slots=True)
class Ready:
    """The driver's next work. Fields are in the order in which the driver must do it.

    1. Stage `hard_state`, `snapshot` (it replaces the whole log) and `entries` (they replace everything
       from `entries[0].index` on) into storage: readable there at once, durable later, in this order.
       Nothing else may be called on the core before that.
    2. Send `messages` at once.
    3. Send `messages_after_sync` once this and all earlier Readys are durable.
    4. Restore the state machine from `snapshot`, apply `committed` in order, then serve `reads`.

    `must_sync` is False if safety needs nothing here to be durable; the driver need not start a sync then.
    `committed` may have entries that are still on their way to this node's disk: a majority has them.
    """

    hard_state: HardState | None
    snapshot: Snapshot | None
    entries: list[Entry]
    messages: list[Message]
    messages_after_sync: list[Message]
    committed: list[Entry]
    reads: list[ReadState]
    must_sync: bool

    def __init__(
        self,
        hard_state: HardState | None,
        snapshot: Snapshot | None,
        entries: list[Entry],
        messages: list[Message],
        messages_after_sync: list[Message],
        committed: list[Entry],
        reads: list[ReadState],
        must_sync: bool,
    ) -> None:
        self.hard_state = hard_state
        self.snapshot = snapshot
        self.entries = entries
        self.messages = messages
        self.messages_after_sync = messages_after_sync
        self.committed = committed
        self.reads = reads
        self.must_sync = must_sync
