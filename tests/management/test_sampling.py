"""Rates out of counters (F7)."""

from __future__ import annotations

from collections.abc import Hashable

from cluster.admin.api.sampling import COUNTERS_A_TICK, SAMPLING_INTERVAL_S, Sampler


class Counters:
    """Counters by key, sampled by hand."""

    def __init__(self) -> None:
        self.counts: dict[Hashable, tuple[int, ...]] = {}
        self.sampler = Sampler(lambda: list(self.counts.items()))
        self.now = 100.0

    def sample(self) -> None:
        self.now += SAMPLING_INTERVAL_S
        for _ in range(len(self.counts) // COUNTERS_A_TICK + 1):
            self.sampler.tick(self.now)


def test_a_rate_is_what_a_counter_grew_by_in_a_second() -> None:
    counters = Counters()
    counters.counts["q"] = (100, 5)
    counters.sample()
    assert counters.sampler.rates("q", 2) == (0.0, 0.0)
    counters.counts["q"] = (150, 5)
    counters.sample()
    assert counters.sampler.rates("q", 2) == (10.0, 0.0)
    counters.sample()
    assert counters.sampler.rates("q", 2) == (0.0, 0.0)


def test_depths_may_fall() -> None:
    counters = Counters()
    counters.counts["q"] = (50,)
    counters.sample()
    counters.counts["q"] = (0,)
    counters.sample()
    assert counters.sampler.rates("q", 1) == (-10.0,)


def test_nothing_is_read_before_its_time() -> None:
    counters = Counters()
    counters.counts["q"] = (0,)
    counters.sample()
    counters.counts["q"] = (50,)
    counters.sampler.tick(counters.now + SAMPLING_INTERVAL_S / 2)
    assert counters.sampler.rates("q", 1) == (0.0,)
    assert counters.sampler.changed("q") == counters.now


def test_what_is_gone_is_forgotten() -> None:
    counters = Counters()
    counters.counts |= {"q": (0,), "r": (0,)}
    counters.sample()
    del counters.counts["q"]
    counters.sample()
    assert counters.sampler.changed("q") is None
    assert counters.sampler.changed("r") is not None


def test_many_counters_are_read_a_piece_at_a_time() -> None:
    counters = Counters()
    counters.counts = {number: (number,) for number in range(3 * COUNTERS_A_TICK)}
    counters.now += SAMPLING_INTERVAL_S
    reads = 0
    while counters.sampler.changed(3 * COUNTERS_A_TICK - 1) is None:
        counters.sampler.tick(counters.now)
        reads += 1
    assert reads == 4
    counters.counts = {number: (number + 5,) for number in range(3 * COUNTERS_A_TICK)}
    counters.sample()
    assert counters.sampler.rates(7, 1) == (1.0,)


def test_it_is_known_since_when_nothing_changed() -> None:
    counters = Counters()
    counters.counts["q"] = (1,)
    counters.sample()
    begun = counters.now
    counters.sample()
    assert counters.sampler.changed("q") == begun
    counters.counts["q"] = (2,)
    counters.sample()
    assert counters.sampler.changed("q") == counters.now
