"""The input of a connection: octets cut into frames, those of which wait that may not be handled yet."""

from __future__ import annotations

from typing import Final

from node.delivery.shares import FRAME_WORK, LEAST_PART, REQUEST_WORK, Pace, WorkShare
from node.wire.amqp10.definitions import Disposition, Flow, Transfer
from node.wire.amqp10.errors import WireError
from node.wire.amqp10.frames import FrameParser, ProtocolHeader, Received
from node.wire.amqp10.limits import STRANGER_FRAME_SIZE
from node.wire.amqp10.transfer_rows import TransferRow

FRAME_OCTETS: Final = 256
"""Octets of memory for a frame that waits, beside its own octets."""

OCTETS_PART: Final = 8
"""An octet of a frame is so small a part of the work of an octet of AMQP 0-9-1: only the heads of messages
are looked at.
"""

FLOW_WORK: Final = 4 * 1024
"""The work of a Flow: the link's credit, and maybe an answer."""


class FrameInput:
    """The frames of a connection, in order. `share` counts the work of those that are taken, `pace` the
    errors that they cause.
    """

    __slots__ = ("_at", "_frames", "_octets", "_uncut", "pace", "parser", "share")

    def __init__(self, turn_work: int, refusals_per_second: int) -> None:
        self.parser: Final = FrameParser(STRANGER_FRAME_SIZE, rows=True)
        self.share: Final = WorkShare(turn_work)
        self.pace: Final = Pace(refusals_per_second)
        self._uncut = b""
        self._frames: list[Received] = []
        self._at = 0
        """The position of the first frame that is not taken yet."""
        self._octets = 0
        """The octets of `_frames`, which stay in memory together."""

    def renew(self, waiting: int, now: float) -> None:
        """Begin the share of a new turn (`WorkShare.renew`)."""
        self.share.renew(LEAST_PART if self.pace.least_until > now else waiting)

    def add(self, data: bytes) -> None:
        """Octets of the peer."""
        self._uncut = self._uncut + data if self._uncut else data

    def take(self) -> Received | None:
        """The next frame, or the next row of transfers; None where no complete frame is left."""
        if self._at == len(self._frames):
            self._cut()
            if not self._frames:
                return None
        one = self._frames[self._at]
        self._at += 1
        self.share.done += _work_of(one)
        return one

    def _cut(self) -> None:
        """Cut the next frames from the octets."""
        parser, octets = self.parser, self._uncut
        self._octets = parser.held + len(octets)
        self._frames = parser.receive(octets) if octets or parser.unfinished else []
        self._octets -= parser.held
        self._at, self._uncut = 0, b""

    @property
    def waits(self) -> bool:
        """Whether `take` has something to look at: octets, of which there may be a frame."""
        return self._at < len(self._frames) or self.parser.unfinished or bool(self._uncut)

    @property
    def failure(self) -> WireError | None:
        """The error of octets that are no frames, once all frames in front of them are taken."""
        return None if self.waits else self.parser.failure

    @property
    def held(self) -> int:
        """Octets of memory for the input that waits."""
        octets, left = self.parser.held + len(self._uncut), len(self._frames) - self._at
        return octets + left * FRAME_OCTETS + self._octets if left else octets

    def drop(self) -> None:
        """Drop the input that waits: the connection takes no more."""
        self._frames, self._at, self._uncut = [], 0, b""


def _work_of(received: Received) -> int:
    if isinstance(received, ProtocolHeader):
        return FRAME_WORK
    work = (received.end - received.begin) // OCTETS_PART + FRAME_WORK
    if isinstance(received, TransferRow):
        return work
    performative = received.performative
    if performative is None or isinstance(performative, Transfer | Disposition):
        return work
    return work + (FLOW_WORK if isinstance(performative, Flow) else REQUEST_WORK)
