"""Strangers are bounded in number, and addresses that keep failing are shut out for a while (A3)."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.session.gate import Gate, GateLimits, origin_of

A, B = "10.0.0.1", "10.0.0.2"


@pytest.mark.requirement("A3.6", "A3.7")
def test_an_address_that_keeps_failing_is_blocked_for_a_while() -> None:
    gate = Gate(GateLimits(failures=3, window=10, block=20))
    assert [gate.failed(A, now) for now in (0, 1, 2)] == [False, False, True]
    assert not gate.admit(A, 2.1)
    assert gate.admit(B, 2.1)
    assert not gate.admit(A, 21.9)
    assert (gate.refused, gate.blocked) == (2, 2)
    assert gate.admit(A, 22)
    assert [gate.failed(A, now) for now in (23, 24, 25)] == [False, False, True]


def test_failures_far_apart_block_no_address() -> None:
    gate = Gate(GateLimits(failures=3, window=10))
    assert not any(gate.failed(A, now) for now in (0, 9, 11, 20, 22, 31))
    assert gate.admit(A, 32)


@pytest.mark.requirement("A3.7")
def test_failures_of_sockets_that_were_in_already_prolong_nothing() -> None:
    gate = Gate(GateLimits(failures=2, window=10, block=20))
    assert [gate.failed(A, now) for now in (0, 0, 5, 19)] == [False, True, False, False]
    assert gate.admit(A, 20)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"])
def test_loopback_may_be_exempt(address: str) -> None:
    """All programs of a machine have one address: one of them must not lock out the others."""
    exempt = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    gate = Gate(GateLimits(failures=1, never_blocked=exempt))
    assert not any(gate.failed(address, 1.0) for _ in range(100))
    assert gate.admit(address, 1.0)
    assert gate.failed(A, 1.0)


def test_failures_beside_clients_that_are_logged_in_lock_no_client_out() -> None:
    gate = Gate(GateLimits(failures=2, window=10, block=20))
    assert gate.admit(A, 0)
    gate.vouched(A)
    assert not any(gate.failed(A, 1.0) for _ in range(100))
    assert gate.admit(A, 1.0)
    gate.left(A, stranger=True)
    gate.left(A, stranger=False)
    assert [gate.failed(A, 2.0), gate.failed(A, 2.0)] == [False, True]
    assert not gate.admit(A, 2.1)


def test_blocking_can_be_turned_off() -> None:
    gate = Gate(GateLimits(failures=0))
    assert not any(gate.failed(A, 1.0) for _ in range(1000))
    assert gate.admit(A, 1.0)


def test_no_more_addresses_are_remembered_than_there_is_room_for() -> None:
    gate = Gate(GateLimits(failures=1, block=1000, addresses=3))
    for last in range(10):
        gate.failed(f"10.0.0.{last}", 1.0)
    assert [gate.admit(f"10.0.0.{last}", 2.0) for last in range(10)] == [True] * 7 + [False] * 3


def test_strangers_are_bounded_in_all_and_at_one_address() -> None:
    gate = Gate(GateLimits(sockets=5, strangers=3, strangers_per_address=2))
    assert [gate.admit(A, 0) for _ in range(3)] == [True, True, False]
    assert [gate.admit(B, 0) for _ in range(2)] == [True, False]
    gate.vouched(A)
    assert gate.admit(A, 0)
    gate.left(B, stranger=True)
    gate.vouched(A)
    assert gate.admit(B, 0)
    gate.vouched(A)
    gate.vouched(B)
    assert gate.admit(B, 0)
    assert not gate.admit("10.0.0.3", 0), "five sockets are all there may be"
    gate.left(A, stranger=False)
    assert (gate.sockets, gate.strangers) == (4, 1)


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_who_is_held_responsible(address: str, origin: str) -> None:
    assert origin_of(address) == origin


class GateModel(RuleBasedStateMachine):
    """Any sequence of arrivals, logins, failures and departures: what is counted is what is there."""

    LIMITS = GateLimits(sockets=6, strangers=4, strangers_per_address=2, failures=3, window=5, block=7)

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate(self.LIMITS)
        self.now = 0.0
        self.strangers: list[str] = []
        self.clients: list[str] = []

    @rule(address=st.sampled_from([A, B, "10.0.0.3"]))
    def arrive(self, address: str) -> None:
        room = (
            len(self.strangers) + len(self.clients) < 6
            and len(self.strangers) < 4
            and self.strangers.count(address) < 2
        )
        blocked = self.gate.blocked
        if self.gate.admit(address, self.now):
            assert room
            self.strangers.append(address)
        else:
            assert not room or self.gate.blocked == blocked + 1

    @precondition(lambda self: self.strangers)
    @rule(choice=st.data())
    def log_in(self, choice: st.DataObject) -> None:
        address = choice.draw(st.sampled_from(self.strangers))
        self.strangers.remove(address)
        self.clients.append(address)
        self.gate.vouched(address)

    @precondition(lambda self: self.strangers)
    @rule(choice=st.data())
    def fail(self, choice: st.DataObject) -> None:
        address = choice.draw(st.sampled_from(self.strangers))
        self.gate.failed(address, self.now)
        self.strangers.remove(address)
        self.gate.left(address, stranger=True)

    @precondition(lambda self: self.clients)
    @rule()
    def leave(self) -> None:
        self.gate.left(self.clients.pop(), stranger=False)

    @rule(seconds=st.floats(0.1, 10))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def counts_agree(self) -> None:
        assert self.gate.strangers == len(self.strangers)
        assert self.gate.sockets == len(self.strangers) + len(self.clients)
        assert self.gate._by_origin == dict(Counter(self.strangers))


TestGateModel = GateModel.TestCase


@given(st.lists(st.floats(0, 100), max_size=40).map(sorted))
def test_no_address_is_blocked_for_fewer_failures_than_the_limit(times: list[float]) -> None:
    gate = Gate(GateLimits(failures=5, window=10, block=20))
    for number, now in enumerate(times):
        recent = sum(1 for other in times[: number + 1] if other >= now - 10)
        assert not gate.failed(A, now) or recent >= 5
