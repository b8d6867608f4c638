"""Memory for octets that are used up at once: those of a frame that the kernel takes, or that are copied out.

New memory is zeroed before a cipher writes to it, and is in no cache of the processor.
"""

from __future__ import annotations


class Scratch:
    """Hands out one piece after the other. Each of them is there until the next `reset`."""

    __slots__ = ("_octets", "_taken")

    def __init__(self, size_bytes: int) -> None:
        self._octets = memoryview(bytearray(size_bytes))
        self._taken = 0

    def reset(self) -> None:
        """Nothing that was handed out is needed any more."""
        self._taken = 0

    def take(self, size: int) -> memoryview | None:
        """Room for `size` octets; None: there is not so much left."""
        place = self._taken
        if place + size > len(self._octets):
            return None
        self._taken = place + size
        return self._octets[place : place + size]
