"""Dead letters are what RabbitMQ makes of them, and everything else in them is as it came."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties

from node.message.deaths import REASON_NAMES, Death, FirstPublish, decode_death, encode_death
from node.message.reason import Reason
from node.message.run import OWN_METHODS, Run, joined
from node.wire.amqp091.contents import properties_in
from node.wire.amqp091.deaths import cycles, dead_properties, deaths_in, first_publish, without_deaths
from node.wire.amqp091.fields import (
    Timestamp,
    encode_table,
    encode_value,
    join_table,
    read_headers,
    split_table,
)
from node.wire.amqp091.properties import check_properties, property_places
from node.wire.amqp091.rewriting import edit_properties, with_delivery_count, with_properties
from node.wire.amqp091.routing_keys import by_key
from tests import messages
from tests.wire.client import PERSISTENT, publish

NAMES = {
    Reason.REJECTED: "rejected", Reason.EXPIRED: "expired", Reason.MAXLEN: "maxlen",
    Reason.DELIVERY_LIMIT: "delivery_limit",
}  # fmt: skip


def properties_of(message: bytes) -> bytes:
    ((_, _, properties),) = properties_in(messages.run_of([message]))
    return properties


def decoded(properties: bytes) -> tuple[BasicProperties, dict[str, Any]]:
    """As a client sees them; headers by our own reader, which keeps all types apart."""
    place = property_places(properties).get("headers")
    headers = {} if place is None else read_headers(properties, place[0])[0]
    bare = BasicProperties()
    bare.decode(properties)
    bare.headers = None
    return bare, headers


LAST_TIMESTAMP = 253_402_300_799
"""The end of year 9999: pika, which reads what was written, knows no later one."""

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.integers(0, LAST_TIMESTAMP).map(Timestamp)
    | st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9999, max_value=9999),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
HEADERS = st.dictionaries(st.text(min_size=1, max_size=9), VALUES, max_size=4)
DEATHS = st.builds(
    Death,
    st.sampled_from(["q", "r", "é"]),
    st.sampled_from(list(REASON_NAMES)),
    st.integers(0, 2**37),
    st.sampled_from(["", "e"]),
    st.text(max_size=9),
)


def encoded(headers: dict[str, Any], **others: Any) -> bytes:
    """A property list whose headers may be of any type."""
    plain = properties_of(messages.content(b"", **others))
    if not headers:
        return plain
    return edit_properties(plain, lambda _: dict(split_table(encode_table(headers), 0)))


def expected(
    headers: dict[str, Any], death: Death, expiration: str | None, routed_anew: bool
) -> dict[str, Any]:
    """The changes of rabbit_dead_letter:make_msg, on decoded headers."""
    headers = dict(headers)
    copies = headers.get("CC")
    keys = [
        death.routing_key,
        *([one for one in copies if isinstance(one, str)] if isinstance(copies, list) else []),
    ]
    info: dict[str, Any] = {
        "reason": NAMES[death.reason], "queue": death.queue, "time": Timestamp(death.time_s),
        "exchange": death.exchange, "routing-keys": keys,
    }  # fmt: skip
    if expiration is not None:
        info["original-expiration"] = expiration
    before = headers.get("x-death")
    if before is None and "x-death" not in headers:
        headers["x-first-death-reason"] = info["reason"]
        headers["x-first-death-queue"] = info["queue"]
        headers["x-first-death-exchange"] = info["exchange"]
    before = before if isinstance(before, list) else []
    same = (death.queue, info["reason"])
    matches = [one for one in before if isinstance(one, dict) and (one["queue"], one["reason"]) == same]
    others = [one for one in before if not any(one is match for match in matches)]
    count = sum(match.get("count", 1) for match in matches) + 1
    latest = {**(matches[0] if matches else info), "count": count}
    headers["x-death"] = [latest, *others]
    if routed_anew:
        headers.pop("CC", None)
    return headers


@pytest.mark.requirement("A21.3", "A24.10")
@given(
    HEADERS.filter(lambda headers: not headers.keys() & {"x-death", "CC"}),
    st.lists(DEATHS, min_size=1, max_size=5),
    st.none() | st.integers(0, 10**6).map(str),
    st.none() | st.lists(st.text(max_size=5), max_size=3),
    st.booleans(),
)
def test_each_death_is_told_as_rabbitmq_tells_it(
    headers: dict[str, Any],
    deaths: list[Death],
    expiration: str | None,
    copies: list[str] | None,
    routed_anew: bool,
) -> None:
    if copies is not None:
        headers = {**headers, "CC": copies}
    others = {
        "content_type": "text/plain",
        "delivery_mode": 2,
        "priority": 3,
        "message_id": "m",
        "app_id": "a",
    }
    properties = encoded(headers, expiration=expiration, **others)
    for death in deaths:
        properties = dead_properties(properties, death, routed_anew=routed_anew)
        headers = expected(headers, death, expiration, routed_anew)
        expiration = None
        check_properties(properties)
        rest, found = decoded(properties)
        assert found == headers
        assert [type(value) for value in found.values()] == [type(headers[name]) for name in found]
        assert {name: value for name, value in vars(rest).items() if value is not None} == others


@pytest.mark.requirement("A21.3")
@given(HEADERS, DEATHS)
def test_headers_that_are_not_about_death_keep_their_octets(headers: dict[str, Any], death: Death) -> None:
    before = dict(split_table(encode_table(headers), 0))
    properties = dead_properties(encoded(headers), death, routed_anew=False)
    after = dict(split_table(properties, property_places(properties)["headers"][0]))
    touched = {b"x-death", *(f"x-first-death-{one}".encode() for one in ("reason", "queue", "exchange"))}
    assert {name: value for name, value in after.items() if name not in touched} == {
        name: value for name, value in before.items() if name not in touched
    }


@pytest.mark.parametrize("counts", [[2**63 - 1], [2**62, 2**62], [2**63 - 1] * 3])
def test_a_count_that_a_client_made_up_ends_at_the_largest_number(counts: list[int]) -> None:
    forged = [{"queue": "q", "reason": "expired", "count": count} for count in counts]
    death = Death("q", Reason.EXPIRED, 0, "", "q")
    _, headers = decoded(dead_properties(encoded({"x-death": forged}), death, routed_anew=False))
    assert [one["count"] for one in headers["x-death"]] == [2**63 - 1]


@pytest.mark.requirement("A24.10")
@pytest.mark.parametrize("value", [b"I\0\0\0\1", b"A\0\0\0\5I\0\0\0\1", b"F\0\0\0\0", b"V"])
def test_an_x_death_that_is_none_is_no_obstacle(value: bytes) -> None:
    headers = dict(split_table(join_table([(b"x-death", value)]), 0))
    properties = edit_properties(b"\0\0", lambda _: headers)
    death = Death("q", Reason.MAXLEN, 7, "e", "k")
    _, found = decoded(dead_properties(properties, death, routed_anew=False))
    assert found["x-death"][0]["queue"] == "q" and found["x-death"][0]["count"] == 1


BODIES = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


@pytest.mark.requirement("A21.2")
@given(BODIES, st.lists(HEADERS, min_size=1, max_size=3), DEATHS)
def test_bodies_are_never_touched(bodies: list[bytes], headers: list[dict[str, Any]], death: Death) -> None:
    contents = [
        messages.content(body, headers={"n": index}, delivery_mode=2) for index, body in enumerate(bodies)
    ]
    run = messages.run_of(contents, skip=b"method")
    changed = with_properties(run, lambda properties: dead_properties(properties, death, routed_anew=False))
    found = [messages.parts(content) for content in changed.contents()]
    assert [body for _, body in found] == bodies
    assert [one.headers["n"] for one, _ in found] == list(range(len(bodies)))
    assert all(one.headers["x-death"][0]["reason"] == NAMES[death.reason] for one, _ in found)
    assert (changed.persistent, changed.special) == (True, False)
    assert changed.largest_frame >= max(len(content) for content in changed.contents()) // 2
    again = joined([changed, changed])
    assert list(again.contents()) == [*changed.contents(), *changed.contents()]


def test_messages_with_routing_keys_of_their_own_keep_them() -> None:
    sent = [publish(1, b"x" * at, key="k" * at, properties=PERSISTENT) for at in range(3)]
    lengths = array("I", map(len, sent))
    run = Run("", None, 1, True, 3, OWN_METHODS, 0, lengths, max(lengths), b"".join(sent))
    found = list(by_key(with_delivery_count(run, 7)))
    assert [key for key, _ in found] == ["", "k", "kk"]
    parts = [messages.parts(content) for _, one in found for content in one.contents()]
    assert [body for _, body in parts] == [b"", b"x", b"xx"]
    assert [one.headers for one, _ in parts] == [{"x-delivery-count": 7}] * 3


@pytest.mark.requirement("A21.2")
def test_a_uniform_run_is_rewritten_message_by_message() -> None:
    contents = [messages.content(bytes([n]), expiration="9") for n in range(5)]
    raw = b"".join(contents)
    run = Run("e", "k", 1, False, 5, 0, len(contents[0]), None, len(contents[0]), raw, True)
    changed = with_properties(run, lambda properties: edit_properties(properties, dict, ("expiration",)))
    assert changed.lengths == array("I", [len(contents[0]) - 2] * 5)
    assert not changed.special
    assert [messages.parts(content)[1] for content in changed.contents()] == [bytes([n]) for n in range(5)]


@given(st.sampled_from(list(REASON_NAMES)), st.integers(0, 2**48))
def test_a_death_is_one_number(reason: Reason, time_ms: int) -> None:
    assert decode_death(encode_death(reason, time_ms)) == (reason, time_ms)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(sorted(NAMES.values()))), max_size=5),
    st.sampled_from("abc"),
)
def test_a_cycle_is_one_without_a_rejection(deaths: list[tuple[str, str]], queue: str) -> None:
    """rabbit_dead_letter:is_cycle, read literally."""
    array_of_tables = encode_value([{"queue": name, "reason": reason, "count": 1} for name, reason in deaths])
    names = [name for name, _ in deaths]
    round_trip = deaths[: names.index(queue) + 1] if queue in names else []
    is_cycle = bool(round_trip) and all(reason != "rejected" for _, reason in round_trip)
    assert cycles(array_of_tables, queue) == is_cycle
    assert not cycles(None, queue)


def test_deaths_are_found_in_a_property_list() -> None:
    assert deaths_in(b"\0\0") is None
    properties = dead_properties(b"\0\0", Death("q", Reason.EXPIRED, 7, "e", "k"), routed_anew=False)
    assert cycles(deaths_in(properties), "q") and not cycles(deaths_in(properties), "r")


@pytest.mark.requirement("A24.10")
def test_deaths_of_one_queue_and_reason_become_one_entry() -> None:
    """Brokers of old wrote an entry for each death, without a count; others keep entries apart."""
    time = Timestamp(5)
    old = {"reason": "expired", "queue": "q", "time": time, "exchange": "e", "routing-keys": ["k"]}
    before = [old, {**old, "reason": "rejected"}, old, {**old, "count": 3}, {**old, "queue": "r"}]
    properties = encoded({"x-death": before})
    death = Death("q", Reason.EXPIRED, 9, "e", "k")
    _, headers = decoded(dead_properties(properties, death, routed_anew=False))
    assert headers["x-death"] == [{**old, "count": 6}, before[1], before[4]]


@pytest.mark.requirement("X4.3")
@pytest.mark.parametrize("routed_anew", [False, True])
def test_a_dead_letter_tells_where_it_was_published_first(routed_anew: bool) -> None:
    """Also where it has died in its first queue again, which is then the latest death."""
    properties = encoded({"CC": ["c"], "n": 1})
    first, later = Death("q", Reason.EXPIRED, 7, "e", "k"), Death("r", Reason.REJECTED, 8, "dlx", "dead")
    assert first_publish(properties) is None
    dead = dead_properties(properties, first, routed_anew=routed_anew)
    for death in (later, Death("q", Reason.EXPIRED, 9, "again", "k2"), later):
        dead = dead_properties(dead, death, routed_anew=routed_anew)
        assert first_publish(dead) == FirstPublish("e", ("k", "c"))
    kept = {"n": 1} if routed_anew else {"CC": ["c"], "n": 1}
    assert without_deaths(dead) == encoded(kept)


@pytest.mark.requirement("X4.3")
def test_headers_of_other_brokers_about_deaths_go_too() -> None:
    told = {"x-last-death-queue": "q", "x-first-death-reason": "expired", "x-deaths": 1}
    assert without_deaths(encoded(told)) == encoded({"x-deaths": 1})
    assert without_deaths(encoded({"x-last-death-queue": "q"})) == b"\0\0"


@pytest.mark.requirement("X4.3")
def test_deaths_that_a_client_made_up_tell_no_place() -> None:
    for deaths in ([], [1], [{}], [{"routing-keys": []}], [{"exchange": "e", "routing-keys": 5}]):
        assert first_publish(encoded({"x-death": deaths})) is None
    found = first_publish(encoded({"x-death": [{"routing-keys": ["k"]}], "x-first-death-queue": 5}))
    assert found == FirstPublish("", ("k",))
