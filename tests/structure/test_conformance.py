"""The marks of the tests name requirements that exist, and docs/conformance.md says what they say."""

from __future__ import annotations

import ast

from scripts.conformance import DOCUMENT, document, marks, requirements, shown


def test_every_mark_names_a_requirement() -> None:
    known = {key for rows in requirements().values() for key in rows}
    unknown = {key: tests for key, tests in shown().items() if key not in known}
    assert not unknown


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make conformance`"


def test_marks_are_found_on_functions_classes_and_modules() -> None:
    source = """
pytestmark = [pytest.mark.requirement("A1")]

@pytest.mark.requirement("A2", "A3")
async def test_one(): ...

@pytest.mark.requirement("A4")
class TestGroup:
    @pytest.mark.requirement("A5")
    def test_two(self): ...

def not_a_test(): ...
"""
    assert sorted(marks(ast.parse(source))) == [
        ("TestGroup::test_two", "A1"),
        ("TestGroup::test_two", "A4"),
        ("TestGroup::test_two", "A5"),
        ("test_one", "A1"),
        ("test_one", "A2"),
        ("test_one", "A3"),
    ]
