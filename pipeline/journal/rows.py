"""The rows of the tables of a journal."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pipeline.journal.damage import Damage
from pipeline.message.row_types import types_of


class MessageRow(NamedTuple):
    """A message in one queue, as one record of one node has it. `time`: when the owner took the message, in
    milliseconds since the epoch, where the journal tells (messages of streams). `record`: `entry`, or `kept`
    or `received` for a copy. `raw`: the message bit for bit, properties included.
    """

    node: str
    segment: int
    offset: int
    record: str
    partition: int
    log_index: int
    term: int
    bookmark: str
    queue: int
    sequence: int
    time: int | None
    exchange: str
    routing_key: str
    persistent: bool
    format: int
    properties: dict[str, Any] | None
    headers: dict[str, Any] | None
    body: bytes | None
    raw: bytes | None


class OperationRow(NamedTuple):
    """An operation, or one range of messages of an operation that has several. `position` is the operation's
    place in its entry. `time` is in milliseconds since the epoch, where the operation states one: the time of
    an expiry, a delay, a death, an arrival, or of ids. `value` is a number that the kind states, `name` a
    word.
    """

    node: str
    segment: int
    offset: int
    record: str
    partition: int
    log_index: int
    term: int
    front_end: int
    batch: int
    position: int
    action: str
    kind: str
    queue: int | None
    first: int | None
    last: int | None
    time: int | None
    value: int | None
    name: str | None
    transaction: int | None


class EntryRow(NamedTuple):
    """An entry of a partition's log. `digest` has 16 octets of BLAKE2b of the data. `commands` are those of
    an entry of the catalog.
    """

    node: str
    segment: int
    offset: int
    record: str
    partition: int
    generation: int
    log_index: int
    term: int
    kind: str
    octets: int
    digest: bytes
    batches: int
    messages: int
    commands: list[str]


class RaftRow(NamedTuple):
    """A step of Raft: `hard_state`, `snapshot`, `membership`, `leader` (the first entry of a term), `drop`,
    `seal`, or `unknown(n)` for a record of a newer release. The index of a hard state is its commit index.
    """

    node: str
    segment: int
    offset: int
    partition: int
    generation: int
    what: str
    log_index: int
    term: int
    vote: str | None
    joining: bool
    voters: list[str]
    outgoing: list[str]
    learners: list[str]
    last_index: int | None
    octets: int


ROWS: Final[dict[str, type[tuple[Any, ...]]]] = {
    "messages": MessageRow,
    "operations": OperationRow,
    "entries": EntryRow,
    "raft": RaftRow,
    "damage": Damage,
}
"""The class of the rows of each table."""


def columns_of(table: str) -> dict[str, str]:
    """The columns of a table with their types. Raises KeyError for an unknown table."""
    return types_of(ROWS[table])
