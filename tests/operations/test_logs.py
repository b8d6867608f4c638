"""Log lines: JSON, one a line, without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from cluster.log.event_log import LONGEST_VALUE, REQUEST, EventLog, start_logging


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    output = io.StringIO()
    start_logging("n1", "info", output)
    yield output
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_fields(stream: io.StringIO) -> None:
    EventLog("peers").info("peer_up", peer="n2", connections=3, text="two\nlines")
    (line,) = lines(stream)
    assert str(line.pop("at")).endswith("+00:00")
    assert line == {
        "level": "info",
        "node": "n1",
        "component": "peers",
        "event": "peer_up",
        "peer": "n2",
        "connections": 3,
        "text": "two\nlines",
    }


def test_a_known_event_has_its_code(stream: io.StringIO) -> None:
    EventLog("node").info("rebuilt")
    assert lines(stream)[0]["code"] == "Q202"


def test_what_is_logged_for_a_request_has_its_id(stream: io.StringIO) -> None:
    token = REQUEST.set("r-1")
    EventLog("node").info("management_failed", path="/api")
    REQUEST.reset(token)
    EventLog("node").info("rebuilt")
    assert [line.get("request") for line in lines(stream)] == ["r-1", None]


def test_the_level_filters(stream: io.StringIO) -> None:
    log = EventLog("x")
    log.debug("hidden")
    log.warning("shown")
    assert [line["event"] for line in lines(stream)] == ["shown"]


def test_secrets_are_masked_and_long_texts_cut(stream: io.StringIO) -> None:
    EventLog("x").info("login", user="a", password="hunter2", Response=b"\0a\0hunter2", text="y" * 10_000)
    assert "hunter2" not in stream.getvalue()
    assert len(str(lines(stream)[0]["text"])) == LONGEST_VALUE + 1


def test_an_error_brings_its_traceback(stream: io.StringIO) -> None:
    try:
        raise ZeroDivisionError("oh")
    except ZeroDivisionError as error:
        EventLog("x").error("turn_failed", error)
    (line,) = lines(stream)
    assert "ZeroDivisionError: oh" in str(line["traceback"])


def test_other_libraries_log_in_the_same_form(stream: io.StringIO) -> None:
    logging.getLogger("aiohttp.server").warning("slow %s", "client")
    (line,) = lines(stream)
    assert (line["component"], line["event"], line["text"]) == ("aiohttp.server", "message", "slow client")
