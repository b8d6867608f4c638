"""A client of the management API that takes nothing for granted: every answer with its status."""

from __future__ import annotations

import base64
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.processes.nodes import Node


@dataclass(frozen=True, slots=True)
class Reply:
    """`value` is the JSON of the body, None where there is none."""

    status: int
    value: Any
    headers: dict[str, str]


class Management:
    """The API of one node, as one user."""

    def __init__(self, node: Node, user: str | None = "guest", password: str = "guest") -> None:
        self.url = node.http
        self._headers = {"Content-Type": "application/json"}
        if user is not None:
            self._headers["Authorization"] = basic(user, password)

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """`path` as it is to go over the wire, behind `/api`; `body` as JSON, or as these octets."""
        octets = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        try:
            connection.request(method, "/api" + path, octets, self._headers | (headers or {}))
            response = connection.getresponse()
            text = response.read()
            value = json.loads(text) if text else None
            return Reply(response.status, value, {name.lower(): v for name, v in response.getheaders()})
        finally:
            connection.close()

    def get(self, *segments: str, query: str = "") -> Any:
        """The value at a path of these names, which must be there."""
        reply = self.call("GET", path_of(*segments) + (f"?{query}" if query else ""))
        assert reply.status == 200, reply
        return reply.value

    def named(self, name: str, *segments: str) -> dict[str, Any]:
        """The one row of this name in a list."""
        (row,) = (row for row in self.get(*segments) if row["name"] == name)
        return dict(row)


def path_of(*segments: str) -> str:
    return "".join("/" + quote(segment, safe="") for segment in segments)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def refused(reply: Reply, status: int, error: str) -> Any:
    """The reason, of an answer with this status and error."""
    assert (reply.status, reply.value["error"]) == (status, error), reply
    return reply.value["reason"]
