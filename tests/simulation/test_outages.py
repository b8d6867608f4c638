"""The outages after which a running node may be taken for lost."""

from __future__ import annotations

from tests.simulation.outages import CONNECTING_S, TOLERATED_S, Outages


class Frozen:
    """A node that was out of reach from 1.0 s on, for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.now = 1.0
        self.outages = Outages(lambda: self.now)
        end = self.outages.begin(["n1"])
        self.now += seconds
        end()
        self.woken = self.now
        self.now += 10.0


def test_a_node_that_was_out_of_reach_for_long_may_be_lost() -> None:
    frozen = Frozen(TOLERATED_S + 0.01)
    assert frozen.outages.during("n1", since=0.0)
    assert not frozen.outages.during("n2", since=0.0)


def test_a_short_interruption_excuses_nothing() -> None:
    assert not Frozen(TOLERATED_S - 0.01).outages.during("n1", since=0.0)


def test_what_a_node_handles_as_it_wakes_up_was_sent_before() -> None:
    frozen = Frozen(TOLERATED_S + 0.01)
    assert frozen.outages.during("n1", since=frozen.woken + 0.001)
    assert not frozen.outages.during("n1", since=frozen.woken + CONNECTING_S + 0.001)


def test_a_frozen_node_does_not_hear_that_another_is_back() -> None:
    """n3 is cut off from n1 and frozen; n1 is back before n3 wakes up, and takes n1 for lost."""
    frozen = Frozen(TOLERATED_S / 2)
    begun, frozen.now = frozen.now, frozen.woken - 0.1
    end = frozen.outages.begin(["n3"], frozen=True)
    frozen.now = frozen.woken + TOLERATED_S / 2 + 0.1
    end()
    frozen.now = begun
    assert frozen.outages.during("n1", since=0.0)
    assert not frozen.outages.during("n2", since=0.0)
