"""Two clients declare one queue at once: the declaration of one of them creates the queue."""

from __future__ import annotations

from functools import partial

import pytest

from node.refusal import Refusal
from node.session.ports import DeclaredQueue, QueueDeclaration
from tests.site import Site

QUEUE = QueueDeclaration("q", durable=True, exclusive=False, auto_delete=False)


@pytest.mark.parametrize("names", [("n1", "n2"), ("n2", "n3"), ("n1", "n1")])
def test_one_of_two_declarations_has_created_the_queue(names: tuple[str, str]) -> None:
    site = Site("n1", "n2", "n3")
    found: list[tuple[DeclaredQueue | None, Refusal | None]] = []

    def answer(declared: DeclaredQueue | None, refusal: Refusal | None) -> None:
        found.append((declared, refusal))

    for holder, name in enumerate(names):
        declare = partial(site.front_end(name).declare_queue, "/", QUEUE, holder, answer)
        site.nodes[name].input(declare)
    site.until(lambda: len(found) == len(names))
    assert sorted(declared is not None and declared.created for declared, _ in found) == [False, True]
    assert not any(refusal for _, refusal in found)


def test_a_declaration_of_a_queue_that_is_there_creates_none() -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q", durable=True)
    found: list[bool] = []

    def answer(declared: DeclaredQueue | None, refusal: Refusal | None) -> None:
        assert declared is not None and refusal is None
        found.append(declared.created)

    site.nodes["n2"].input(partial(site.front_end("n2").declare_queue, "/", QUEUE, 1, answer))
    site.until(lambda: found)
    assert found == [False]
