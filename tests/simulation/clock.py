"""The clock of a machine: it has its own rate and zero, and may stop while the machine is suspended."""

from __future__ import annotations

import random

from tests.simulation.world import World


class Clock:
    """A clock as CLOCK_BOOTTIME or CLOCK_MONOTONIC: seconds since some moment of the past.

    zero: the first reading. drift: the bound on the error of the clock's rate, as a fraction; the error is
    often as large as the bound. counts_suspension: the clock goes on while the machine is suspended, as
    CLOCK_BOOTTIME does.
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
        """The reading now, in seconds."""
        if self._suspended and not self.counts_suspension:
            return self._shown
        return self._shown + (self._world.now - self._seen) * self.rate

    def true_time(self, seconds: float) -> float:
        """The true time in which the clock advances by so many seconds."""
        return seconds / self.rate

    def suspend(self) -> None:
        """The machine is suspended."""
        self._shown, self._seen = self.read(), self._world.now
        self._suspended = True

    def resume(self) -> None:
        """The machine goes on."""
        self._shown, self._seen = self.read(), self._world.now
        self._suspended = False
