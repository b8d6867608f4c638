"""The functions of `_range_columns.c` and their twins in Python have the same results, for any ranges."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.ranges import range_columns
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, merged
from tests.wire import native

pytestmark = pytest.mark.interpreted
"""Compiled code calls the functions in C, so that the twins would not be compared."""

TOP = 2**64 - 1
NUMBERS = st.integers(0, 40) | st.integers(TOP - 40, TOP)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
VALUES = st.integers(0, 2)
Columns = list["array[int]"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native.load(native.build("_range_columns", tmp_path_factory.mktemp("native"), "-O2"))


def disjoint(pairs: list[Range]) -> list[Range]:
    """Ranges as sets have them: ascending, and no two touch."""
    return list(RangeSet(pairs).ranges())


def columns(rows: list[Range] | list[Span], width: int = 2) -> Columns:
    return [array("Q", [row[i] for row in rows]) for i in range(width)]


RANGES = st.lists(PAIRS, max_size=12).map(disjoint)
SPANS = st.lists(st.tuples(PAIRS, VALUES), max_size=12).map(
    lambda given: list(RangeMap((*pair, value) for pair, value in given).all())
)


@given(st.lists(PAIRS, max_size=12))
def test_merged(built: ModuleType, ranges: list[Range]) -> None:
    assert built.merged(ranges) == merged(ranges)


@given(st.lists(PAIRS, max_size=12))
def test_merged_pairs(built: ModuleType, ranges: list[Range]) -> None:
    numbers = array("Q", [number for pair in ranges for number in pair])
    assert built.merged_pairs(numbers) == range_columns.merged_pairs(numbers) == merged(ranges)


@given(SPANS, st.integers(1, 3))
def test_by_slot(built: ModuleType, spans: list[Span], width: int) -> None:
    given = columns(spans, 3)
    assert built.by_slot(*given, width) == range_columns.by_slot(given[0], given[1], given[2], width)


@given(SPANS, RANGES, st.integers(0, 2))
def test_within_up_to(built: ModuleType, spans: list[Span], ranges: list[Range], most: int) -> None:
    firsts, lasts, values = columns(spans, 3)
    found = built.within_up_to(firsts, lasts, values, ranges, most)
    assert found == range_columns.within_up_to(firsts, lasts, values, ranges, most)
    assert RangeMap(spans).ranges_up_to(ranges, most) == merged(found)


@given(RANGES, RANGES)
def test_joined(built: ModuleType, ranges: list[Range], added: list[Range]) -> None:
    assert built.joined_columns(*columns(ranges), added) == range_columns.joined_columns(
        *columns(ranges), added
    )


@given(RANGES.filter(bool), RANGES)
def test_cut_out(built: ModuleType, ranges: list[Range], removed: list[Range]) -> None:
    values = array("Q", range(len(ranges)))
    for more in ([], [values], [values, values]):
        made = built.cut_out(*columns(ranges), removed, *more)
        assert made == range_columns.cut_out(*columns(ranges), removed, *more)


@given(SPANS, SPANS)
def test_overlaid(built: ModuleType, spans: list[Span], news: list[Span]) -> None:
    old, new = columns(spans, 3), columns(news, 3)
    made = built.overlaid(*old, *new)
    assert made == range_columns.overlaid((old[0], old[1], old[2]), (new[0], new[1], new[2]))
    expected = RangeMap(spans)
    for span in news:
        expected.set(*span)
    assert list(zip(*made, strict=True)) == list(expected.all())


@given(RANGES)
def test_total(built: ModuleType, ranges: list[Range]) -> None:
    expected = range_columns.total(*columns(ranges))
    assert built.total(*columns(ranges)) == (expected if expected <= TOP else None)


@given(st.lists(PAIRS, max_size=3) | RANGES)
def test_ascending(built: ModuleType, ranges: list[Range]) -> None:
    assert built.ascending(*columns(ranges)) is range_columns.ascending(*columns(ranges))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3) | RANGES)
def test_paired(built: ModuleType, ranges: list[Range]) -> None:
    assert built.paired(*columns(ranges)) == range_columns.paired(*columns(ranges))


@given(SPANS, st.integers(0, 12), PAIRS)
def test_parts(built: ModuleType, spans: list[Span], at: int, within: Range) -> None:
    firsts, lasts, values = columns(spans, 3)
    for more in ([], [values]):
        found = built.parts(at, *within, firsts, lasts, *more)
        assert found == range_columns.parts(at, *within, firsts, lasts, *more)
    assert built.parts(at, within[0], TOP + 1, firsts, lasts) is None


@given(SPANS, RANGES)
def test_within(built: ModuleType, spans: list[Span], ranges: list[Range]) -> None:
    firsts, lasts, values = columns(spans, 3)
    for more in ([], [values]):
        found = built.within(firsts, lasts, ranges, *more)
        assert found == range_columns.within(firsts, lasts, ranges, *more)


@given(RANGES, st.integers(0, 60) | st.just(TOP))
def test_fronts(built: ModuleType, ranges: list[Range], limit: int) -> None:
    assert built.fronts(*columns(ranges), limit) == range_columns.fronts(*columns(ranges), limit)


@given(SPANS, st.integers(1, 3))
def test_transposed_rows(built: ModuleType, spans: list[Span], width: int) -> None:
    rows = [span[:width] for span in spans]
    assert built.transposed(rows, width) == range_columns.transposed(rows, width)


def test_numbers_beyond_64_bits_are_left_to_the_twins(built: ModuleType) -> None:
    beyond = [(0, 1), (5, TOP + 1), (-3, 2)]
    one = columns([(0, 9)])
    assert built.merged(beyond) is None
    assert built.joined_columns(*one, beyond) is None
    assert built.cut_out(*one, beyond) is None
    assert built.fronts(*one, TOP + 1) is None
    assert built.within(*one, beyond) is None
    assert built.within_up_to(*one, one[0], beyond, 1) is None
    assert built.within_up_to(*one, one[0], [], TOP + 1) is None
    assert built.total(*columns([(0, TOP)])) is None
    with pytest.raises(OverflowError):
        built.transposed([(TOP + 1, 0)], 2)


def test_wrong_arguments_are_refused(built: ModuleType) -> None:
    one, two = columns([(0, 9)]), columns([(0, 9), (20, 29)])
    wrong = [
        lambda: built.merged((1, 2)),
        lambda: built.merged([(1, 2, 3)]),
        lambda: built.merged([("a", 2)]),
        lambda: built.joined_columns(*one),
        lambda: built.joined_columns(one[0], two[0], []),
        lambda: built.cut_out(*one, [(1, 2)], two[0]),
        lambda: built.cut_out(array("B", [1]), array("B", [1]), []),
        lambda: built.within(*one, [(1, 2)], *two),
        lambda: built.within_up_to(*one, two[0], [], 1),
        lambda: built.within_up_to(*one, one[0], 1, 1),
        lambda: built.merged_pairs(one[0]),
        lambda: built.merged_pairs([1, 2]),
        lambda: built.by_slot(*one, one[0], 0),
        lambda: built.by_slot(*one, 16),
        lambda: built.by_slot(*one, two[0], 16),
        lambda: built.overlaid(*one, *one),
        lambda: built.overlaid(*one, one[0], *two, two[0], one[0]),
        lambda: built.ascending(*one, one[0]),
        lambda: built.paired(one[0]),
        lambda: built.parts(0, 1, 2, one[0]),
        lambda: built.parts(-1, 1, 2, *one),
        lambda: built.parts(0, None, 2, *one),
        lambda: built.fronts(*one),
        lambda: built.transposed([(1, 2)], 3),
        lambda: built.transposed([(1, 2)], 0),
        lambda: built.transposed([1], 1),
    ]
    for call in wrong:
        with pytest.raises((TypeError, ValueError)):
            call()


SANITIZED = """
import random, sys
from array import array
from pathlib import Path
from tests.wire import native
from node.ranges.range_map import RangeMap
from node.ranges.range_set import RangeSet
built = native.load(Path(sys.argv[1]))
chance = random.Random(7)

