"""Scopes of access tokens as rights: RabbitMQ's patterns, in linear time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.catalog.access.token_rights import (
    MOST_SCOPES,
    TokenGrant,
    TokenRights,
    TooManyScopesError,
    Wildcard,
    grant_in,
    rights_and_tags,
)
from node.session.permissions import Right

R, W, C = Right.READ, Right.WRITE, Right.CONFIGURE


def rights(*scopes: str) -> TokenRights:
    return rights_and_tags([f"quorate.{scope}" for scope in scopes], "quorate")[0]


@pytest.mark.requirement("F5.7")
@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*", "", True),
        ("*", "anything/at all", True),
        ("orders", "orders", True),
        ("orders", "old-orders", False),
        ("orders*", "orders.eu", True),
        ("*orders", "old-orders", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "acb", False),
        ("a*a", "a", False),
        ("ab*bc", "abc", False),
        ("**", "x", True),
        ("a%2Fb", "a/b", True),
        ("a%2Ab", "a*b", True),
        ("a%2Ab", "aXb", False),
        ("%zz", "%zz", True),
        ("", "", True),
        ("", "x", False),
        ("caf%C3%A9", "café", True),
        ("%FF", "\udcff", True),
    ],
)
def test_a_star_stands_for_any_characters(pattern: str, name: str, fits: bool) -> None:
    assert Wildcard(pattern).matches(name) is fits


@given(st.text("ab*", max_size=12), st.text("ab", max_size=12))
def test_wildcards_match_as_expressions_would(pattern: str, name: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert Wildcard(pattern).matches(name) is (re.fullmatch(expression, name, re.DOTALL) is not None)


def test_no_pattern_takes_long() -> None:
    name = "a" * 255
    wildcard = Wildcard("a*" * 4000 + "b")
    began = time.perf_counter()
    for _ in range(100):
        assert not wildcard.matches(name)
    assert time.perf_counter() - began < 0.5


@pytest.mark.requirement("F5.7")
def test_a_scope_grants_one_right_by_patterns() -> None:
    found = rights("read:shop/orders*", "write:shop/*", "configure:*/mine")
    assert found.allows("shop", R, "orders.eu") and not found.allows("shop", R, "bills")
    assert not found.allows("other", R, "orders.eu")
    assert found.allows("shop", W, "anything") and not found.allows("shop", C, "anything")
    assert found.allows("other", C, "mine")
    assert found.enters("shop") and found.enters("other")
    assert not rights("read:shop/*").enters("other")


@pytest.mark.requirement("F5.7")
def test_routing_keys_need_a_pattern_of_their_own() -> None:
    found = rights("write:shop/events/eu.*", "write:shop/*", "read:shop/events/*")
    assert found.allows("shop", W, "events")
    assert found.allows_topic("shop", W, "events", "eu.orders")
    assert not found.allows_topic("shop", W, "events", "us.orders")
    assert not found.allows_topic("shop", W, "other", "eu.orders")
    assert found.allows_topic("shop", R, "events", "us.orders")
    assert not found.allows_topic("elsewhere", R, "events", "us.orders")


@pytest.mark.requirement("F5.7")
def test_tags_are_scopes_too_and_scopes_of_others_grant_nothing() -> None:
    scopes = [
        "quorate.tag:monitoring",
        "quorate.tag:",
        "openid",
        "other.read:*/*",
        "read:*/*",
        "quorate.tag:x",
    ]
    found, tags = rights_and_tags(scopes, "quorate")
    assert tags == ("monitoring", "x")
    assert found == TokenRights([]) and not found.enters("/")


@pytest.mark.parametrize(
    "scope", ["", "read", "read:", "read:a", "read:a/b/c/d", "reads:a/b", "READ:a/b", " read:a/b", "tag:a/b"]
)
def test_scopes_of_another_form_grant_nothing(scope: str) -> None:
    assert grant_in(scope) is None


@pytest.mark.parametrize(
    ("scope", "every"),
    [
        ("read:v/*", True),
        ("read:*/*/k", True),
        ("read:v/a*", False),
        ("read:v/%2A", False),
        ("read:w/*", False),
    ],
)
def test_a_star_alone_grants_every_name(scope: str, every: bool) -> None:
    found = rights(scope, "write:v/*")
    assert found.allows_every("v", R) is every
    assert found.allows_every("v", Right.WRITE)


def test_equal_scopes_are_equal_rights() -> None:
    one, two = rights("read:a/b", "write:a/b"), rights("write:a/b", "read:a/b", "read:a/b")
    assert one == two and hash(one) == hash(two)
    assert one != rights("read:a/b") and one != "read:a/b"


@given(st.text(max_size=60))
def test_any_text_is_a_scope_or_none(text: str) -> None:
    found = grant_in(text)
    assert found is None or (isinstance(found, TokenGrant) and text.startswith(f"{found.right.value}:"))
    if found is not None:
        one = TokenRights([text])
        one.enters(text)
        one.allows(text, found.right, text)
        one.allows_topic(text, found.right, text, text)
        one.allows_every(text, found.right)


@given(st.text("*/%2Faé:", min_size=1, max_size=20))
def test_a_name_that_is_encoded_whole_is_granted_itself_alone(name: str) -> None:
    encoded = "".join(f"%{octet:02X}" for octet in name.encode())
    found = rights(f"read:{encoded}/{encoded}/{encoded}")
    assert found.enters(name) and found.allows(name, R, name) and found.allows_topic(name, R, name, name)
    assert not found.allows(name, R, name + "x") and not found.allows(name, R, "x" + name)


def test_thousands_of_scopes_are_refused_and_many_are_no_burden() -> None:
    with pytest.raises(TooManyScopesError):
        rights(*(f"read:v/q{number}" for number in range(MOST_SCOPES + 1)))
    found = rights(*(f"write:v/e*/k{number}*" for number in range(MOST_SCOPES)))
    rights_and_tags([f"other.read:v/q{number}" for number in range(5 * MOST_SCOPES)], "quorate")
    began = time.perf_counter()
    for number in range(100):
        assert not found.allows("v", W, f"q{number}")
        assert not found.allows_topic("v", W, "e", f"x{number}")
    assert time.perf_counter() - began < 1


def test_what_is_remembered_is_bounded() -> None:
    found = rights("read:v/q*/*")
    for number in range(3000):
        assert found.allows("v", R, f"q{number}") and found.allows_topic("v", R, f"q{number}", "k")
    assert len(found._decided) <= 1024 and len(found._keys) <= 1024
    found.let_go()
    assert not found._decided and not found._keys
    assert found == rights("read:v/q*/*") and found.enters("v") and not found.allows("v", W, "q")
