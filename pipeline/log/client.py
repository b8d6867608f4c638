"""An HTTP client of the log API (docs/log-api.md), of several nodes: where one of them does not answer, the
client asks another one.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode, urlsplit

from pipeline.log.blocks import CRC, END, HEAD, REFUSAL, Block, CutShortError, read_block, refusal_in
from pipeline.message.runs import bookmark_of

ROUNDS: Final = 6
"""How many times all nodes are asked for something before an error ends the reading."""

FIRST_PAUSE_S: Final = 0.1
"""Seconds in front of the second round. Each further pause is twice as long."""

TIMEOUT_S: Final = 30.0
"""Seconds that a node may be silent."""

_PASSING: Final = (409, 502, 503, 504)
"""Statuses of requests that may be repeated."""


class LogApiError(Exception):
    """A node has refused a request. `facts` is the body of its answer: 410 has the `oldest` position."""

    def __init__(self, status: int, facts: Mapping[str, Any]) -> None:
        super().__init__(f"{facts.get('reason', 'no reason is told')} (HTTP status {status})")
        self.status = status
        self.facts = facts


class NoNodeError(Exception):
    """No node has answered."""


class LogRange(NamedTuple):
    """A range of a stream's log, and how much it has."""

    first: str
    end: str
    rows: int
    octets: int


class Plan(NamedTuple):
    """The answer to a request for a plan. Positions are bookmarks. `wanted` is the end that was asked for;
    `replicas` has the HTTP addresses of the nodes to read from, the owner's last.
    """

    partition: int
    first: str
    wanted: str
    end: str
    stable_end: str
    ranges: list[LogRange]
    replicas: list[str]


class Planner(Protocol):
    """Plans the reading of streams. Methods raise LogApiError and NoNodeError."""

    def plan(self, vhost: str, topic: str, **parameters: Any) -> Plan:
        """A plan. The parameters are those of the API; `first` and `end` stand for `from` and `to`."""

    def streams(self, vhost: str) -> list[str]:
        """The names of the streams that the user sees in a virtual host."""


class LogClient:
    """A client of one cluster, in the name of one user. Methods raise LogApiError, NoNodeError, and
    MalformedError.
    """

    def __init__(
        self,
        urls: Sequence[str],
        user: str,
        password: str,
        ca_file: str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`urls` such as `http://node:15672`. `ca_file`: the certificates that nodes are trusted by, those of
        the machine by default.
        """
        self._urls, self._pause = list(urls), pause
        self._login = base64.b64encode(f"{user}:{password}".encode()).decode()
        tls = any(url.startswith("https:") for url in urls)
        self._tls = ssl.create_default_context(cafile=ca_file) if tls else None

    def plan(self, vhost: str, topic: str, **parameters: Any) -> Plan:
        """See `Planner`."""
        names = {"first": "from", "end": "to"}
        query = {names.get(name, name): one for name, one in parameters.items() if one is not None}
        told = self._json(_path(vhost, topic, "plan", query))
        ranges = [LogRange(one["from"], one["to"], one["rows"], one["octets"]) for one in told["ranges"]]
        replicas = [one["http"] for one in told["replicas"]]
        return Plan(
            told["partition"], told["from"], told["to"], told["end"], told["stable_end"], ranges, replicas
        )

    def streams(self, vhost: str) -> list[str]:
        """See `Planner`."""
        rows = self._json(f"/api/queues/{quote(vhost, safe='')}?columns=name,type")
        return sorted(one["name"] for one in rows if one.get("type") == "stream")

    def blocks(
        self, vhost: str, topic: str, first: str, end: str, replicas: Sequence[str] = ()
    ) -> Iterator[Block]:
        """The blocks of messages of a range. Where a node is lost, another one goes on behind the last whole
        block. `replicas`: addresses as plans tell them, the nodes to ask first in front.
        """
        urls = sorted(self._urls, key=lambda url: _rank(url, replicas))
        attempts = _Attempts(urls, self._pause)
        while first < end:
            url = attempts.next()
            try:
                for block in self._read(url, _path(vhost, topic, "blocks", {"from": first, "to": end})):
                    if block.kind == END:
                        return
                    first = bookmark_of(block.queue, block.next)
                    attempts.progress()
                    yield block
            except (OSError, HTTPException, CutShortError, LogApiError) as error:
                attempts.failed(url, error)

    def _read(self, url: str, path: str) -> Iterator[Block]:
        """The blocks that one node tells, the one that ends the range included."""
        connection, response = self._get(url, path)
        try:
            at = 0
            while True:
                block = read_block(response.read, at)
                at += HEAD.size + CRC.size + len(block.payload)
                if block.kind == REFUSAL:
                    told = refusal_in(block)
                    raise LogApiError(int(told.get("status", 503)), told)
                yield block
                if block.kind == END:
                    return
        finally:
            connection.close()

    def _json(self, path: str) -> Any:
        attempts = _Attempts(self._urls, self._pause)
        while True:
            url = attempts.next()
            try:
                connection, response = self._get(url, path)
                try:
                    return json.loads(response.read())
                finally:
                    connection.close()
            except (OSError, HTTPException, LogApiError) as error:
                attempts.failed(url, error)

    def _get(self, url: str, path: str) -> tuple[HTTPConnection, HTTPResponse]:
        """A connection with an answer of status 200. Raises LogApiError, OSError and HTTPException."""
        parts = urlsplit(url)
        if self._tls is not None and parts.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(parts.netloc, timeout=TIMEOUT_S, context=self._tls)
        else:
            connection = HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
        try:
            connection.request(
                "GET", parts.path.rstrip("/") + path, headers={"Authorization": f"Basic {self._login}"}
            )
            response = connection.getresponse()
            if response.status != 200:
                raise LogApiError(response.status, _facts(response.read()))
        except BaseException:
            connection.close()
            raise
        return connection, response


class _Attempts:
    """Which node to ask next. Each round is all nodes; between two rounds is a pause."""

    def __init__(self, urls: Sequence[str], pause: Callable[[float], None]) -> None:
        self._urls, self._pause = urls, pause
        self._asked = 0

    def next(self) -> str:
        rounds, place = divmod(self._asked, len(self._urls))
        if rounds and not place:
            self._pause(FIRST_PAUSE_S * 2 ** (rounds - 1))
        self._asked += 1
        return self._urls[place]

    def progress(self) -> None:
        """A node has answered: the rounds begin anew with it."""
        self._asked -= self._asked // len(self._urls) * len(self._urls)

    def failed(self, url: str, error: Exception) -> None:
        """Raises the error, or NoNodeError, where it is no use to go on."""
        if isinstance(error, LogApiError):
            if error.status not in _PASSING or self._asked >= ROUNDS * len(self._urls):
                raise error
        elif self._asked >= ROUNDS * len(self._urls):
            raise NoNodeError(f"no node answers; {url}: {error or type(error).__name__}") from error


def _path(vhost: str, topic: str, what: str, query: Mapping[str, object]) -> str:
    names = "/".join(quote(one, safe="") for one in (vhost, topic))
    return f"/api/log/{names}/{what}?{urlencode(query)}"


def _rank(url: str, replicas: Sequence[str]) -> int:
    """Where a node stands among those to ask: those that plans do not know stand last."""
    address = urlsplit(url).netloc
    return replicas.index(address) if address in replicas else len(replicas)


def _facts(body: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"reason": body[:200].decode("utf-8", "replace")}
