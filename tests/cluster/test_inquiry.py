"""Questions between nodes: each is answered once, and a node that does not answer is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cluster.admin import inquiry
from cluster.admin.inquiry import Inquiry


def raised(error: Exception, _question: str) -> None:
    raise error


class Wire:
    """Carries messages between nodes of one process, except to those that are `deaf`."""

    def __init__(self, *nodes: str) -> None:
        self.deaf: set[str] = set()
        self.inquiries = {node: self._inquiry(node, [one for one in nodes if one != node]) for node in nodes}

    def _inquiry(self, node: str, others: list[str]) -> Inquiry:
        def send(peer: str, parts: Sequence[bytes]) -> None:
            if peer not in self.deaf:
                asyncio.get_running_loop().call_soon(self.inquiries[peer].receive, node, parts, 0.0)

        made = Inquiry(node, send, lambda: others, raised)
        made.answer("double", lambda number: [node, 2 * number])
        return made


def run(body: Any) -> Any:
    return asyncio.run(body)


def test_every_node_answers_for_itself() -> None:
    wire = Wire("n1", "n2", "n3")
    answers = run(wire.inquiries["n2"].ask_all("double", 21))
    assert answers == {node: [node, 42] for node in ("n1", "n2", "n3")}


def test_one_node_can_be_asked() -> None:
    wire = Wire("n1", "n2")
    assert run(wire.inquiries["n1"].ask("n2", "double", 4)) == ["n2", 8]
    assert run(wire.inquiries["n1"].ask("n1", "double", 4)) == ["n1", 8]


def test_a_node_that_does_not_answer_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "ANSWER_TIMEOUT_S", 0.01)
    wire = Wire("n1", "n2", "n3")
    wire.deaf.add("n3")
    assert set(run(wire.inquiries["n1"].ask_all("double", 1))) == {"n1", "n2"}
    assert run(wire.inquiries["n1"].ask("n3", "double", 1)) is None


def test_a_question_that_a_node_does_not_know_has_no_answer() -> None:
    """A node of an older release gets a question that only newer releases know."""
    wire = Wire("n1", "n2")
    wire.inquiries["n1"].answer("new", lambda _: "known")
    assert run(wire.inquiries["n1"].ask_all("new")) == {"n1": "known"}
