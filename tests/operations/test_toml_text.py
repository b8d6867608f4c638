"""Written TOML reads as what was written."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from cluster.config.toml_text import toml_text

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
scalars = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3),
)
tables = st.recursive(
    st.dictionaries(keys, scalars, max_size=4),
    lambda inner: st.dictionaries(keys, st.one_of(scalars, inner), max_size=4),
    max_leaves=12,
)


def without_empty(table: dict[str, object]) -> dict[str, object]:
    """A table without tables that hold nothing, which are not written."""
    kept: dict[str, object] = {}
    for key, value in table.items():
        inner = without_empty(value) if isinstance(value, dict) else value
        if inner != {}:
            kept[key] = inner
    return kept


@given(tables)
def test_what_is_written_is_read(table: dict[str, object]) -> None:
    assert tomllib.loads(toml_text(table)) == without_empty(table)  # type: ignore[arg-type]
