"""The table of groups in C and its twin in Python do the same, whatever messages do."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.queue.group_table import NO_GROUP, UNHELD, GroupTable
from node.ranges.range_columns import transposed
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, count_of
from tests.wire import native

pytestmark = pytest.mark.interpreted
"""Compiled code has the table in C, so that the twin would not be compared."""

GROUPS = 5
MESSAGES = 60
STEPS = (
    "park",
    "park",
    "choose",
    "choose",
    "choose",
    "done",
    "done",
    "lease",
    "remove",
    "rest",
    "rested",
    "clear",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native.load(native.build("_group_table", tmp_path_factory.mktemp("native"), "-O2"))


class Program:
    """Has messages go through a table and its twin, as an order has them, and compares the two."""

    def __init__(self, table: Any) -> None:
        self.tables = [table, GroupTable()]
        self.fresh = RangeSet([(1, MESSAGES)])
        self.parked, self.resting = RangeMap(), RangeMap()
        self.flying = [RangeMap(), RangeMap()]

    def groups_of(self, ranges: list[Range]) -> list[Span]:
        """Two messages in a row have one group, and some none."""
        return list(
            RangeMap(
                (n, n, n // 2 * 7 % GROUPS) for first, last in ranges for n in range(first, last + 1)
            ).all()
        )

    def step(self, what: str, holder: int, at: int, size: int) -> None:
        getattr(self, what)(holder, at, size)
        mine, theirs = self.tables
        assert sorted(mine.rows()) == sorted(theirs.rows())
        assert len(mine) == len(theirs)
        assert {*mine.holders()} == {*theirs.holders()}
        for each in range(4):
            assert mine.supply(each) == theirs.supply(each)

    def park(self, holder: int, at: int, size: int) -> None:
        ranges = self.fresh.intersection(at, at + 4 * size)
        spans = self.groups_of(ranges)
        self.fresh.remove_all(ranges)
        self.parked.set_all(spans)
        for table in self.tables:
            table.park(*transposed(spans, 3))

    def choose(self, holder: int, at: int, size: int) -> None:
        """Every fourth choice is of basic.get, and not all that is chosen is leased."""
        asking = UNHELD if at % 4 == 0 else holder
        mine, theirs = [table.choose(asking, 1 + size, at % 3) for table in self.tables]
        assert mine == theirs
        count = min(count_of(mine), 1 + at % 9)
        leased = [table.hand_over(holder, count) for table in self.tables]
        # Compiled callers take the columns from a tuple, and refuse a list.
        assert [type(columns) for columns in leased] == [tuple, tuple]
        for flying, columns in zip(self.flying, leased, strict=True):
            flying.extend(*columns)
        assert self.flying[0] == self.flying[1]
        for first, last in mine:
            last = min(last, first + count - 1)
            if first <= last:
                self.parked.remove(first, last)
                count -= last - first + 1

    def lease(self, holder: int, at: int, size: int) -> None:
        """A consumer that is back still has messages."""
        parked = self.parked.spans(at, at + size)
        self.parked.remove(at, at + size)
        spans = self.groups_of([span[:2] for span in parked])
        for table, flying in zip(self.tables, self.flying, strict=True):
            table.unpark(parked)
            table.lease(holder, spans)
            flying.set_all([span for span in spans if span[2] != NO_GROUP])

    def done(self, holder: int, at: int, size: int) -> None:
        """Some are ready again."""
        flown = self.flying[0].spans(at, at + size)
        for table, flying in zip(self.tables, self.flying, strict=True):
            table.done(flown)
            flying.remove(at, at + size)
        if at % 2:
            self.fresh.update([span[:2] for span in flown])

    def remove(self, holder: int, at: int, size: int) -> None:
        parked = self.parked.spans(at, at + size)
        self.parked.remove(at, at + size)
        for table in self.tables:
            table.remove(parked)

    def rest(self, holder: int, at: int, size: int) -> None:
        spans = [
            span for span in self.groups_of(self.fresh.intersection(at, at + size)) if span[2] != NO_GROUP
        ]
        self.fresh.remove_all([span[:2] for span in spans])
        self.resting.set_all(spans)
        for table in self.tables:
            table.rest(spans)

    def rested(self, holder: int, at: int, size: int) -> None:
        rested = self.resting.spans(at, at + size)
        self.resting.remove(at, at + size)
        self.fresh.update([span[:2] for span in rested])
        for table in self.tables:
            table.rested(rested)

    def clear(self, holder: int, at: int, size: int) -> None:
        """The tables go on as their twins, or all parked messages are purged."""
        self.fresh.update(span[:2] for span in self.parked.all())
        self.parked = RangeMap()
        if at % 2:
            self.tables = [table.twin() for table in self.tables]
        else:
            for table in self.tables:
                table.clear()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(1, 3), st.integers(1, MESSAGES), st.integers(0, 12)),
        max_size=60,
    )
)
@settings(max_examples=300)
def test_both_tables_do_the_same(built: ModuleType, steps: list[tuple[str, int, int, int]]) -> None:
    program = Program(built.Table())
    program.step("park", 1, 1, 5)
    for step in steps:
        program.step(*step)


def test_wrong_arguments_are_refused(built: ModuleType) -> None:
    table = built.Table()
    for call in (
        lambda: table.park(array("Q")),
        lambda: table.done([(1, 2)]),
        lambda: table.done(((1, 2, 3),)),
        lambda: table.lease(1),
        lambda: table.lease(1, ()),
        lambda: table.choose(1, 2),
        lambda: table.hand_over("1", 2),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError):
        table.done([(2, 1, 3)])
    with pytest.raises(ValueError):
        table.park(array("Q", [1]), array("Q"), array("Q", [1]))
    for call in (
        lambda: table.rest([(1, 1 << 64, 3)]),
        lambda: table.choose(-1, 1, 0),
        lambda: table.supply(1 << 64),
    ):
        with pytest.raises(OverflowError):
            call()
    table.done([(1, 1, 9)])
    table.rested([(1, 1, 9)])
    table.unpark([(1, 1, 9)])
    assert table.rows() == []


SANITIZED = """
import random, sys
from pathlib import Path
from tests.queue import test_native_groups
from tests.wire import native
built = native.load(Path(sys.argv[1]))
chance = random.Random(7)
test_native_groups.GROUPS, test_native_groups.MESSAGES = 97, 400
for _ in range(25):
    program = test_native_groups.Program(built.Table())
    for _ in range(150):
        what = chance.choice(test_native_groups.STEPS)
        if what != "clear" or chance.random() < 0.1:
            program.step(what, chance.randrange(1, 30), chance.randrange(1, 401), chance.randrange(40))
"""


def test_no_octet_beyond_the_table_is_touched(tmp_path: Path) -> None:
    """Under the address sanitizer, which ends the process at the first such octet."""
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    options = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    environment = {
        "LD_PRELOAD": found.stdout.strip(),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", SANITIZED, str(native.build("_group_table", tmp_path, *options))]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
