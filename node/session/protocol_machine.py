"""The state machine of a protocol's connection, as sessions drive it."""

from __future__ import annotations

from typing import Any, Protocol


class ProtocolMachine(Protocol):
    """The state machine of a protocol's connection."""

    def take_effects(self) -> list[Any]:
        """Remove and return the effects that are to be carried out."""

    def disconnected(self) -> list[Any]:
        """The socket is closed: everything ends. Returns the effects of that."""

    @property
    def has_input(self) -> bool:
        """Whether input waits for a turn: earlier turns have left it."""

    @property
    def paused(self) -> bool:
        """Whether the session should stop reading the socket: input waits that the machine may not handle
        now.
        """

    def begin_turn(self, waiting: int) -> None:
        """Begin a new turn, whose work the `waiting` clients with such input divide: handle a share of the
        input.
        """

    def next_deadline(self) -> float:
        """The time at which `tick` is to be called; infinity for never."""

    def tick(self, now: float) -> list[Any]:
        """Run the timers that are due; returns the effects."""

    def took(self, seconds: float) -> None:
        """Count the time that the session has taken for a request as work."""

    def take_output(self) -> bytes:
        """Remove and return the octets to write now."""

    @property
    def has_output(self) -> bool:
        """Whether output is left that `take_output` has not taken."""
