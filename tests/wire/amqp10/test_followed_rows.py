"""The rows that a link tells of a view: present ones, changes, merged ones, those of a new owner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.wire.amqp10.followed_rows import NO_VERSION, FollowedRows, RowsRead
from tests.wire.amqp10.view_rows import told_row

pytestmark = pytest.mark.requirement("D15.2")


def read(term: int, number: int, behind: int = 0, at_once: bool = True, /, **rows: int) -> RowsRead:
    found = {json.dumps([key]): json.dumps({"n": count}).encode() for key, count in rows.items()}
    return RowsRead((term, number), found, behind, not behind, at_once)


def told(rows: FollowedRows) -> list[tuple[str, int | None]]:
    """All that the peer is to be told."""
    found: list[tuple[str, int | None]] = []
    while rows.waiting:
        one = told_row(rows.take_message())
        found.append((one.key[0], None if one.row is None else one.row["n"]))
    return found


def followed(*reads: RowsRead) -> FollowedRows:
    """Rows of which the peer has been told these."""
    rows = FollowedRows("v")
    for one in reads:
        rows.take(one)
        told(rows)
    return rows


def test_the_present_rows_come_first_then_those_that_change_come_or_go() -> None:
    rows = FollowedRows("v")
    rows.take(read(1, 1, a=1, b=2))
    assert told(rows) == [("a", 1), ("b", 2)] and rows.version == (1, 1)
    rows.take(read(1, 2, a=1, b=3, c=4))
    assert told(rows) == [("b", 3), ("c", 4)]
    rows.take(read(1, 3, c=4))
    assert told(rows) == [("a", None), ("b", None)]
    rows.take(read(1, 4, a=1, c=4))
    assert told(rows) == [("a", 1)]


def test_changes_that_the_peer_has_not_fetched_are_one() -> None:
    rows = followed(read(1, 1, a=1))
    for number in range(2, 50):
        rows.take(read(1, number, a=number, b=number))
    assert told(rows) == [("a", 49), ("b", 49)]
    rows.take(read(1, 50, a=1))
    rows.take(read(1, 51, a=49, b=49))
    assert not rows.waiting
    rows.take(read(1, 52, a=49, b=49, c=1))
    rows.take(read(1, 53, a=49, b=49))
    assert not rows.waiting


def test_memory_is_counted_and_given_back() -> None:
    rows = followed(read(1, 1))
    assert rows.octets == 0
    rows.take(read(1, 2, a=1, b=2))
    waiting = rows.octets
    rows.take(read(1, 3, a=5, b=6))
    assert rows.octets == waiting > 0
    told(rows)
    known = rows.octets
    rows.take(read(1, 4, a=7, b=6))
    told(rows)
    assert rows.octets == known > 0
    rows.take(read(1, 5))
    told(rows)
    assert rows.octets == 0


def test_the_rows_of_a_new_owner_wait_until_it_has_counted_all_messages() -> None:
    rows = followed(read(3, 9, a=5, b=5))
    rows.take(read(4, 1, 7, a=2))
    assert not rows.waiting and rows.version == (4, 1) and rows.wait_ms < 1000
    rows.take(RowsRead((4, 1), None, 0, True, True))
    assert rows.version == NO_VERSION
    rows.take(read(4, 1, a=5, b=6))
    assert told(rows) == [("b", 6)] and rows.wait_ms > 1000
    rows.take(read(4, 2, 3, a=4))
    assert told(rows) == [("b", None), ("a", 4)]


def test_an_answer_of_a_former_owner_or_version_changes_nothing() -> None:
    rows = followed(read(4, 5, a=5))
    for late in (read(3, 99, a=1), read(4, 4, b=1)):
        rows.take(late)
    assert not rows.waiting and rows.version == (4, 5)


def test_rows_of_several_moments_are_asked_for_again() -> None:
    rows = followed(read(1, 1, a=1))
    rows.take(read(1, 5, 0, False, a=2))
    assert rows.version == NO_VERSION and told(rows) == [("a", 2)]


def test_a_message_tells_how_far_the_view_lags_behind() -> None:
    rows = FollowedRows("v")
    rows.take(read(1, 1, 17, a=1))
    one = told_row(rows.take_message())
    assert (one.behind, one.complete) == (17, False)


def test_rows_that_wait_for_credit_are_read_again_unless_they_are_many() -> None:
    rows = FollowedRows("v")
    rows.credit_came()
    assert not rows.stale
    rows.take(read(1, 1, a=1))
    rows.credit_came()
    assert rows.stale
    many: dict[str, Any] = {f"k{n}": n for n in range(2000)}
    rows.take(read(1, 2, **many))
    rows.credit_came()
    assert not rows.stale
