"""Figures of what the logs tell are of whole answers: of another one the row fails."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from bench.brokers import BrokerError
from bench.load import LoadError, LoadResult
from bench.logs import LIFE, all_of, check_life, repeated
from tests.bench.test_report import OUTPUT

RESULT = LoadResult.parse(OUTPUT)


def told(*events: str) -> dict[str, Any]:
    return {"lives": [{"events": [{"event": event} for event in events]}]}


def test_a_settled_message_has_been_published_and_leased() -> None:
    check_life(told(*LIFE))
    others: list[dict[str, Any]] = [told(*LIFE[1:]), told(*LIFE, "purged"), {"lives": []}]
    for other in others:
        with pytest.raises(BrokerError, match="was told to be"):
            check_life(other)


def test_a_run_has_delivered_all_messages() -> None:
    assert all_of(RESULT, RESULT.delivered) is RESULT
    for count in (RESULT.delivered - 1, RESULT.delivered + 1):
        with pytest.raises(BrokerError, match=f"9 of {count} messages"):
            all_of(RESULT, count)


def test_a_load_is_repeated_until_the_other_has_ended() -> None:
    loads, twice = list[LoadResult](), Event()

    def load() -> LoadResult:
        loads.append(replace(RESULT))
        if len(loads) == 2:
            twice.set()
        return loads[-1]

    with repeated(load):
        assert twice.wait(10)
    assert len(loads) >= 2


@pytest.mark.parametrize("error", [LoadError("no result"), BrokerError("closed")])
def test_a_load_that_fails_meanwhile_fails_the_row(error: Exception) -> None:
    def load() -> LoadResult:
        raise error

    with pytest.raises(type(error)), repeated(load):
        pass
