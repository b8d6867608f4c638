"""Sentences say who does what."""

from __future__ import annotations

import pytest

from tests.structure.prose import RIDDLES, figures, found, place, recorded


@pytest.mark.parametrize("kind", RIDDLES)
def test_riddles_only_get_fewer(kind: str) -> None:
    now, limits = figures(), recorded()
    over = [where for where in now if now[where].get(kind, 0) > limits.get(where, {}).get(kind, 0)]
    texts = [f"{path}: {text}" for path, one, text in found() if one == kind and place(path) in over]
    assert not over, "name the actor, or use the noun:\n" + "\n".join(texts)


@pytest.mark.parametrize(
    ("kind", "prose"),
    [
        ("pronoun", "Nobody hears of a message that the queue refuses."),
        ("pronoun", "The message is nobody's."),
        ("clause", "What is prepared belongs to no consumer."),
        ("clause", "Pure. What a client sends is counted."),
    ],
)
def test_riddles_are_found(kind: str, prose: str) -> None:
    assert RIDDLES[kind].search(prose)


@pytest.mark.parametrize("prose", ["What does it cost?", "The owner says what it has."])
def test_questions_and_objects_are_no_riddles(prose: str) -> None:
    assert not any(pattern.search(prose) for pattern in RIDDLES.values())