def pairs(most):
    found = [(chance.randrange(300), chance.randrange(20)) for _ in range(chance.randrange(most))]
    return [(first, first + size) for first, size in found]

for _ in range(500):
    spans = list(RangeMap((*pair, chance.randrange(3)) for pair in pairs(40)).all())
    news = list(RangeMap((*pair, chance.randrange(3)) for pair in pairs(40)).all())
    ranges, others = list(RangeSet(pairs(40)).ranges()), list(RangeSet(pairs(40)).ranges())
    old, new = built.transposed(spans, 3), built.transposed(news, 3)
    built.overlaid(*old, *new)
    firsts, lasts = built.transposed(ranges, 2)
    built.merged(pairs(40))
    built.merged_pairs(array("Q", [number for pair in pairs(40) for number in pair]))
    built.by_slot(*old, chance.randrange(1, 3))
    built.within_up_to(*old, others, chance.randrange(3))
    built.joined_columns(firsts, lasts, others)
    built.cut_out(firsts, lasts, others, firsts, lasts)
    built.within(*old[:2], others, old[2])
    built.total(firsts, lasts)
    built.ascending(firsts, lasts)
    built.paired(lasts, firsts)
    built.fronts(firsts, lasts, chance.randrange(400))
    built.parts(chance.randrange(50), 20, 200, *old)
    built.parts(chance.randrange(50), 20, 200, firsts, lasts)
"""


def test_no_octet_beyond_the_columns_is_touched(tmp_path: Path) -> None:
    """Under the address sanitizer, which ends the process at the first such octet."""
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    options = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    settings = {
        "LD_PRELOAD": found.stdout.strip(),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", SANITIZED, str(native.build("_range_columns", tmp_path, *options))]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
