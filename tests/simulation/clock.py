"""The clock of a machine: it has its own rate and zero, and may stop while the machine is suspended."""

from __future__ import annotations

import random

from tests.simulation.world import World


class Clock:
    """Seconds since some moment of the past, as CLOCK_BOOTTIME tells them, or CLOCK_MONOTONIC.

    zero: what it shows at first. drift: how much faster or slower than the true time it may run, as a
    fraction; it often does so by as much as it may. counts_suspension: it goes on while the machine is
    suspended, as CLOCK_BOOTTIME does.
    """

    def __init__(
        self,
        world: World,
        chance: random.Random,
        zero: float,
        drift: float,
        *,
        counts_suspension: bool = True,
    ) -> None:
        self.rate = 1.0 + drift * chance.choice((-1.0, 1.0, chance.uniform(-1.0, 1.0)))
        self.counts_suspension = counts_suspension
        self._world = world
        self._seen = world.now
        self._shown = zero
        self._suspended = False

    def read(self) -> float:
        """What it shows now."""
        if self._suspended and not self.counts_suspension:
            return self._shown
        return self._shown + (self._world.now - self._seen) * self.rate

    def true_time(self, seconds: float) -> float:
        """How long it takes until it shows so many seconds more."""
        return seconds / self.rate

    def suspend(self) -> None:
        """The machine is suspended."""
        self._shown, self._seen = self.read(), self._world.now
        self._suspended = True

    def resume(self) -> None:
        """The machine goes on."""
        self._shown, self._seen = self.read(), self._world.now
        self._suspended = False
