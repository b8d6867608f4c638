"""JSON Merge Patch, as its RFC has it and over random documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.json_body import MAX_DOCUMENT
from node.message.merge_patch import EMPTY_OBJECT, merged_body


@pytest.mark.requirement("D16.6")
@pytest.mark.parametrize(
    ("former", "patch", "whole"),
    [
        ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
        ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
        ('{"a":"b"}', '{"a":null}', "{}"),
        ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
        ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
        ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
        ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
        ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
        ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
        ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
        ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
    ],
)
def test_the_examples_of_the_rfc(former: str, patch: str, whole: str) -> None:
    """Appendix A of RFC 7396, as far as the patch is an object."""
    assert merged_body(former.encode(), patch.encode()) == whole.encode()


@pytest.mark.requirement("D16.6")
@pytest.mark.parametrize("patch", [b"[]", b"1", b"null", b"", b"{", b"\xff", b'{"a": 1e400}', b'{"a": NaN}'])
def test_what_is_no_object_of_json_makes_no_whole(patch: bytes) -> None:
    assert merged_body(EMPTY_OBJECT, patch) is None
    assert merged_body(patch, b"{}") in (None, b"{}")


@pytest.mark.requirement("D16.6")
def test_a_whole_that_no_expression_could_read_is_not_made() -> None:
    half = json.dumps({"a": "x" * (MAX_DOCUMENT // 2)}).encode()
    other = json.dumps({"b": "x" * (MAX_DOCUMENT // 2)}).encode()
    assert merged_body(EMPTY_OBJECT, half) is not None
    assert merged_body(half, other) is None
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    assert merged_body(deep, deep) in (deep, None)
    endless = b'{"a":' * 5000 + b"1" + b"}" * 5000
    assert merged_body(EMPTY_OBJECT, endless) is None


VALUES = st.recursive(
    st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), VALUES, max_size=4)


def difference(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The patch that makes one object the other."""
    found: dict[str, Any] = {name: None for name in one if name not in other}
    for name, value in other.items():
        if isinstance(value, dict) and isinstance(one.get(name), dict):
            found[name] = difference(one[name], value)
        elif name not in one or one[name] != value or type(one[name]) is not type(value):
            found[name] = value
    return found


@pytest.mark.requirement("D16.6")
@given(one=OBJECTS, other=OBJECTS)
def test_a_difference_makes_one_object_the_other_however_often(one: Any, other: Any) -> None:
    patch = json.dumps(difference(one, other)).encode()
    whole = merged_body(json.dumps(one).encode(), patch)
    assert whole is not None
    assert json.loads(whole) == other
    assert merged_body(whole, patch) == whole
