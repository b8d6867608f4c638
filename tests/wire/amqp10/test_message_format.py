"""A queue's questions about messages of AMQP 1.0, answered from their sections (part 3, section 3.2)."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.deaths import Death, FirstPublish
from node.message.format import NO_EXPIRATION, MessageSyntaxError
from node.message.reason import Reason
from node.message.run import Run, StoredRun, gather
from node.refusal import PreconditionFailedError
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.deaths import DEATHS, death_maps
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.messages import acquired_before, annotation, facts_of, head_end, header_in
from node.wire.amqp10.sections import scan_sections
from node.wire.amqp10.values import Symbol, TimestampMs, TypedArray, UInt, ULong
from node.wire.formats import AMQP_1_0, FORMATS, format_of
from tests.wire.amqp10 import sections as s
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import annotated, application, data, message, section

FORMAT = FORMATS[AMQP_1_0]
HEADER = d.Header(durable=True, priority=7, ttl=9000).encode()
PROPERTIES = d.Properties(message_id="id", to="q").encode()
SEQUENCE = section(SectionCode.AMQP_SEQUENCE, [1, "two"])
VALUE = section(SectionCode.AMQP_VALUE, {"any": [1]})
FOOTER = section(SectionCode.FOOTER, {Symbol("f"): None})


def head_of(octets: bytes) -> bytes:
    ((_, _, head),) = FORMAT.properties_in(run_of(octets))
    return head


# -- what a session asks ----------------------------------------------------------------------------


@pytest.mark.sentence("1.0/3.2.1-1")
@pytest.mark.parametrize(
    ("sections", "durable", "special"),
    [
        (b"", True, False),
        (d.Header().encode(), True, False),
        (d.Header(durable=True).encode(), True, False),
        (d.Header(durable=False).encode(), False, False),
        (d.Header(ttl=0).encode(), True, True),
        (d.Header(priority=4).encode(), True, True),
        (PROPERTIES, True, False),
        (annotated(x_other=1), True, False),
        (annotated(x_cc=["k"]), True, True),
        (annotated(x_bcc=["k"]), True, True),
        (annotated(x_delay=5), True, True),
        (annotated(x_opt_delivery_delay=UInt(5)), True, True),
        (application(n=1), True, False),
        (application(**{"x-delay": 5}), True, True),
    ],
)
def test_a_session_learns_whether_a_message_is_durable_and_asks_for_something(
    sections: bytes, durable: bool, special: bool
) -> None:
    octets = b"???" + message(sections) + b"???"
    found = facts_of(octets, 3, len(octets) - 3)
    assert (found.durable, found.special) == (durable, special)
    assert found.sections.body is not None


@pytest.mark.parametrize(
    "octets",
    [
        b"no section",
        data(b"x") + PROPERTIES,
        section(SectionCode.HEADER, ["no boolean"]),
        section(SectionCode.HEADER, [None] * 6),
        message()[:-1],
    ],
)
def test_octets_that_are_no_message_are_refused(octets: bytes) -> None:
    with pytest.raises(SectionError):
        facts_of(octets, 0, len(octets))


# -- the messages of a run --------------------------------------------------------------------------


def spelled(descriptor: str, octets: bytes) -> bytes:
    """Sections whose descriptors have another encoding."""
    found = scan_sections(octets, 0, len(octets))
    spans = [
        found.header, found.delivery_annotations, found.message_annotations, found.properties,
        found.application_properties,
    ]  # fmt: skip
    names = [
        "amqp:header:list", "amqp:delivery-annotations:map", "amqp:message-annotations:map",
        "amqp:properties:list", "amqp:application-properties:map",
    ]  # fmt: skip
    parts = []
    for number, (span, name) in enumerate(zip(spans, names, strict=True)):
        if span is not None:
            code = b"\x80" + (0x70 + number).to_bytes(8, "big")
            symbol = b"\xa3" + bytes((len(name),)) + name.encode()
            parts.append(b"\0" + (symbol if descriptor == "symbol" else code) + octets[span[0] + 3 : span[1]])
    behind = found.body or found.footer
    return b"".join(parts) + octets[len(octets) if behind is None else behind[0] :]


@given(s.messages, st.sampled_from(["code", "symbol", "ulong"]))
def test_a_head_ends_where_the_body_or_the_footer_begins(octets: bytes, descriptor: str) -> None:
    if descriptor != "code":
        octets = spelled(descriptor, octets)
    found = scan_sections(octets, 0, len(octets))
    behind = found.body or found.footer or (len(octets), 0)
    padded = b"??" + octets + b"??"
    assert head_end(padded, 2, len(padded) - 2) == 2 + behind[0]


def test_messages_in_a_row_with_one_head_are_one_stretch() -> None:
    other = PROPERTIES + data(b"3")
    run = run_of(data(b"1"), data(b"22"), other, other, data(b"1"), skip=b"12345")
    expected = [(0, 2, b""), (2, 2, PROPERTIES), (4, 1, b"")]
    assert list(FORMAT.properties_in(run)) == expected
    view = replace(run, raw=memoryview(run.raw))
    assert list(FORMAT.properties_in(view)) == expected
    assert list(FORMAT.properties_in(view.slice(1, 3))) == [(0, 1, b""), (1, 2, PROPERTIES)]


def test_messages_of_a_run_with_a_stride_may_have_different_heads() -> None:
    one, other = (d.Properties(message_id=id).encode() + data(b"x") for id in "ab")
    run = replace(run_of(one, other), lengths=None, stride=len(one))
    assert [count for _, count, _ in FORMAT.properties_in(run)] == [1, 1]
    assert FORMAT.size_spans(run) == [(0, 1, 1)]


@pytest.mark.parametrize(
    ("body", "octets"),
    [
        (data(b""), 0),
        (data(b"x" * 5), 5),
        (data(b"x" * 300), 300),
        (data(b"x" * 300) + FOOTER, 300),
        (data(b"x" * 3) + FOOTER, 3),
        (data(b"1") + data(b"22"), 3),
        (data(b"x" * 300) + data(b""), 300),
        (SEQUENCE + SEQUENCE, 2 * len(SEQUENCE)),
        (VALUE + FOOTER, len(VALUE)),
        (FOOTER, 0),
        (b"", 0),
    ],
)
def test_the_size_of_a_body_is_that_of_its_contents(body: bytes, octets: int) -> None:
    run = run_of(HEADER + PROPERTIES + body, skip=b"performative")
    assert FORMAT.body_size(run) == octets
    assert FORMAT.body_sizes(run) == array("Q", [octets])
    two = run_of(HEADER + body, HEADER + body, HEADER + data(b"1234567"))
    assert FORMAT.size_spans(two) == [(0, 1, octets), (2, 2, 7)]


def test_runs_have_one_routing_key() -> None:
    run = run_of(message(), message(), key="key")
    assert FORMAT.routing_keys(run) == ["key", "key"]
    assert list(FORMAT.by_key(run)) == [("key", run)]
    assert format_of(run) is FORMAT


def test_pieces_of_runs_are_joined() -> None:
    one, other = run_of(message(body=b"1"), message(body=b"2")), run_of(message(body=b"3"))
    stored = {1: StoredRun(1, one), 2: StoredRun(1, one), 3: StoredRun(3, other)}
    ((_, run),) = gather([(3, 3), (1, 1)], stored.__getitem__)
    assert list(run.contents()) == [message(body=b"3"), message(body=b"1")]
    assert run.format == AMQP_1_0


# -- wishes -----------------------------------------------------------------------------------------


@pytest.mark.sentence("1.0/3.2.1-1")
@pytest.mark.parametrize(
    ("sections", "asked"),
    [
        (b"", (0, 0, NO_EXPIRATION)),
        (HEADER, (0, 7, 9000)),
        (d.Header(ttl=0).encode(), (0, 0, 0)),
        (annotated(x_opt_delivery_delay=UInt(500)), (500, 0, NO_EXPIRATION)),
        (annotated(x_delay=500), (500, 0, NO_EXPIRATION)),
        (application(**{"x-delay": 500}), (500, 0, NO_EXPIRATION)),
        (annotated(x_delay=-1) + application(**{"x-delay": 500}), (0, 0, NO_EXPIRATION)),
        (annotated(x_delay=1, x_opt_delivery_delay=2), (2, 0, NO_EXPIRATION)),
        (annotated(x_delay=ULong(2**64 - 1)), (2**63 - 1, 0, NO_EXPIRATION)),
        (annotated(x_delay="soon"), (0, 0, NO_EXPIRATION)),
        (annotated(x_delay=True), (0, 0, NO_EXPIRATION)),
        (annotated(other="x-delay"), (0, 0, NO_EXPIRATION)),
    ],
)
def test_messages_state_their_wishes(sections: bytes, asked: tuple[int, int, int]) -> None:
    assert FORMAT.asked_in(run_of(message(sections), message(sections))) == [(0, 1, *asked)]


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("id", b"id"),
        (ULong(7), b"7"),
        (UUID(int=5), b"urn:uuid:00000000-0000-0000-0000-000000000005"),
        (b"7", b"\x007"),
        (None, None),
    ],
)
def test_ids_are_told_by_their_texts(id: Any, text: bytes | None) -> None:
    octets = message(d.Properties(message_id=id, correlation_id=id).encode())
    assert FORMAT.texts_in(run_of(octets), "message_id") == [(0, 0, text)]
    assert FORMAT.text(head_of(octets), "correlation_id") == text


def test_properties_have_names_of_0_9_1() -> None:
    properties = d.Properties(
        user_id=b"guest", reply_to="r", content_type="t", content_encoding="e", group_id="g", subject="s"
    ).encode()
    head = head_of(message(annotated(x_basic_type="order"), properties))
    expected = {
        "user_id": b"guest", "reply_to": b"r", "content_type": b"t", "content_encoding": b"e", "app_id": b"g",
        "group_id": b"g", "type": b"order", "cluster_id": None,
    }  # fmt: skip
    assert {name: FORMAT.text(head, name) for name in expected} == expected
    assert FORMAT.text(head_of(message()), "type") is None


def test_headers_are_application_properties_and_annotations_in_x() -> None:
    head = head_of(
        message(
            annotated(x_opt_a=UInt(1), x_both="annotation", other=2),
            application(n=3, at=TimestampMs(5999), **{"x-both": "application"}),
        )
    )
    assert FORMAT.headers(head) == {"x-opt-a": 1, "x-both": "application", "n": 3, "at": 5}


def test_messages_with_the_same_values_have_one_key_for_their_route() -> None:
    kinds = [("a", 1), ("a", 2), ("b", 3), (None, 4)]
    run = run_of(*[message(application(kind=kind, number=number)) for kind, number in kinds], message())
    keys = [key for _, _, key in FORMAT.header_keys(run, ("absent", "kind"))]
    assert keys[0] == keys[1] and len(set(keys)) == 4
    assert {key[:1] for key in keys} == {b"s"}, "keys of another format begin otherwise"


def test_further_keys_are_lists_or_arrays() -> None:
    run = run_of(message(annotated(x_cc=["a", 5], x_bcc=TypedArray(0xB1, ["b"]))))
    assert FORMAT.may_have_copies(run)
    ((_, _, head),) = FORMAT.properties_in(run)
    assert FORMAT.copies(head) == (("a", "b"), True)
    assert FORMAT.copied_keys(head) == ["a"]
    assert FORMAT.copies(head_of(message(annotated(x_cc=["a"])))) == (("a",), False)
    assert not FORMAT.may_have_copies(run_of(message(PROPERTIES)))
    with pytest.raises(PreconditionFailedError, match="x-cc"):
        FORMAT.copies(head_of(message(annotated(x_cc="a"))))


# -- malformed parts, which a session lets pass -----------------------------------------------------

BROKEN = b"".join(
    [
        b"\x00\x53\x72\xc1\x05\x02\xa3\x01\xff\x40",  # a symbol that is not ASCII
        b"\x00\x53\x73\xc0\x02\x01\x50",  # a ubyte that is cut short
        b"\x00\x53\x74\xc1\x02\x01\x40",  # a key without value
    ]
)


def test_sections_with_malformed_parts_have_none() -> None:
    run = run_of(BROKEN + data(b"x"))
    ((_, _, head),) = FORMAT.properties_in(run)
    assert head == BROKEN
    assert FORMAT.headers(head) == {}
    assert FORMAT.text(head, "message_id") is None
    assert FORMAT.copies(head) == ((), False)
    assert not FORMAT.cycles(head, "q")
    assert FORMAT.asked_in(run) == [(0, 0, 0, 0, NO_EXPIRATION)]
    assert FORMAT.contents(run) == ({"delivery_mode": 2}, b"x")
    dead = FORMAT.dead_letters(run, head, DEATH, routed_anew=False)
    assert bytes(dead.raw).endswith(BROKEN[10:] + data(b"x"))


# -- other messages made of one ---------------------------------------------------------------------

DEATH = Death("q", Reason.EXPIRED, 1_700_000_000, "e", "k")


def died(octets: bytes, *deaths: Death, routed_anew: bool = False) -> bytes:
    run = run_of(octets, octets, skip=b"performative")
    for death in deaths:
        ((_, _, head),) = FORMAT.properties_in(run)
        run = FORMAT.dead_letters(run, head, death, routed_anew=routed_anew)
    one, other = run.contents()
    assert one == other and run.count == 2
    assert run.largest_frame == len(one)
    return one


@pytest.mark.sentence("1.0/3.2-1", "1.0/3.2.3-1", "1.0/3.2.4-1")
def test_the_delivery_count_is_in_the_header_and_nothing_else_changes() -> None:
    delivery = section(SectionCode.DELIVERY_ANNOTATIONS, {Symbol("d"): 1})
    behind = delivery + annotated(x_a=1) + PROPERTIES + application(n=1) + VALUE + FOOTER
    for header in (b"", HEADER):
        counted = FORMAT.with_delivery_count(run_of(header + behind, skip=b"performative"), 3)
        assert bytes(counted.raw).endswith(behind)
        found = header_in(bytes(counted.raw))
        before = header_in(header)
        assert found.delivery_count == 3
        assert (found.durable, found.priority, found.ttl) == (before.durable, before.priority, before.ttl)


def test_a_message_that_is_delivered_again_has_no_first_acquirer() -> None:
    rest = annotated(x_a=1) + application(a=1)
    first, other = d.Header(ttl=5, first_acquirer=True), d.Header(ttl=5, first_acquirer=False)
    run = run_of(message(first.encode(), rest), message(other.encode(), rest), message(first.encode()))
    again = acquired_before(run)
    assert list(again.contents()) == [
        message(d.Header(ttl=5, first_acquirer=False).encode(), rest),
        message(other.encode(), rest),
        message(d.Header(ttl=5, first_acquirer=False).encode()),
    ]
    assert again.special
    plain = run_of(message(rest), message(d.Header(durable=False).encode()))
    assert acquired_before(plain) is plain


def test_deaths_are_counted_by_queue_and_reason() -> None:
    rejected = Death("q", Reason.REJECTED, 1_700_000_001, "e", "k")
    later = Death("q", Reason.EXPIRED, 1_700_000_002, "e2", "k2")
    octets = died(message(HEADER, annotated(x_cc=["c"])), DEATH, rejected, later)
    first, second = death_maps(annotation(octets, DEATHS))
    assert first == {
        "ttl": 9000, "queue": "q", "reason": "expired", "count": 2, "first-time": 1_700_000_000_000,
        "last-time": 1_700_000_002_000, "exchange": "e", "routing-keys": TypedArray(0xB1, ["k", "c"]),
    }  # fmt: skip
    assert (second["reason"], second["count"], "ttl" in second) == ("rejected", 1, False)
    texts = {name: annotation(octets, f"x-first-death-{name}") for name in ("queue", "reason", "exchange")}
    assert texts == {"queue": "q", "reason": "expired", "exchange": "e"}


def test_a_dead_letter_that_is_routed_anew_has_no_further_keys() -> None:
    octets = message(annotated(x_cc=["c"], x_opt_delivery_delay=UInt(5)))
    assert annotation(died(octets, DEATH), "x-cc") == ["c"]
    anew = died(octets, DEATH, routed_anew=True)
    assert annotation(anew, "x-cc") is None
    assert annotation(anew, "x-delay") == -5 and annotation(anew, "x-opt-delivery-delay") is None


def test_a_message_cycles_where_it_died_before_and_no_client_rejected_it() -> None:
    rejected = Death("other", Reason.REJECTED, 1_700_000_001, "e", "k")
    assert FORMAT.cycles(head_of(died(message(), DEATH)), "q")
    assert not FORMAT.cycles(head_of(died(message(), DEATH)), "other")
    assert not FORMAT.cycles(head_of(died(message(), DEATH, rejected)), "q")
    assert not FORMAT.cycles(head_of(message()), "q")


@pytest.mark.requirement("X4.3")
@pytest.mark.parametrize("routed_anew", [False, True])
def test_a_dead_letter_tells_where_it_was_published_first(routed_anew: bool) -> None:
    later = Death("other", Reason.REJECTED, 1_700_000_001, "dlx", "dead")
    again = Death("q", Reason.EXPIRED, 1_700_000_002, "again", "k2")
    behind = PROPERTIES + application(n=1) + VALUE
    octets = annotated(x_cc=["c"], x_a=1) + behind
    dead = run_of(died(octets, DEATH, later, again, later, routed_anew=routed_anew))
    ((_, _, head),) = FORMAT.properties_in(dead)
    assert FORMAT.first_publish(head) == FirstPublish("e", ("k", "c"))
    kept = annotated(x_a=1) if routed_anew else annotated(x_cc=["c"], x_a=1)
    assert FORMAT.without_deaths(dead, head).raw == kept + behind


@pytest.mark.requirement("X4.3")
def test_a_message_that_has_not_died_tells_no_place() -> None:
    for octets in (message(), message(annotated(x_opt_deaths=["no map", {Symbol("queue"): 5}]))):
        assert FORMAT.first_publish(head_of(octets)) is None


def test_deaths_that_a_client_made_up_do_no_harm() -> None:
    octets = message(annotated(x_opt_deaths=["no map", {Symbol("queue"): 5, Symbol("count"): "many"}]))
    deaths = death_maps(annotation(died(octets, DEATH), DEATHS))
    assert [one.get("queue") for one in deaths] == ["q", 5]


def test_names_that_are_not_utf_8_become_texts() -> None:
    death = Death("q\udcff", Reason.MAXLEN, 1, "", "")
    octets = died(message(), death)
    assert death_maps(annotation(octets, DEATHS))[0]["queue"] == "q\ufffd"
    assert FORMAT.cycles(head_of(octets), "q\udcff")


def test_blind_keys_are_taken_out() -> None:
    run = run_of(message(annotated(x_cc=["a"], x_bcc=["b"]), PROPERTIES))
    assert list(FORMAT.without_blind_copies(run).contents()) == [message(annotated(x_cc=["a"]), PROPERTIES)]
    alone = run_of(message(annotated(x_bcc=["b"])))
    assert list(FORMAT.without_blind_copies(alone).contents()) == [message()]


# -- the administration -----------------------------------------------------------------------------


def test_a_message_is_composed_and_shown_by_names_of_0_9_1() -> None:
    given: dict[str, Any] = {
        "content_type": "text/plain", "message_id": "id", "delivery_mode": 2, "priority": 3,
        "headers": {"n": 1, "x-a": "b"},
    }  # fmt: skip
    run: Run = FORMAT.composed("e", "k", given, b"body", None, 100)
    assert (run.format, run.exchange, run.routing_key, run.persistent) == (AMQP_1_0, "e", "k", True)
    assert FORMAT.contents(run) == (given, b"body")
    assert FORMAT.text(head_of(bytes(run.raw)), "message_id") == b"id"
    with pytest.raises(MessageSyntaxError):
        FORMAT.composed("e", "k", {}, b"body", None, 3)


def test_what_0_9_1_has_no_name_for_is_not_shown() -> None:
    run = run_of(message(annotated(other=1), d.Properties(to="q", subject="s").encode(), application(n=1)))
    assert FORMAT.contents(run) == ({"delivery_mode": 2, "headers": {"n": 1}}, b"body")
