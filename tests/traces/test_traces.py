"""Which messages are traced, what is kept of them meanwhile, and that nothing is there without traces."""

from __future__ import annotations

import subprocess
import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.traces.context import (
    MOST_TRACES,
    Stretch,
    TraceContext,
    counted,
    parse_traceparent,
    stretches_in,
)
from cluster.admin.traces.link import TracedLink
from cluster.admin.traces.spans import Attributes
from cluster.config.models import parse as configuration
from cluster.config.tables import ConfigError
from cluster.gateway.link import PartitionLink
from cluster.gateway.link_context import LinkContext
from cluster.gateway.state import LinkConsumer
from cluster.peers.latencies import Latencies
from cluster.peers.link_messages import Delivery
from node.message.run import Run
from node.wire.amqp091.property_values import encode_header, encode_properties
from tests.cluster.recorders import RecordedSubscriber
from tests.structure.tree import PRODUCT, ROOT, imports, modules

TRACE, PARENT = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
SAMPLED = f"00-{TRACE:032x}-{PARENT:016x}-01"


@pytest.mark.parametrize(
    "text",
    [SAMPLED, SAMPLED[:-2] + "03", "01" + SAMPLED[2:], "cc" + SAMPLED[2:] + "-what-comes-later"],
)
def test_a_sampled_context_is_read(text: str) -> None:
    assert parse_traceparent(text) == TraceContext(TRACE, PARENT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        SAMPLED[:-2] + "00",
        SAMPLED[:-2] + "02",
        SAMPLED + "-more",
        SAMPLED + "0",
        SAMPLED.upper(),
        "ff" + SAMPLED[2:],
        f"00-{0:032x}-{PARENT:016x}-01",
        f"00-{TRACE:032x}-{0:016x}-01",
        f"00-{TRACE:032x}-{PARENT:016x}",
        f" {SAMPLED}",
    ],
)
def test_anything_else_is_no_context(text: str) -> None:
    assert parse_traceparent(text) is None


@given(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.?", fullmatch=True))
def test_no_text_is_too_much(text: str) -> None:
    found = parse_traceparent(text)
    assert found is None or (found.trace and found.span)


# -- runs ---------------------------------------------------------------------------------------


def frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind, 0, 1)) + len(payload).to_bytes(4) + payload + b"\xce"


def run_of(*messages: tuple[str | None, bytes]) -> Run:
    """Messages of different lengths: their header `traceparent`, their body."""
    contents = []
    for text, body in messages:
        properties = encode_properties({} if text is None else {"headers": {"traceparent": text}})
        contents.append(frame(2, encode_header(len(body), properties)) + frame(3, body))

    lengths = array("I", map(len, contents))
    return Run("", "queue", 1, True, len(messages), 0, 0, lengths, 4096, b"".join(contents))


def always(trace: int) -> bool:
    return True


def test_stretches_are_found_in_a_run() -> None:
    other = f"00-{1:032x}-{2:016x}-01"
    run = run_of((None, b"a"), (SAMPLED, b"bb"), (SAMPLED, b"cc"), (None, SAMPLED.encode()), (other, b"d"))
    context = TraceContext(TRACE, PARENT)
    assert stretches_in(run, always) == [Stretch(1, 2, context), Stretch(4, 1, TraceContext(1, 2))]
    assert stretches_in(run, lambda trace: trace == 1) == [Stretch(4, 1, TraceContext(1, 2))]


def test_what_stands_in_a_body_is_no_context() -> None:
    assert stretches_in(run_of((None, b"\x0btraceparentS\x00\x00\x007" + SAMPLED.encode())), always) == []


def test_a_batch_records_spans_for_so_many_traces_only() -> None:
    stretches = [Stretch(number, 2, TraceContext(number + 1, 1)) for number in range(100)]
    counts = counted([*stretches, stretches[0]])
    assert len(counts) == MOST_TRACES
    assert counts[TraceContext(1, 1)] == 4


# -- links --------------------------------------------------------------------------------------


class Recorded:
    """Spans by name, with their counts."""

    def __init__(self) -> None:
        self.added: list[tuple[str, int]] = []

    def clock(self) -> int:
        return 1

    def records(self, trace: int) -> bool:
        return True

    def add(self, name: str, counts: dict[TraceContext, int], since: int, attributes: Attributes) -> None:
        self.added += [(name, count) for count in counts.values()]


def link_with_consumer(spans: Recorded, *, no_ack: bool = False) -> PartitionLink:
    context = LinkContext("n1", 1, Latencies(lambda: 0.0))
    link = PartitionLink(1, context, lambda _: None, lambda _: None, TracedLink(spans, 1))
    link.consumers[5] = LinkConsumer(5, 9, RecordedSubscriber(), 100, no_ack, False, 0)
    link.delivered(
        0, [Delivery(5, 9, [(100, 102)], False, run_of((SAMPLED, b"a"), (None, b"b"), (SAMPLED, b"c")))]
    )
    return link


def test_settled_messages_get_their_span_with_the_commit() -> None:
    spans = Recorded()
    link = link_with_consumer(spans)
    assert spans.added == [("deliver", 2)]
    link.settle(9, [(100, 102)])
    link.flush_waiting()
    assert len(spans.added) == 1
    link.acknowledged(0, 1)
    assert spans.added == [("deliver", 2), ("settle", 2)]


def test_what_is_given_back_or_needs_no_settling_is_forgotten() -> None:
    spans = Recorded()
    for link in (link_with_consumer(spans), link_with_consumer(spans, no_ack=True)):
        link.give_back(9, [(100, 102)], failed=True)
        link.settle(9, [(100, 102)])
        link.flush_waiting()
        link.acknowledged(0, 1)
    assert spans.added == [("deliver", 2), ("deliver", 2)]


# -- without traces -----------------------------------------------------------------------------


def test_a_node_without_traces_does_not_load_their_library() -> None:
    script = "import sys, cluster.process.node; print([one for one in sys.modules if 'opentelemetry' in one])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_nothing_on_a_messages_way_knows_of_traces() -> None:
    knowing = {
        module.name
        for module in modules(*PRODUCT)
        if not module.name.startswith("cluster.admin.traces")
        for _, name in imports(module)
        if name.startswith("cluster.admin.traces")
    }
    assert knowing == {"cluster.process.node"}


BASE = """
[node]
name = "n1"
data_dir = "data"
[cluster.nodes.n1]
amqp = "127.0.0.1:1"
http = "127.0.0.1:2"
peers = "127.0.0.1:3"
"""


def test_traces_are_off_unless_configured_by_file_or_variable() -> None:
    assert configuration(BASE, "file").traces is None
    endpoint = "http://127.0.0.1:4318/v1/traces"
    by_file = configuration(BASE + f'[node.traces]\nendpoint = "{endpoint}"\n', "file").traces
    assert by_file is not None and (by_file.endpoint, by_file.sample_ratio) == (endpoint, 1.0)
    variables = {"QUORATE_NODE__TRACES__ENDPOINT": endpoint, "QUORATE_NODE__TRACES__SAMPLE_RATIO": "0.01"}
    by_variable = configuration(BASE, "file", variables).traces
    assert by_variable is not None and (by_variable.endpoint, by_variable.sample_ratio) == (endpoint, 0.01)
    with pytest.raises(ConfigError, match=r"node\.traces\.endpoint"):
        configuration(BASE, "file", {"QUORATE_NODE__TRACES__ENDPOINT": "127.0.0.1:4318"})
