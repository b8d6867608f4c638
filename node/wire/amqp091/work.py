"""The work that input asks of the node, in octets of plain messages that would take as long.

It is counted once for what is handled together: a run of messages, a row of acknowledgements, a frame by
itself (docs/decisions/0028-work-per-connection.md).
"""

from __future__ import annotations

from typing import Final

FRAME_WORK: Final = 128
"""Of a frame, or of frames that are handled together, besides their octets."""

REQUEST_WORK: Final = 8 * 1024
"""Of a method that is neither a publish nor an acknowledgement: its permissions, the catalog, its answer."""

PROPERTIES_WORK: Final = 8
"""Of an octet in a property list that is not remembered: each value of a header table is looked at."""

WORK_A_SECOND: Final = 128 * 1024 * 1024
"""Of a second that a request took: a permission's pattern may need long for a name."""


class WorkShare:
    """The work that a connection may still ask in this turn."""

    __slots__ = ("_granted", "done")

    def __init__(self, granted: int) -> None:
        self._granted = granted
        self.done = 0

    @property
    def used_up(self) -> bool:
        """Whether other clients come first now."""
        return self.done >= self._granted

    def renew(self) -> None:
        """The other clients had their turn."""
        self.done = 0

    def exhaust(self) -> None:
        """Nothing that comes in goes before what waits for the next `renew`."""
        self.done = self._granted
