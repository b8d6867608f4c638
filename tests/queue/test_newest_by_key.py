"""The newest message of each key (`node.queue.newest_by_key`)."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from node.queue.newest_by_key import LOW_BITS, NONE_NEWEST, NewestByKey

KEYS = st.one_of(
    st.integers(0, (1 << 64) - 1),
    # Keys that differ in their highest bits alone, and the ends.
    st.integers(0, 15).map(lambda high: high << LOW_BITS | 7),
    st.sampled_from((0, 1, (1 << 64) - 1)),
)


@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers(1, 1 << 63))))
def test_it_is_a_map_of_keys_of_64_bits(steps: list[tuple[bool, int, int]]) -> None:
    newest, model = NewestByKey(), dict[int, int]()
    for sets, key, number in steps:
        if sets:
            newest.set(key, number)
            model[key] = number
        elif key in model:
            newest.remove(key)
            del model[key]
        assert newest.get(key) == model.get(key, NONE_NEWEST)
    assert {key: newest.get(key) for key in model} == model
    assert len(newest) == len(model)


def test_the_integers_of_keys_take_less_than_those_of_digests() -> None:
    assert sys.getsizeof((1 << LOW_BITS) - 1) <= 32 < sys.getsizeof((1 << 64) - 1)
