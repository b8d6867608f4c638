"""Templates of dead letters: what they refuse, and the octets that they make (D19)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message import template
from node.message.template import BODIES, MOST_OCTETS, NAMED, Template, TemplateError

VALUES = {name: name.upper() for name in NAMED}

pieces = st.lists(
    st.text(max_size=5) | st.sampled_from([f"{{{{{name}}}}}" for name in (*NAMED, *BODIES, "other")]),
    max_size=6,
).map("".join)


@given(pieces, st.binary(max_size=20))
def test_a_template_is_refused_or_filled(text: str, body: bytes) -> None:
    try:
        found = Template(text).filled(body, VALUES)
    except TemplateError as error:
        assert str(error)
        return
    wanted = text
    for name in NAMED:
        wanted = wanted.replace("{{" + name + "}}", name.upper())
    if not any("{{" + name + "}}" in text for name in BODIES):
        assert found == wanted.encode("utf-8", "surrogateescape")
    else:
        assert found is not None and (b"{{data}}" in body or b"{{data}}" not in found)


@given(st.dictionaries(st.sampled_from(NAMED), st.text(), min_size=len(NAMED)), st.binary(max_size=30))
def test_values_do_not_break_out_of_a_text_of_json(values: dict[str, str], body: bytes) -> None:
    places = ", ".join(f'"{name}": "{{{{{name}}}}}"' for name in (*NAMED, "text"))
    found = Template("{" + places + "}").filled(body, values)
    assert found is not None
    told = json.loads(found)
    assert told.pop("text") == body.decode("utf-8", "replace")
    assert told == {name: value.encode("utf-8", "replace").decode() for name, value in values.items()}


def test_a_body_that_would_be_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Template("<{{data}}>").filled(bytes(MOST_OCTETS - 2), VALUES) is not None
    assert Template("<{{data}}>").filled(bytes(MOST_OCTETS - 1), VALUES) is None
    assert Template("{{text}}").filled(bytes(MOST_OCTETS // 6 + 1), VALUES) is None


def test_the_longest_template() -> None:
    assert Template("x" * template.MOST_CHARACTERS).filled(b"", VALUES) is not None
    with pytest.raises(TemplateError, match="may have 8192"):
        Template("x" * (template.MOST_CHARACTERS + 1))
