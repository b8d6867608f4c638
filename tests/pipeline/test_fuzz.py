"""Any octets, and any change of a segment, give rows and damage: no other exception, in bounded memory."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.audit.audit import audit
from pipeline.journal.damage import FAIL, DamageError
from pipeline.journal.segments import segments_in
from replication.journal.segments import segment_name
from tests.pipeline.journals import Edited, all_rows, put_down, segment_of, tables_of, with_data
from tests.pipeline.test_tables import lives
from tests.site import Site

MEMORY = 64 << 20
"""The octets that tables may take beside the segment: a block, and the rows of one entry."""


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A segment of a node that has had messages with every end."""
    site = Site("n1")
    lives(site.client("n1"))
    directory = tmp_path_factory.mktemp("fuzz")
    (journal,) = put_down(site.nodes.values(), directory)
    return segment_of(Edited(journal).batches)


def readable(data: bytes, scratch: Path, *, newest: bool = True) -> None:
    """Read every table, and audit the journal that has this segment alone."""
    tracemalloc.start()
    all_rows(tables_of(data, newest=newest))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY + 40 * len(data)
    with suppress(DamageError):
        all_rows(tables_of(data, newest=newest, on_damage=FAIL))
    (scratch / segment_name(1)).write_bytes(data)
    audit([segments_in(scratch)])


ANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.requirement("F8.2")
@ANY
@given(st.binary(max_size=2000), st.booleans())
def test_any_octets(tmp_path: Path, octets: bytes, newest: bool) -> None:
    readable(octets, tmp_path, newest=newest)
    readable(segment_of([])[:512] + octets, tmp_path, newest=newest)


@pytest.mark.requirement("F8.2")
@ANY
@given(st.data())
def test_any_change_of_a_segment(tmp_path: Path, segment: bytes, data: Any) -> None:
    changed = bytearray(segment)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(changed) - 1))
        part = data.draw(st.binary(max_size=60))
        match data.draw(st.sampled_from(("put", "insert", "cut"))):
            case "put":
                changed[start : start + len(part)] = part
            case "insert":
                changed[start:start] = part
            case "cut":
                del changed[start : start + len(part)]
    readable(bytes(changed), tmp_path, newest=data.draw(st.booleans()))


@pytest.mark.requirement("F8.2")
@ANY
@given(st.data())
def test_any_change_of_a_record_whose_crc_is_right(tmp_path: Path, segment: bytes, data: Any) -> None:
    (tmp_path / segment_name(1)).write_bytes(segment)
    journal = Edited(tmp_path)
    chosen = data.draw(st.sampled_from([one for batch in journal.batches for one in batch if one.payload]))
    payload = bytearray(chosen.payload)
    start = data.draw(st.integers(0, len(payload) - 1))
    part = data.draw(st.binary(min_size=1, max_size=20))
    payload[start : start + data.draw(st.integers(0, 20))] = part
    journal.change(lambda one: one is chosen, lambda one: with_data(one, bytes(payload)))
    readable(segment_of(journal.batches), tmp_path)
