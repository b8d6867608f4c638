"""An HTTP client of the log API (docs/log-api.md), of several nodes: where one of them does not answer, the
client asks another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode, urlsplit

from pipeline.log.blocks import CRC, END, HEAD, REFUSAL, Block, CutShortError, read_block, refusal_in
from pipeline.log.nodes import LogApiError, NodesClient
from pipeline.message.runs import bookmark_of

_ABSENT: Final = 404

FULL_PLAN: Final = 4096
"""Ranges of a plan at most. A plan that would have more ends earlier."""


class LogRange(NamedTuple):
    """A range of a stream's log, and how much it has."""

    first: str
    end: str
    rows: int
    octets: int


class Plan(NamedTuple):
    """The answer to a request for a plan. Positions are bookmarks. `wanted` is the end that was asked for;
    `replicas` has the HTTP addresses of the nodes to read from, the owner's last. `end_count` is the count of
    the position `end`, `first_count` that of `first`; None where nodes do not know counts.
    """

    partition: int
    first: str
    wanted: str
    end: str
    stable_end: str
    ranges: list[LogRange]
    replicas: list[str]
    first_count: int | None = None
    end_count: int | None = None


class Planner(Protocol):
    """Plans the reading of streams. Methods raise LogApiError and NoNodeError."""

    def plan(self, vhost: str, topic: str, **parameters: Any) -> Plan:
        """A plan. The parameters are those of the API; `first`, `end` and `first_count` stand for `from`,
        `to` and `from_count`.
        """

    def streams(self, vhost: str) -> list[str]:
        """The names of the streams that the user sees in a virtual host."""

    def advance(self, vhost: str, topic: str, reader: str, position: str) -> None:
        """Advance the reader of a stream to a position. A reader that is not there begins there."""


class LogClient(NodesClient):
    """A client of one cluster, in the name of one user. Methods raise LogApiError, NoNodeError, and
    MalformedError.
    """

    def plan(self, vhost: str, topic: str, **parameters: Any) -> Plan:
        """See `Planner`."""
        names = {"first": "from", "end": "to", "first_count": "from_count"}
        query = {names.get(name, name): one for name, one in parameters.items() if one is not None}
        told = self.json("GET", f"{_path(vhost, topic, 'plan')}?{urlencode(query)}")
        ranges = [LogRange(one["from"], one["to"], one["rows"], one["octets"]) for one in told["ranges"]]
        replicas = [one["http"] for one in told["replicas"]]
        return Plan(
            told["partition"],
            told["from"],
            told["to"],
            told["end"],
            told["stable_end"],
            ranges,
            replicas,
            told.get("from_count"),
            told.get("end_count"),
        )

    def streams(self, vhost: str) -> list[str]:
        """See `Planner`."""
        rows = self.json("GET", f"/api/queues/{quote(vhost, safe='')}?columns=name,type")
        return sorted(one["name"] for one in rows if one.get("type") == "stream")

    def advance(self, vhost: str, topic: str, reader: str, position: str) -> None:
        """See `Planner`."""
        path = "/api/readers/" + "/".join(quote(one, safe="") for one in (vhost, topic, reader))
        try:
            self.json("POST", path + "/advance", json.dumps({"to": position}).encode())
        except LogApiError as error:
            if error.status != _ABSENT:
                raise
            self.json("PUT", path, json.dumps({"from": position}).encode())

    def blocks(
        self, vhost: str, topic: str, first: str, end: str, replicas: Sequence[str] = (), filter: str = ""
    ) -> Iterator[Block]:
        """The blocks of messages of a range. Where a node is lost, another one goes on behind the last whole
        block. `replicas`: addresses as plans tell them, the nodes to ask first in front. `filter`: an
        expression, of whose messages there are blocks alone; some of them are empty.
        """
        asked = {"filter": filter} if filter else {}
        yield from self.blocks_of(_path(vhost, topic, "blocks"), first, end, replicas, **asked)

    def blocks_of(
        self, path: str, first: str, end: str, replicas: Sequence[str] = (), **asked: str
    ) -> Iterator[Block]:
        """As `blocks`, of whatever has its blocks at a path. `asked`: further parameters of the requests."""
        urls = sorted(self._urls, key=lambda url: _rank(url, replicas))
        attempts = self.attempts(urls)
        while first < end:
            url = attempts.next()
            try:
                for block in self._read(url, f"{path}?{urlencode({'from': first, 'to': end, **asked})}"):
                    if block.kind == END:
                        return
                    first = bookmark_of(block.queue, block.next)
                    attempts.progress()
                    yield block
                    # The next block comes without this one in memory.
                    del block
            except (OSError, HTTPException, CutShortError, LogApiError) as error:
                attempts.failed(url, error)

    def _read(self, url: str, path: str) -> Iterator[Block]:
        """The blocks that one node tells, the one that ends the range included."""
        connection, response = self.open(url, "GET", path)
        try:
            at = 0
            while True:
                block = read_block(response.read, at)
                at += HEAD.size + CRC.size + len(block.payload)
                if block.kind == REFUSAL:
                    told = refusal_in(block)
                    raise LogApiError(int(told.get("status", 503)), told)
                ended = block.kind == END
                yield block
                if ended:
                    return
                del block
        finally:
            connection.close()


def _path(vhost: str, topic: str, what: str) -> str:
    names = "/".join(quote(one, safe="") for one in (vhost, topic))
    return f"/api/log/{names}/{what}"


def _rank(url: str, replicas: Sequence[str]) -> int:
    """Where a node stands among those to ask: those that plans do not know stand last."""
    address = urlsplit(url).netloc
    return replicas.index(address) if address in replicas else len(replicas)
