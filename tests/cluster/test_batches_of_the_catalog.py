"""The catalog carries out a batch whole or not at all, alike on every replica: against a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command
from node.message.streams import history_name
from tests.cluster.test_catalog_state import FRONT_END, queue

LIMIT = 5
"""Queues that the virtual host may have."""

RENAMED = "b"
NAMES = ("a", RENAMED, "s", "a.history")
STREAM = {"x-queue-type": "stream"}
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {}, {"x-max-length": 1}, STREAM, {"x-history": "7D"}, {"x-underlying-topic": "s"},
)  # fmt: skip
MINE = {"front_end": FRONT_END, "holder": 0}

Step = tuple[str, str, dict[str, Any], bool]
"""A command, a queue, arguments, and whether the queue may exist."""

steps = st.tuples(
    st.sampled_from(["create", "create", "assert", "update", "delete", "rename"]),
    st.sampled_from(NAMES),
    st.sampled_from(ARGUMENTS),
    st.booleans(),
)
changes = st.sampled_from([{"x-max-length": 1}, {"x-max-length": 2}, {"x-max-length": None}])


class Model:
    """The arguments of the queues by name."""

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, Any]] = {}

    def after(self, batch: list[Step]) -> dict[str, dict[str, Any]] | None:
        """The queues after a batch; None where one of its steps is refused."""
        queues = dict(self.queues)
        for step in batch:
            if not self._takes(queues, *step):
                return None
        return queues

    def _takes(
        self, queues: dict[str, dict[str, Any]], verb: str, name: str, arguments: dict[str, Any], may: bool
    ) -> bool:
        there = queues.get(name)
        if verb == "create":
            return self._creates(queues, name, arguments, may)
        if there is None:
            return False
        if verb == "assert":
            return all(there.get(key) == value for key, value in arguments.items())
        if verb == "update":
            queues[name] = {**there, "x-max-length": 3}
            return True
        if verb == "rename":
            return self._renames(queues, name, there)
        if name == "a.history" and "x-history-of" in there and "a" in queues:
            return False
        del queues[name]
        if "x-history-of" in queues.get(history_name(name), {}):
            del queues[history_name(name)]
        return True

    def _renames(self, queues: dict[str, dict[str, Any]], name: str, there: dict[str, Any]) -> bool:
        if RENAMED in queues or "x-history" in there or there.get("x-queue-type") == "stream":
            return False
        queues[RENAMED] = queues.pop(name)
        return True

    def _creates(
        self, queues: dict[str, dict[str, Any]], name: str, arguments: dict[str, Any], may: bool
    ) -> bool:
        there = queues.get(name)
        if there is not None:
            # A declaration without a type is one of any queue with these arguments.
            free = {"x-history-of", *({"x-queue-type"} - arguments.keys())}
            return may and {**there, **dict.fromkeys(free)} == {**arguments, **dict.fromkeys(free)}
        if "x-underlying-topic" in arguments and queues.get("s", {}).get("x-queue-type") != "stream":
            return False
        kept = history_name(name)
        if "x-history" in arguments and kept in queues:
            return False
        if len(queues) + ("x-history" in arguments) >= LIMIT:
            return False
        queues[name] = arguments
        if "x-history" in arguments:
            queues[kept] = {**STREAM, "x-max-age": arguments["x-history"], "x-history-of": name}
        return True


def step_of(verb: str, name: str, arguments: dict[str, Any], may_exist: bool) -> list[Any]:
    if verb == "create":
        return [verb, {**_without_vhost(queue(name, arguments=arguments)), "may_exist": may_exist}]
    if verb == "update":
        return [verb, {"name": name, "arguments": {"x-max-length": 3}, **MINE}]
    if verb == "rename":
        return [verb, {"name": name, "to": RENAMED, **MINE}]
    if verb == "delete":
        return [verb, {"name": name, **MINE}]
    return [verb, {"name": name, "properties": {"durable": True}, "arguments": arguments, **MINE}]


def _without_vhost(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "vhost"}


def replica() -> CatalogState:
    state = CatalogState(Observer())
    commands: list[tuple[str, dict[str, Any]]] = [
        ("declare_vhost", {"vhost": "/"}),
        ("set_vhost_limit", {"vhost": "/", "limit": "max-queues", "value": LIMIT}),
    ]
    for node in ("n1", "n2", "n3"):
        commands.append(("start_node", {"name": node, "front_end": FRONT_END + int(node[1]) - 1}))
    for number, (name, arguments) in enumerate(commands):
        state.apply(encode_command(1, number, name, arguments))
    return state


@pytest.mark.requirement("X7.3", "E1")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(steps, min_size=1, max_size=6), max_size=8), st.integers(0, 8))
def test_a_batch_changes_everything_or_nothing_and_all_replicas_alike(
    batches: list[list[Step]], restored_at: int
) -> None:
    model, replicas, late = Model(), [replica(), replica()], CatalogState(Observer())
    late.restore(replicas[0].snapshot())
    for number, batch in enumerate(batches):
        arguments = {"vhost": "/", "steps": [step_of(*step) for step in batch]}
        data = encode_command(FRONT_END, number, "batch", arguments)
        before = list(replicas[0].queues.values())
        outcomes = [state.apply(data)[0] for state in (*replicas, late)]
        expected = model.after(batch)
        assert [outcome.error is None for outcome in outcomes] == [expected is not None] * 3
        if expected is None:
            assert list(replicas[0].queues.values()) == before
        else:
            model.queues = expected
        if number == restored_at:
            late = CatalogState(Observer())
            late.restore(replicas[1].snapshot())
        snapshots = [state.snapshot() for state in (*replicas, late)]
        assert snapshots == [snapshots[0]] * 3
        found = {name: queue.arguments for (_, name), queue in replicas[0].queues.items()}
        assert {name: {**one, "x-history-of": None} for name, one in found.items()} == {
            name: {**one, "x-history-of": None} for name, one in model.queues.items()
        }
