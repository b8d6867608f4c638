"""Whatever octets or values a batch has, its reading ends with commands, or with a refusal that can be told
(seed 000, §6.3.1).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.message.requests import RequestMessage
from node.session.batch_port import QueryQueues
from node.session.batch_reading import BatchError, entries_of, read_batch
from node.wire.amqp10.argument_values import ArgumentError, field_table
from tests.wire.amqp10 import strategies as amqp10

WORDS = [
    "create", "or", "assert", "rename", "update", "delete", "query", "queue", "link", "with", "a", "=", ",",
    '"', '" "', '""', '"b"', '"\\ud800"', "\\", "durable=true", "durable=[]", "x-a=1e999", "x-a=[NaN]", "x-a",
    "x-" + "9" * 5000, "x-a=" + "9" * 5000, "x-a=" + "[" * 70 + "]" * 70, "\n", "\t", "\xa0", "\x1c", "\0",
]  # fmt: skip
LINES = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12)
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["command", "queue", "link", "with", "to", "durable", "x-a", "\ud800"]),
            inner | st.sampled_from(["create", "query", "rename", "assert", "a"]),
            max_size=4,
        )
    ),
)
DEEP = "[" * 900 + "]" * 900


def read(content: Any, *, typed: bool = False) -> None:
    try:
        read_batch(entries_of(RequestMessage(None, None, content, typed)))
    except BatchError as error:
        assert len(str(error)) < 100_000
        json.dumps(str(error))


@pytest.mark.requirement("E1")
@settings(max_examples=600, deadline=None)
@given(LINES.map(" ".join))
@example('" " queue')
@example('"" queue a')
@example('" " "')
@example('"\\u2003" link a b c d')
@example('"\\ud800" queue a')
@example("create queue a with x-a=" + DEEP)
def test_every_text_is_read_or_refused(text: str) -> None:
    read(text.encode("utf-8", "surrogatepass"))


@pytest.mark.requirement("E1")
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80) | DOCUMENTS.map(lambda one: json.dumps(one).encode()))
@example(b'{"command": "query", "with": {"x-a": ' + DEEP.encode() + b"}}")
@example(b'{"command": ' + DEEP.encode() + b"}")
@example(b'{"command": "query", "with": {"durable": ' + DEEP.encode() + b"}}")
@example(b'{"command": "query", "with": {"durable": ' + b"9" * 4000 + b"}}")
def test_every_document_is_read_or_refused(octets: bytes) -> None:
    read(octets)


@pytest.mark.requirement("E1")
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["x-a", "x-b", "durable", ""]) | amqp10.texts, amqp10.values))
@example({"x-a": amqp10.TimestampMs(-1)})
def test_every_map_of_amqp_1_0_is_read_or_refused(options: dict[str, Any]) -> None:
    try:
        entry = field_table({"command": "query", "with": options})
    except ArgumentError:
        return
    read([entry], typed=True)


@pytest.mark.requirement("E1")
def test_a_command_between_quotation_marks_is_no_command() -> None:
    with pytest.raises(BatchError, match="command ' ' is none of"):
        read_batch(entries_of(RequestMessage(None, None, b'" " queue a')))
    with pytest.raises(BatchError, match="one name too many"):
        read_batch(entries_of(RequestMessage(None, None, b'"" queue a b')))
    assert read_batch(entries_of(RequestMessage(None, None, b'"query" queue'))) == [QueryQueues("", {}, {})]
