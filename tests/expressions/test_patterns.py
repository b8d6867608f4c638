"""LIKE, beside regular expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.expressions.patterns import LONGEST_SEARCHED, LikePattern, PatternError, escaped
from tests.expressions.trees import PATTERNS, like


@pytest.mark.requirement("B12.1")
@settings(max_examples=500)
@given(pattern=PATTERNS, text=st.text("ab%_'\\", max_size=9))
def test_a_pattern_matches_as_its_regular_expression_does(pattern: str, text: str) -> None:
    assert LikePattern(pattern).matches(text) is like(pattern, text)


@given(pattern=st.text("ab%_!\\", max_size=8), text=st.text("ab%_!\\", max_size=8))
def test_a_pattern_with_an_escape_character(pattern: str, text: str) -> None:
    if re.fullmatch("(?:[^!]|!.)*", pattern) is None:
        with pytest.raises(PatternError):
            escaped(pattern, "!")
        return
    parts = re.findall("!.|[^!]", pattern)
    expected = "".join({"%": ".*", "_": "."}.get(part) or re.escape(part[-1]) for part in parts)
    assert LikePattern(escaped(pattern, "!")).matches(text) is (re.fullmatch(expected, text) is not None)


@given(pattern=PATTERNS, text=st.text("ab%_'\\", max_size=9))
def test_a_matching_text_contains_the_piece(pattern: str, text: str) -> None:
    found = LikePattern(pattern)
    if found.matches(text):
        assert found.piece in text


def test_characters_beyond_ascii_and_line_ends() -> None:
    assert LikePattern("car_rot").matches("car\U0001f955rot")
    assert LikePattern("a%b").matches("a\n\nb")
    assert not LikePattern("a_b").matches("ab")


@pytest.mark.requirement("B12.5")
@pytest.mark.parametrize("pattern", ["%" + "a%" * 1000 + "b", "%" + "a_" * 400 + "b%", "%_" * 1000 + "b"])
def test_the_work_for_a_hostile_pattern_grows_with_the_text(pattern: str) -> None:
    """A search that goes back would need longer than the test may take."""
    assert LikePattern(pattern).matches("a" * LONGEST_SEARCHED) is False


def test_a_piece_with_a_wildcard_is_not_searched_in_a_very_long_text() -> None:
    assert LikePattern("%a_b%").matches("x" * (LONGEST_SEARCHED + 1)) is None
    assert LikePattern("%ab%").matches("x" * LONGEST_SEARCHED + "ab") is True
