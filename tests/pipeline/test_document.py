"""The page about the format of journals has what the broker writes: a new kind, or level, is a new row."""

from __future__ import annotations

import re
from enum import IntEnum

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.message.reason import Reason
from node.queue.operations import Aspect, OpKind
from node.queue.partition import READABLE_VERSIONS
from node.queue.queue import WITH_ROWS
from node.queue.remarks import Subject
from node.queue.targets import TargetStep
from pipeline.journal.states import _VERSIONS
from replication.journal.records import RECORD, SEGMENT_HEADER, RecordKind
from tests.structure.tree import ROOT

PAGE = (ROOT / "docs" / "journal-format.md").read_text(encoding="utf-8")


def rows(kinds: type[IntEnum]) -> list[str]:
    return [f"| {kind.value} | {kind.name} |" for kind in kinds]


@pytest.mark.requirement("F8.2")
def test_every_kind_of_record_and_operation_has_a_row() -> None:
    missing = [row for row in (*rows(RecordKind), *rows(OpKind)) if row not in PAGE]
    assert not missing
    named = set(re.findall(r"^\| \d+ \| ([A-Z_]+) \|", PAGE, re.MULTILINE))
    assert named == {*RecordKind.__members__, *OpKind.__members__}


@pytest.mark.requirement("F8.2")
def test_the_values_of_operations_are_listed() -> None:
    aspects = PAGE[PAGE.index("Aspects of ANNOTATE") : PAGE.index("Reasons:")]
    assert all(f" {one.value} {one.name.lower()}" in aspects for one in Aspect)
    reasons = PAGE[PAGE.index("Reasons:") : PAGE.index("An operation of an unknown kind")]
    assert all(f" {one.value} " in reasons for one in Reason)
    assert all(f"Subject {one.value}: " in PAGE for one in Subject)
    assert all(f"{one.value} {one.name.lower()}" in PAGE for one in TargetStep)


@pytest.mark.requirement("F8.2")
def test_versions_and_sizes_are_those_of_the_broker() -> None:
    assert f"format levels up to {FORMAT_LEVEL} " in PAGE
    assert f"A record is a header of {RECORD.size} octets" in PAGE
    assert f"| {SEGMENT_HEADER.size} | 16 octets | key" in PAGE
    assert f"| u8 | version: 1 to {WITH_ROWS} |" in PAGE
    assert READABLE_VERSIONS == tuple(_VERSIONS) == tuple(range(1, WITH_ROWS + 1))
