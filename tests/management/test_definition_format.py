"""Definitions are read as a whole, or not at all (F7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.definition_format import DefinitionReader, Definitions
from cluster.admin.api.errors import ApiError
from cluster.admin.api.fields import Fields


def read(file: dict[str, Any], vhost: str | None = None) -> Definitions:
    return DefinitionReader(Fields(file), vhost).definitions()


QUEUE = {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}
BINDING = {
    "source": "e", "vhost": "v", "destination": "q", "destination_type": "queue", "routing_key": "k",
    "arguments": {"a": 1},
}  # fmt: skip


@pytest.mark.requirement("F7.2")
def test_entries_are_what_they_say() -> None:
    exchange = {
        "name": "e",
        "vhost": "v",
        "type": "topic",
        "durable": True,
        "internal": True,
        "arguments": {},
    }
    found = read({"queues": [QUEUE], "exchanges": [exchange], "bindings": [BINDING]})
    ((vhost, queue),) = found.queues
    declared_queue = queue.declaration
    assert (vhost, declared_queue.name, declared_queue.durable) == ("v", "q", True)
    assert declared_queue.arguments == {"x-max-length": 5}
    ((_, declared),) = found.exchanges
    assert (declared.name, declared.kind, declared.internal) == ("e", "topic", True)
    (binding,) = found.bindings
    assert (binding.vhost, binding.source, binding.destination.name) == ("v", "e", "q")
    assert found.needed_vhosts() == {"v"}


@pytest.mark.requirement("F7.2")
def test_a_virtual_host_of_ones_own_takes_the_place_of_those_in_the_file() -> None:
    file = {"queues": [QUEUE], "bindings": [BINDING], "users": [{"name": "u"}], "vhosts": [{"name": "v"}]}
    found = read(file, "mine")
    assert found.needed_vhosts() == {"mine"}
    assert (found.users, found.vhosts) == ([], [])


def test_what_the_broker_declares_itself_is_passed_over() -> None:
    names = ["", "amq.direct", "amq.rabbitmq.trace", "own"]
    found = read({"exchanges": [{"name": name, "vhost": "/", "type": "direct"} for name in names]})
    assert [command.name for _, command in found.exchanges] == ["own"]


def test_what_is_not_supported_is_left_out_by_name() -> None:
    policy = {"vhost": "/", "name": "f", "pattern": ".*", "definition": {"federation-upstream": "x"}}
    shovel = {"vhost": "/", "component": "shovel", "name": "s", "value": {}}
    limits = {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}}
    found = read(
        {"policies": [policy], "parameters": [shovel, limits], "queues": [{**QUEUE, "name": "amq.gen-x"}]}
    )
    assert [(one.what, one.name) for one in found.left_out] == [
        ("parameters", "shovel s"), ("policies", "f"), ("queues", "amq.gen-x"),
    ]  # fmt: skip
    assert found.limits == [("/", "max-queues", 5)]


@pytest.mark.requirement("F7.2")
def test_policies_are_read_wherever_they_stand() -> None:
    said = {"pattern": "^a", "definition": {"max-length": 5}}
    operator = {"component": "operator_policy", "vhost": "/", "name": "o", "value": {**said, "priority": "3"}}
    file = {
        "policies": [{**said, "vhost": "/", "name": "p", "apply-to": "queues", "priority": 1}],
        "parameters": [operator],
        "operator_policies": [{**said, "vhost": "v", "name": "n"}],
    }
    plain = {"pattern": "^a", "apply_to": "queues", "definition": {"max-length": 5}}
    found = read(file)
    assert found.policies == [
        ("/", True, {**plain, "name": "o", "priority": 3}),
        ("/", False, {**plain, "name": "p", "priority": 1}),
        ("v", True, {**plain, "name": "n", "priority": 0}),
    ]
    assert found.needed_vhosts() == {"/", "v"}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"queues": 5}, "queues_not_a_list_of_objects"),
        ({"queues": ["q"]}, "queues_not_a_list_of_objects"),
        ({"queues": [{"vhost": "/"}]}, "[{key_missing,name}]"),
        ({"queues": [{"name": "q"}]}, "[{key_missing,vhost}]"),
        ({"queues": [{**QUEUE, "durable": "perhaps"}]}, ["not_boolean", "perhaps"]),
        ({"queues": [{**QUEUE, "name": "x" * 256}]}, "256 octets do not fit into a short string"),
        ({"users": [{"name": "u"}]}, "tags_not_present"),
        ({"bindings": [{**BINDING, "destination_type": "odd"}]}, "unknown destination_type 'odd'"),
        ({"bindings": [{**BINDING, "arguments": {"a": None}}]}, "null_not_allowed"),
        ({"permissions": [{"vhost": "/"}]}, "[{key_missing,user}]"),
    ],
)
def test_a_file_with_a_mistake_is_refused(file: dict[str, Any], reason: Any) -> None:
    with pytest.raises(ApiError) as caught:
        read(file)
    assert (caught.value.status, caught.value.reason) == (400, reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENTRY = st.dictionaries(
    st.sampled_from(
        ["name", "vhost", "user", "tags", "arguments", "source", "destination", "destination_type", "value"]
    ),
    JSON,
)
PARTS = [
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "policies",
    "queues",
    "exchanges",
]


@given(st.dictionaries(st.sampled_from([*PARTS, "bindings"]), JSON | st.lists(ENTRY, max_size=3)))
def test_any_json_is_read_or_refused(file: dict[str, Any]) -> None:
    try:
        read(file)
    except ApiError as error:
        assert error.status == 400
