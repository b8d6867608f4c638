"""An HTTP client of several nodes: where one of them does not answer, the client asks another one. Requests
with short answers go over one connection a node, which the client keeps.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

ROUNDS: Final = 6
"""How many times all nodes are asked for something before an error ends the reading."""

FIRST_PAUSE_S: Final = 0.1
"""Seconds in front of the second round. Each further pause is twice as long."""

TIMEOUT_S: Final = 30.0
"""Seconds that a node may be silent."""


class LogApiError(Exception):
    """A node has refused a request. `facts` is the body of its answer: 410 has the `oldest` position."""

    def __init__(self, status: int, facts: Mapping[str, Any]) -> None:
        super().__init__(f"{facts.get('reason', 'no reason is told')} (HTTP status {status})")
        self.status = status
        self.facts = facts


class NoNodeError(Exception):
    """No node has answered."""


class NodesClient:
    """A client of one cluster, in the name of one user. Methods raise LogApiError and NoNodeError."""

    rounds = ROUNDS
    timeout_s = TIMEOUT_S
    passing: frozenset[int] = frozenset((409, 502, 503, 504))
    """Statuses of requests that may be repeated."""

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
        self._kept: dict[str, HTTPConnection] = {}
        weakref.finalize(self, _close, self._kept)

    def attempts(self, urls: Sequence[str]) -> Attempts:
        """Which of these nodes to ask next."""
        return Attempts(urls, self._pause, self.rounds, self.passing)

    def json(self, method: str, path: str, body: bytes = b"") -> Any:
        """The answer of some node to a request that may be repeated; None for an empty one."""
        attempts = self.attempts(self._urls)
        while True:
            url = attempts.next()
            try:
                octets = self._answer(url, method, path, body)
                return json.loads(octets) if octets else None
            except (OSError, HTTPException, LogApiError) as error:
                attempts.failed(url, error)

    def text(self, url: str, path: str) -> str:
        """A page of one node. Raises OSError and HTTPException, too."""
        connection, response = self.open(url, "GET", path)
        try:
            return response.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def open(
        self, url: str, method: str, path: str, body: bytes = b""
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """A connection with an answer of success. Raises LogApiError, OSError and HTTPException."""
        connection = self._connection(url)
        try:
            response = self._asked(connection, url, method, path, body)
            if not 200 <= response.status < 300:
                raise LogApiError(response.status, _facts(response.read()))
        except BaseException:
            connection.close()
            raise
        return connection, response

    def _answer(self, url: str, method: str, path: str, body: bytes) -> bytes:
        """The octets of an answer of success. Raises LogApiError, OSError and HTTPException."""
        kept = self._kept.pop(url, None)
        if kept is not None:
            try:
                return self._answer_on(kept, url, method, path, body)
            except (ConnectionError, BadStatusLine):
                # The node has closed a connection that was idle: the request may be repeated.
                kept.close()
        return self._answer_on(self._connection(url), url, method, path, body)

    def _answer_on(self, connection: HTTPConnection, url: str, method: str, path: str, body: bytes) -> bytes:
        """As `_answer`, over one connection, which is kept behind a whole answer."""
        try:
            response = self._asked(connection, url, method, path, body)
            octets = response.read()
        except BaseException:
            connection.close()
            raise
        if self._kept.setdefault(url, connection) is not connection:
            connection.close()
        if not 200 <= response.status < 300:
            raise LogApiError(response.status, _facts(octets))
        return octets

    def _asked(
        self, connection: HTTPConnection, url: str, method: str, path: str, body: bytes
    ) -> HTTPResponse:
        headers = {"Authorization": f"Basic {self._login}"}
        connection.request(method, urlsplit(url).path.rstrip("/") + path, body or None, headers)
        return connection.getresponse()

    def _connection(self, url: str) -> HTTPConnection:
        """A connection to a node, which opens with its first request."""
        parts = urlsplit(url)
        if self._tls is not None and parts.scheme == "https":
            return HTTPSConnection(parts.netloc, timeout=self.timeout_s, context=self._tls)
        return HTTPConnection(parts.netloc, timeout=self.timeout_s)


class Attempts:
    """Which node to ask next. Each round is all nodes; between two rounds is a pause."""

    def __init__(
        self, urls: Sequence[str], pause: Callable[[float], None], rounds: int, passing: frozenset[int]
    ) -> None:
        self._urls, self._pause, self._rounds, self._passing = urls, pause, rounds, passing
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
            if error.status not in self._passing or self._asked >= self._rounds * len(self._urls):
                raise error
        elif self._asked >= self._rounds * len(self._urls):
            raise NoNodeError(f"no node answers; {url}: {error or type(error).__name__}") from error


def _close(connections: Mapping[str, HTTPConnection]) -> None:
    for connection in connections.values():
        connection.close()


def _facts(body: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {"reason": body[:200].decode("utf-8", "replace")}
