"""The table of a message's life is what the documents show, and names operations that there are."""

from __future__ import annotations

from node.queue.life import LIFE, Place
from node.queue.operations import OpKind
from tests.structure.tree import ROOT

DOCUMENT = ROOT / "docs" / "queues.md"


def test_the_document_shows_the_table() -> None:
    _, _, behind = DOCUMENT.read_text(encoding="utf-8").partition("| from | what happens |")
    rows = behind.split("\n\n", 1)[0].splitlines()[2:]
    assert rows == [
        f"| {one.place} | {one.event} | {one.to} | {', '.join(one.durable) or 'soft'} |" for one in LIFE
    ]


def test_operations_of_the_table_are_there() -> None:
    names = {name for row in LIFE for one in row.durable for name in one.split(" + ")}
    assert names <= set(OpKind.__members__)


def test_every_place_is_reached_but_for_the_first_and_left() -> None:
    assert {one.to for one in LIFE} == set(Place) - {Place.NEW}
    assert {one.place for one in LIFE} == set(Place)
