"""The exchanges of a virtual host: declarations, bindings and routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.refusal import (
    AccessRefusedError,
    NotFoundError,
    PreconditionFailedError,
)
from node.routing.exchange import Exchange, ExchangeKind, Exchanges
from node.routing.matching import Binding, Destination
from tests.queue.routing import exchange, naive_headers, naive_topic, queue

KINDS = tuple(ExchangeKind)


def with_queues(*names: str) -> Exchanges:
    exchanges = Exchanges()
    for name in names:
        exchanges.add_queue(name)
    return exchanges


def bind(
    exchanges: Exchanges, source: str, to: Destination, key: str = "", arguments: Mapping[str, object] = {}
) -> Binding:
    binding = Binding.of(source, to, key, arguments)
    exchanges.bind(binding)
    return binding


# -- A12: pre-declared exchanges --------------------------------------------------------------------


@pytest.mark.requirement("A12.1", "A12.3", "A12.4", "A12.5", "A12.6", "A12.7")
def test_every_virtual_host_has_the_standard_exchanges() -> None:
    assert {(each.name, each.kind.value, each.durable, each.internal) for each in Exchanges()} == {
        ("", "direct", True, False),
        ("amq.direct", "direct", True, False),
        ("amq.fanout", "fanout", True, False),
        ("amq.topic", "topic", True, False),
        ("amq.match", "headers", True, False),
        ("amq.headers", "headers", True, False),
        ("amq.rabbitmq.trace", "topic", True, True),
    }


@pytest.mark.requirement("A12.2")
def test_the_default_exchange_routes_to_the_queue_of_the_keys_name() -> None:
    exchanges = with_queues("a", "A")
    assert exchanges.route("", "a") == {"a"}
    assert exchanges.route("", "b") == frozenset()
    exchanges.add_queue("b")
    assert exchanges.route("", "b") == {"b"}
    exchanges.remove_queue("b")
    assert exchanges.route("", "b") == frozenset()


@pytest.mark.parametrize("name", ["amq.direct", "amq.topic"])
def test_the_brokers_own_exchanges_stay(name: str) -> None:
    exchanges = Exchanges()
    with pytest.raises(
        AccessRefusedError, match=f"deletion of system exchange '{name}' in vhost '/' not"
    ) as refusal:
        exchanges.delete(name)
    assert refusal.value.code == 403
    exchanges.declare(exchanges.get(name))


def test_the_default_exchange_is_neither_declared_nor_deleted() -> None:
    exchanges = Exchanges()
    for attempt in (lambda: exchanges.delete(""), lambda: exchanges.declare(exchanges.get(""))):
        with pytest.raises(AccessRefusedError, match="operation not permitted on the default exchange"):
            attempt()


def test_the_default_exchange_takes_no_bindings() -> None:
    exchanges = with_queues("q")
    for method in (exchanges.bind, exchanges.unbind):
        with pytest.raises(AccessRefusedError):
            method(Binding.of("", queue("q"), "k"))
        with pytest.raises(AccessRefusedError):
            method(Binding.of("amq.fanout", exchange(""), "k"))


# -- A13: types -------------------------------------------------------------------------------------


def test_an_unknown_type_ends_the_channel() -> None:
    assert ExchangeKind.named("topic") is ExchangeKind.TOPIC
    with pytest.raises(PreconditionFailedError, match="unknown exchange type 'x-odd'") as refusal:
        ExchangeKind.named("x-odd")
    assert (refusal.value.code, refusal.value.ends_connection) == (406, False)


@pytest.mark.requirement("A13.1", "A13.2")
def test_direct_compares_keys_and_fanout_does_not() -> None:
    exchanges = with_queues("a", "b")
    for source in ("amq.direct", "amq.fanout"):
        bind(exchanges, source, queue("a"), "k")
        bind(exchanges, source, queue("a"), "k2")
        bind(exchanges, source, queue("b"), "k")
    assert exchanges.route("amq.direct", "k") == {"a", "b"}
    assert exchanges.route("amq.direct", "k2") == {"a"}
    assert exchanges.route("amq.direct", "K") == frozenset()
    assert exchanges.route("amq.fanout", "other") == {"a", "b"}


WORDS = st.lists(st.sampled_from(("a", "b", "", "*", "#", "#")), max_size=6).map(".".join)
KEYS = st.lists(st.sampled_from(("a", "b", "c", "", "ä")), max_size=6).map(".".join)


@pytest.mark.requirement("A13.3")
@given(st.lists(st.tuples(WORDS, st.booleans()), max_size=8), KEYS)
@example([("*.stock.#", True)], "usd.stock")
@example([("*.stock.#", True)], "eur.stock.db")
@example([("*.stock.#", True)], "stock.nasdaq")
def test_topic_patterns_match_as_the_definition_says(patterns: list[tuple[str, bool]], key: str) -> None:
    names = [f"q{i}" for i in range(len(patterns))]
    exchanges = with_queues(*names)
    bindings = [
        bind(exchanges, "amq.topic", queue(name), pattern)
        for name, (pattern, _) in zip(names, patterns, strict=True)
    ]
    for binding, (_, kept) in zip(bindings, patterns, strict=True):
        if not kept:
            exchanges.unbind(binding)
    wanted = {
        name
        for name, (pattern, kept) in zip(names, patterns, strict=True)
        if kept and naive_topic(pattern, key)
    }
    assert exchanges.route("amq.topic", key) == wanted


def test_no_topic_pattern_makes_routing_slow() -> None:
    exchanges = with_queues("q")
    bind(exchanges, "amq.topic", queue("q"), ".".join(["#", "a"] * 60 + ["b"]))
    assert exchanges.route("amq.topic", ".".join("a" * 127)) == frozenset()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 1),
    st.floats(0, 1, allow_nan=False),
    st.sampled_from(("", "1", "x", b"x", b"1")),
    st.lists(st.integers(0, 1), max_size=1),
    st.dictionaries(st.just("n"), st.integers(0, 1), max_size=1),
)
TABLES = st.dictionaries(st.sampled_from(("a", "b", "c", "x-d")), VALUES, max_size=4)


@pytest.mark.requirement("A13.4")
@given(
    st.lists(st.tuples(TABLES, st.sampled_from((None, "all", "any", b"any"))), min_size=1, max_size=4), TABLES
)
def test_headers_match_as_the_definition_says(
    tables: list[tuple[dict[str, object], str | bytes | None]], headers: dict[str, object]
) -> None:
    exchanges, wanted = with_queues(), set()
    for i, (table, mode) in enumerate(tables):
        name = f"q{i}"
        exchanges.add_queue(name)
        text = mode.decode() if isinstance(mode, bytes) else mode
        bind(exchanges, "amq.match", queue(name), "", table if mode is None else {**table, "x-match": mode})
        if naive_headers({**table, "x-match": text}, headers):
            wanted.add(name)
    assert exchanges.route("amq.match", "any key", headers) == wanted


def test_an_unknown_match_mode_is_refused() -> None:
    exchanges = with_queues("q")
    with pytest.raises(PreconditionFailedError, match="x-match"):
        bind(exchanges, "amq.match", queue("q"), "", {"x-match": "some"})
    assert exchanges.bindings() == []
    assert exchanges.route("amq.match", "", {"a": 1}) == frozenset()


# -- A14: properties of exchanges, exchange-to-exchange bindings, alternates ------------------------


@pytest.mark.requirement("A16.2")
def test_declarations_of_one_name_must_be_equal() -> None:
    exchanges = Exchanges()
    made = Exchange("e", ExchangeKind.TOPIC, durable=True, internal=True, alternate="amq.fanout")
    exchanges.declare(made)
    exchanges.declare(made)
    assert exchanges.get("e") == made
    for other in (Exchange("e", ExchangeKind.TOPIC), Exchange("amq.topic", ExchangeKind.FANOUT, True)):
        with pytest.raises(PreconditionFailedError) as refusal:
            exchanges.declare(other)
        assert (refusal.value.code, refusal.value.ends_connection) == (406, False)


def test_reserved_names_are_refused() -> None:
    with pytest.raises(AccessRefusedError, match=re.escape("contains reserved prefix 'amq.*'")):
        Exchanges().declare(Exchange("amq.mine", ExchangeKind.DIRECT))


def test_what_is_not_there_is_not_found() -> None:
    exchanges = with_queues("q")
    for ask in (
        lambda: exchanges.get("e"),
        lambda: exchanges.delete("e"),
        lambda: exchanges.route("e", ""),
        lambda: exchanges.header_names("e"),
        lambda: exchanges.bind(Binding.of("e", queue("q"))),
        lambda: exchanges.bind(Binding.of("amq.direct", queue("none"))),
        lambda: exchanges.unbind(Binding.of("amq.direct", exchange("none"))),
    ):
        with pytest.raises(NotFoundError) as refusal:
            ask()
        assert refusal.value.code == 404


@pytest.mark.requirement("A14.6")
def test_exchanges_route_to_exchanges_once_and_in_circles() -> None:
    exchanges = with_queues("a", "b")
    for name in ("one", "two"):
        exchanges.declare(Exchange(name, ExchangeKind.DIRECT))
    bind(exchanges, "one", exchange("two"), "k")
    bind(exchanges, "two", exchange("one"), "k")
    bind(exchanges, "one", queue("a"), "k")
    bind(exchanges, "two", queue("a"), "k")
    bind(exchanges, "two", queue("b"), "k")
    assert exchanges.route("one", "k") == {"a", "b"}
    exchanges.delete("two")
    assert exchanges.route("one", "k") == {"a"}
    assert [each.destination for each in exchanges.bindings(source="one")] == [queue("a")]


@pytest.mark.requirement("A14.5")
def test_an_alternate_exchange_takes_what_nothing_matches() -> None:
    exchanges = with_queues("matched", "rest", "key2")
    exchanges.declare(Exchange("last", ExchangeKind.FANOUT, alternate=""))
    exchanges.declare(Exchange("first", ExchangeKind.DIRECT, alternate="last"))
    bind(exchanges, "first", queue("matched"), "k")
    assert exchanges.route("first", "k") == {"matched"}
    assert exchanges.route("first", "key2") == {"key2"}
    bind(exchanges, "last", queue("rest"))
    assert exchanges.route("first", "key2") == {"rest"}
    exchanges.delete("last")
    assert exchanges.route("first", "key2") == frozenset()


@pytest.mark.requirement("A14.5")
def test_alternates_may_go_in_circles() -> None:
    exchanges = with_queues("q")
    exchanges.declare(Exchange("one", ExchangeKind.DIRECT, alternate="two"))
    exchanges.declare(Exchange("two", ExchangeKind.DIRECT, alternate="one"))
    exchanges.declare(Exchange("self", ExchangeKind.DIRECT, alternate="self"))
    assert exchanges.route("one", "k") == exchanges.route("self", "k") == frozenset()
    bind(exchanges, "two", queue("q"), "k")
    assert exchanges.route("one", "k") == {"q"}


@pytest.mark.requirement("A13.4")
def test_fields_named_x_count_where_they_are_asked_for() -> None:
    exchanges = with_queues("all", "any", "plain")
    for mode, name in (("all-with-x", "all"), ("any-with-x", "any"), ("all", "plain")):
        bind(exchanges, "amq.match", queue(name), "", {"x-match": mode, "x-a": 1, "b": 2})
    assert exchanges.route("amq.match", "", {"x-a": 1, "b": 2}) == {"all", "any", "plain"}
    assert exchanges.route("amq.match", "", {"x-a": 1}) == {"any"}
    assert exchanges.route("amq.match", "", {"b": 2}) == {"any", "plain"}


@pytest.mark.requirement("A14.3")
def test_an_auto_delete_exchange_goes_with_its_last_binding() -> None:
    exchanges = with_queues("a", "b")
    exchanges.declare(Exchange("upper", ExchangeKind.FANOUT, auto_delete=True))
    exchanges.declare(Exchange("lower", ExchangeKind.FANOUT, auto_delete=True))
    bind(exchanges, "upper", exchange("lower"))
    first = bind(exchanges, "lower", queue("a"))
    bind(exchanges, "lower", queue("b"))
    assert exchanges.unbind(first) == []
    assert exchanges.unbind(first) == []
    assert exchanges.remove_queue("b") == ["lower", "upper"]
    with pytest.raises(NotFoundError):
        exchanges.get("upper")


def test_long_chains_of_auto_delete_exchanges_go_at_once() -> None:
    exchanges = with_queues("q")
    names = [f"e{i}" for i in range(3000)]
    for name in names:
        exchanges.declare(Exchange(name, ExchangeKind.FANOUT, auto_delete=True))
    for name, following in pairwise(names):
        bind(exchanges, name, exchange(following))
    last = bind(exchanges, names[-1], queue("q"))
    assert exchanges.route("e0", "") == {"q"}
    assert exchanges.unbind(last) == names[::-1]


def test_an_exchange_in_use_is_not_deleted_if_unused() -> None:
    exchanges = with_queues("q")
    exchanges.declare(Exchange("e", ExchangeKind.DIRECT))
    binding = bind(exchanges, "e", queue("q"), "k")
    with pytest.raises(PreconditionFailedError, match="in use"):
        exchanges.delete("e", if_unused=True)
    exchanges.unbind(binding)
    assert exchanges.delete("e", if_unused=True) == ["e"]


# -- bindings ---------------------------------------------------------------------------------------


def test_equal_bindings_are_one_binding() -> None:
    exchanges = with_queues("q")
    assert exchanges.bind(Binding.of("amq.match", queue("q"), "", {"a": 1, "b": "x"}))
    assert not exchanges.bind(Binding.of("amq.match", queue("q"), "", {"b": b"x", "a": 1}))
    assert exchanges.bind(Binding.of("amq.match", queue("q"), "", {"b": "x", "a": True}))
    assert len(exchanges.bindings(destination=queue("q"))) == 2
    assert exchanges.bindings(source="amq.direct", destination=queue("q")) == []


@pytest.mark.requirement("A15.7")
def test_bindings_die_with_their_queue() -> None:
    exchanges = with_queues("q", "other")
    for source in ("amq.direct", "amq.topic", "amq.match", "amq.fanout"):
        bind(exchanges, source, queue("q"), "k")
        bind(exchanges, source, queue("other"), "k")
    assert exchanges.remove_queue("q") == []
    assert {each.destination for each in exchanges.bindings()} == {queue("other")}
    assert exchanges.route("amq.topic", "k") == {"other"}


def test_headers_are_asked_for_only_where_they_can_matter() -> None:
    exchanges = with_queues("q")
    exchanges.declare(Exchange("e", ExchangeKind.DIRECT))
    exchanges.declare(Exchange("alternating", ExchangeKind.DIRECT, alternate="amq.match"))
    assert [exchanges.uses_headers(name) for name in ("", "amq.topic", "amq.match", "e", "alternating")] == [
        False, False, True, False, True,
    ]  # fmt: skip
    binding = bind(exchanges, "e", exchange("alternating"))
    bind(exchanges, "alternating", exchange("e"))
    assert exchanges.uses_headers("e")
    exchanges.unbind(binding)
    assert not exchanges.uses_headers("e")


def test_the_names_of_headers_are_those_that_reachable_bindings_compare() -> None:
    exchanges = with_queues("q")
    exchanges.declare(Exchange("e", ExchangeKind.HEADERS))
    exchanges.declare(Exchange("further", ExchangeKind.HEADERS))
    assert exchanges.header_names("e") == ()
    assert exchanges.header_names("amq.direct") is None
    bind(exchanges, "e", queue("q"), "", {"x-match": "any", "kind": "a", "x-left-out": 1})
    bind(exchanges, "further", queue("q"), "", {"x-match": "all-with-x", "size": 1, "x-counts": 1})
    assert exchanges.header_names("e") == ("kind",)
    binding = bind(exchanges, "e", exchange("further"), "", {"attempt": 1})
    assert exchanges.header_names("e") == ("attempt", "kind", "size", "x-counts")
    exchanges.unbind(binding)
    assert exchanges.header_names("e") == ("kind",)
