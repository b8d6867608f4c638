"""Structured logs: one JSON object a line, on standard error or in a file.

Every line has `at` (UTC), `level`, `node`, `component`, `event` and its `code`, then the event's own fields.
Events of an HTTP request have `request`, its id.
No event contains the content of a message. Fields with the name of a secret are masked.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Protocol

from cluster.log.events import CODES

LONGEST_VALUE = 2000
"""Most characters that are logged of a field's text; clients choose some of these texts."""

REQUEST: ContextVar[str | None] = ContextVar("request", default=None)
"""The id of the HTTP request that the present task answers."""

_SECRET = re.compile(r"password|secret|token|credential|response", re.IGNORECASE)
_MASK = "***"


class EventLog:
    """Logs events of one component: `log.info("peer_up", peer="n2")`. Not for the hot path."""

    def __init__(self, component: str) -> None:
        self._logger = logging.getLogger(f"quorate.{component}")

    def debug(self, event: str, **fields: object) -> None:
        self._logger.debug(event, extra={"fields": fields})

    def info(self, event: str, **fields: object) -> None:
        self._logger.info(event, extra={"fields": fields})

    def warning(self, event: str, **fields: object) -> None:
        self._logger.warning(event, extra={"fields": fields})

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        """Log an event that an operator should look at; with `error` also the exception's traceback."""
        self._logger.error(event, exc_info=error, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, records of other libraries included."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "node": self._node,
            "component": record.name.removeprefix("quorate."),
        }
        if fields is None:
            line |= _named("message") | {"text": _plain("text", record.getMessage())}
        else:
            line |= _named(str(record.msg)) | {key: _plain(key, value) for key, value in fields.items()}
        request = REQUEST.get()
        if request is not None:
            line.setdefault("request", request)
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _named(event: str) -> dict[str, object]:
    code = CODES.get(event)
    return {"event": event} if code is None else {"event": event, "code": code}


def _plain(name: str, value: object) -> object:
    if _SECRET.search(name):
        return _MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


class LogStream(Protocol):
    """The stream to which lines are written."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


def start_logging(node: str, level: str, stream: LogStream | None = None) -> None:
    """Send every record of at least `level` to `stream` (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(node))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
