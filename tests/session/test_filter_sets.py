"""The filter-set of a source: what is in force, and what stands for it at the owner of a queue."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from node.expressions.selector import Selector
from node.session.amqp10.filters import MAX_FIELDS, NO_FILTERS, filter_set
from node.wire.amqp10.definitions import Source
from node.wire.amqp10.errors import FilterError
from node.wire.amqp10.values import Described, Symbol, TimestampMs, UInt, ULong
from tests.expressions.trees import KnownFacts
from tests.session.attached import Client, NodeBroker
from tests.session.test_amqp10_session import receiver

SELECTOR = "apache.org:selector-filter:string"
PROPERTIES = "amqp:properties-filter"
APPLICATION = "amqp:application-properties-filter"
ID = UUID(int=5)


def described(descriptor: str | int, value: Any) -> Described:
    return Described(ULong(descriptor) if isinstance(descriptor, int) else Symbol(descriptor), value)


def takes(filters: dict[str, Any], **facts: Any) -> bool:
    standard = {f"amqp.{name[1:]}" if name.startswith("_") else name: value for name, value in facts.items()}
    return Selector(filter_set(filters).condition).takes(KnownFacts(standard))


@pytest.mark.requirement("B12.1", "B12.2", "B12.3")
@pytest.mark.parametrize(
    "one",
    [
        described(SELECTOR, "a = 'x'"),
        described(0x0000468C00000004, "a = 'x'"),
        described("amqp:sql-filter", "a = \"x\" AND p.to = 'there'"),
        described(0x120, "application_properties.a = 'x'"),
        described("quorate:filter", "CONCAT(a, 'y') = 'xy'"),
        described(APPLICATION, {"a": "x"}),
        described(0x174, {"a": Symbol("x")}),
        described(APPLICATION, {"a": "&p:x", "b": None}),
        described(PROPERTIES, {Symbol("to"): "&s:ere"}),
        described(0x173, {"to": "there", "group-sequence": UInt(5), "message-id": ID}),
    ],
)
def test_a_filter_takes_messages(one: Described) -> None:
    found = filter_set({"name": one})
    assert found.kept == {"name": one}
    matching: dict[str, Any] = {"a": "x", "_to": "there", "_group_sequence": 5, "_message_id": str(ID)}
    assert takes({"name": one}, **matching)
    assert not takes({"name": one}, a="y", _to="away", _group_sequence=5, _message_id=str(ID))
    assert not takes({"name": one})


@pytest.mark.requirement("B12.2")
@pytest.mark.parametrize(
    ("reference", "value", "matches"),
    [
        ("&&x", "&x", True), ("&s:%", "50%", True), ("&s:%", "50", False), ("&p:a_", "a_b", True),
        ("&p:a_", "abb", False), (5, 5.0, True), (5.5, 5.5, True), (True, True, True), (True, 1, False),
        (b"ab", "ab", True), (b"\xff", b"\xff", True),
        (ID, ID.bytes.decode(), True), (TimestampMs(7), 7, True),
        ("x", None, False), ("5", 5, False), (None, "anything", True),
    ],
)  # fmt: skip
def test_reference_values(reference: Any, value: Any, matches: bool) -> None:
    assert takes({"f": described(APPLICATION, {"a": reference})}, a=value) is matches


def test_all_filters_of_a_set_have_to_take_a_message() -> None:
    both = {"one": described(SELECTOR, "a = 1"), "two": described(APPLICATION, {"b": 2})}
    assert takes(both, a=1, b=2)
    assert not takes(both, a=1)
    assert not takes(both, b=2)


def test_equal_conditions_have_equal_octets() -> None:
    spellings = ["a='x'", " a  =  'x' ", "(application.a) = 'x'"]
    assert len({filter_set({"f": described(SELECTOR, text)}).condition for text in spellings}) == 1


@pytest.mark.parametrize(
    "one", [described("acme:filter", "x"), described(7, "x"), "x", None, Described("selector", "a = 1")]
)
def test_an_unknown_filter_is_not_in_force(one: Any) -> None:
    assert filter_set({"name": one}) == NO_FILTERS
    assert filter_set(None) == NO_FILTERS


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (described(SELECTOR, "a = "), "the filter 'name' does not parse: .* at column 5"),
        (described(SELECTOR, b"a = 1"), "no string"),
        (described(PROPERTIES, {"nothing": 1}), "there is no property nothing"),
        (described(PROPERTIES, {"message_id": 1}), "there is no property message_id"),
        (described(APPLICATION, {}), "0 fields"),
        (described(APPLICATION, dict.fromkeys(map(str, range(MAX_FIELDS + 1)), 1)), "17 fields"),
        (described(APPLICATION, {"a": "&q:"}), "unknown modifier"),
        (described(APPLICATION, {"a": [1]}), "no simple type"),
        (described(APPLICATION, [1]), "no map"),
    ],
)
def test_a_known_filter_that_does_not_parse_is_refused(one: Described, text: str) -> None:
    with pytest.raises(FilterError, match=text):
        filter_set({"name": one})


@pytest.mark.sentence("1.0/3.5.8-1")
def test_no_filter_is_in_force_while_a_node_does_not_know_filters() -> None:
    broker = NodeBroker()
    attach = receiver(0)
    assert isinstance(attach.source, Source)
    attach.source.filter = {"name": described(SELECTOR, "a = 1")}
    answer = Client(broker).send(attach)[0]
    assert answer.source.filter == attach.source.filter
    broker.knows_filters = False
    answer = Client(broker).send(attach)[0]
    assert answer.source.filter is None


def test_a_filter_of_queues_is_not_in_force_while_a_node_does_not_read_it() -> None:
    broker = NodeBroker()
    attach = receiver(0)
    assert isinstance(attach.source, Source)
    attach.source.filter = {
        "name": described(SELECTOR, "a = 1"),
        "own": described("quorate:filter", "UPPER(/a) = 'B'"),
    }
    answer = Client(broker).send(attach)[0]
    assert answer.source.filter == attach.source.filter
    broker.knows_expressions = False
    answer = Client(broker).send(attach)[0]
    assert list(answer.source.filter) == ["name"]
