"""An HTTP client of takes (docs/log-api.md, "Takes"): a queue holds numbered batches of messages for a
reader, which reads them as blocks, and commits them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from pipeline.log.blocks import Block
from pipeline.log.client import LogClient, LogRange

HELD, EMPTY, COMMITTED = "held", "empty", "committed"
"""The states of a take: the queue holds its messages, no message was ready, or it is committed."""

_NO_RANGES: Final[list[LogRange]] = []


class QueueReader(NamedTuple):
    """A reader of a queue, by name."""

    vhost: str
    queue: str
    reader: str


class HeldMessages(NamedTuple):
    """The answer to a take. `partition` holds the queue. Where the queue holds messages: how many, in which
    ranges, and the HTTP addresses of the nodes to read from, followers first.
    """

    state: str
    partition: int
    messages: int
    ranges: list[LogRange]
    replicas: list[str]


class ReaderState(NamedTuple):
    """A reader as its queue has it, also before its first take. `identity`: that of the queue; `held`: the
    numbers of the takes that are held; `next`: the number of the next take; `end`: the position behind all
    messages that the queue has, None where the owner is of a release that does not tell.
    """

    identity: str
    committed: int
    held: list[int]
    next: int
    end: str | None


class Taker(Protocol):
    """Takes messages out of queues. Methods raise LogApiError and NoNodeError."""

    def take(self, reader: QueueReader, number: int, **limits: int | str | None) -> HeldMessages:
        """Have messages held under a number, or learn which are. The limits are those of the API: `rows`,
        `octets`, `range_octets`, `identity`; `end` stands for `to`.
        """

    def commit(self, reader: QueueReader, number: int, identity: str | None = None) -> None:
        """Settle the messages of the takes up to a number."""

    def release(self, reader: QueueReader, number: int | None = None, identity: str | None = None) -> None:
        """Give back the messages of takes that are not committed, and have the queue forget the reader.
        `number`: the last one that the reader has asked for.
        """

    def reader(self, reader: QueueReader) -> ReaderState:
        """The state of a reader."""

    def queues(self, vhost: str) -> list[str]:
        """The names of the queues that the user sees in a virtual host."""


class TakeClient(LogClient):
    """A client of one cluster, in the name of one user. Every request may be repeated. Methods raise
    LogApiError, NoNodeError, and MalformedError.
    """

    timeout_s = 60.0

    def take(self, reader: QueueReader, number: int, **limits: int | str | None) -> HeldMessages:
        """See `Taker`."""
        limits["to"] = limits.pop("end", None)
        told = self.json("POST", f"{_path(reader)}/{number}" + _query(**limits))
        if told["state"] != HELD:
            return HeldMessages(told["state"], told["partition"], 0, _NO_RANGES, [])
        ranges = [LogRange(one["from"], one["to"], one["rows"], one["octets"]) for one in told["ranges"]]
        replicas = [one["http"] for one in told["replicas"]]
        return HeldMessages(HELD, told["partition"], told["messages"], ranges, replicas)

    def commit(self, reader: QueueReader, number: int, identity: str | None = None) -> None:
        """See `Taker`."""
        self.json("POST", f"{_path(reader)}/{number}/commit" + _query(identity=identity))

    def release(self, reader: QueueReader, number: int | None = None, identity: str | None = None) -> None:
        """See `Taker`."""
        self.json("DELETE", _path(reader) + _query(number=number, identity=identity))

    def reader(self, reader: QueueReader) -> ReaderState:
        """See `Taker`."""
        told = self.json("GET", _path(reader))
        held = [one["number"] for one in told["takes"]]
        return ReaderState(told["identity"], told["committed"], held, told["next"], told["end"])

    def queues(self, vhost: str) -> list[str]:
        """See `Taker`."""
        rows = self.json("GET", f"/api/queues/{quote(vhost, safe='')}?columns=name")
        return sorted(one["name"] for one in rows)

    def readers(self, vhost: str, queue: str) -> list[Mapping[str, Any]]:
        """The readers of a queue, with their takes."""
        found: list[Mapping[str, Any]] = self.json("GET", _path((vhost, queue)))
        return found

    def taken_blocks(
        self, reader: QueueReader, number: int, first: str, end: str, replicas: Sequence[str] = ()
    ) -> Iterator[Block]:
        """The blocks of messages of a range of a take; see `LogClient.blocks`."""
        yield from self.blocks_of(f"{_path(reader)}/{number}/blocks", first, end, replicas)

    def depth(self, vhost: str, queue: str) -> int:
        """How many messages a queue has, those that consumers and readers have included."""
        path = "/".join(quote(one, safe="") for one in (vhost, queue))
        return int(self.json("GET", f"/api/queues/{path}")["messages"])


def _query(**given: int | str | None) -> str:
    asked = urlencode({name: one for name, one in given.items() if one is not None})
    return f"?{asked}" if asked else ""


def _path(names: Sequence[str]) -> str:
    return "/api/takes/" + "/".join(quote(one, safe="") for one in names)
