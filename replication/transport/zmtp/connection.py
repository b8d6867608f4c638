"""One connection of ZMTP as a state machine: octets in, batches and octets to send out. Pure.

Times are arguments, in seconds of any clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replication.transport.zmtp.frames import (
    COMMAND,
    GREETING_BYTES,
    MORE,
    ProtocolError,
    StrangerError,
    ZmtpFrameReader,
    check_greeting,
    command,
    greeting,
    header,
    split_command,
)
from replication.transport.zmtp.mechanism import Mechanism
from replication.transport.zmtp.scratch import Scratch

HANDSHAKE_S: Final = 2.0
"""How long the other side has until messages may flow."""
HEARTBEAT_S: Final = 1.0
"""A side from which nothing came for this time is asked for a sign of life."""
SILENCE_S: Final = 5.0
"""A side from which nothing came for this time is gone. Far above the time that a full window needs."""

_PING: Final = command(b"PING", b"\0\0")
"""Without a time to live: each side has a limit of its own."""
_STRANGER: Final = b"\x03400"
"""libzmq's answer to a peer that it does not let in (https://rfc.zeromq.org/spec/27/, "status code")."""
_HANDSHAKE_FRAME_BYTES: Final = 4096
"""No command of a handshake is longer."""

Octets = bytes | memoryview


class ZmtpConnection:
    """From the greeting to the last message, on either side."""

    __slots__ = (
        "_began",
        "_greeted",
        "_heard",
        "_limit",
        "_mechanism",
        "_parts",
        "_pinged",
        "_reader",
        "_start",
        "output",
    )

    def __init__(self, mechanism: Mechanism, limit_bytes: int, now: float) -> None:
        """`limit_bytes`: the longest frame that is taken."""
        self._mechanism = mechanism
        self._limit = limit_bytes
        self._reader = ZmtpFrameReader(_HANDSHAKE_FRAME_BYTES)
        self._start = b""
        self._greeted = False
        self._parts: list[Octets] = []
        self._began = self._heard = self._pinged = now
        self.output: list[Octets] = [greeting(mechanism.name, mechanism.as_server)]
        """Octets to send, in order; the sender empties the list."""

    @property
    def ready(self) -> bool:
        """Whether messages may flow."""
        return self._mechanism.ready

    @property
    def user(self) -> str | None:
        """The node that the other side has proved to be; None before."""
        return self._mechanism.user

    @property
    def introduced(self) -> bool:
        """Whether the other side has shown that it knows this node's key."""
        return self._mechanism.introduced

    def send(self, frames: Sequence[Octets], scratch: Scratch | None = None) -> None:
        """Add a message to the output. Pieces of the output may lie in the scratch."""
        last = len(frames) - 1
        for index, frame in enumerate(frames):
            self._frame(MORE if index < last else 0, frame, scratch)

    def rest(self) -> memoryview:
        """Where the rest of the frame that has begun to arrive may be received to; empty: none has begun."""
        return self._reader.rest()

    def receive(
        self, octets: memoryview, now: float, placed: int = 0, scratch: Scratch | None = None
    ) -> list[list[Octets]]:
        """The messages that are complete now, each as its frames; raises ProtocolError.

        `placed` octets, which come before these, have been received to `rest()`. The first frame of a
        message may lie in the scratch.
        """
        self._heard = now
        if not self._greeted:
            octets = self._greet(octets)
        messages: list[list[Octets]] = []
        for flags, payload in self._reader.feed(octets, placed):
            if not self._mechanism.ready:
                self._shake_hands(flags, bytes(payload))
                continue
            flags, frame = self._mechanism.unwrap(payload, None if self._parts else scratch)
            if flags & COMMAND:
                self._obey(bytes(frame))
                continue
            self._parts.append(frame)
            if not flags & MORE:
                messages.append(self._parts)
                self._parts = []
        if self._parts:
            # The scratch is used again before the rest of the message comes.
            self._parts[0] = bytes(self._parts[0])
        return messages

    def tick(self, now: float) -> None:
        """Ask for a sign of life where it is time to; raises ProtocolError if there was none for too long."""
        if not self.ready:
            if now - self._began >= HANDSHAKE_S:
                raise ProtocolError("the handshake took too long")
        elif now - self._heard >= SILENCE_S:
            raise ProtocolError(f"nothing came for {SILENCE_S:.0f} s")
        elif now - max(self._heard, self._pinged) >= HEARTBEAT_S:
            self._pinged = now
            self._frame(COMMAND, _PING)

    def _greet(self, octets: memoryview) -> memoryview:
        missing = GREETING_BYTES - len(self._start)
        self._start += octets[:missing]
        if len(self._start) == GREETING_BYTES:
            check_greeting(self._start, self._mechanism.name)
            self._greeted = True
            self._say(self._mechanism.begin())
        return octets[missing:]

    def _shake_hands(self, flags: int, payload: bytes) -> None:
        if not flags & COMMAND:
            raise ProtocolError("a message before the end of the handshake")
        try:
            self._say(self._mechanism.answer(payload))
        except StrangerError:
            self._say(command(b"ERROR", _STRANGER))
            raise
        if self._mechanism.ready:
            self._reader.limit = self._limit

    def _say(self, body: bytes | None) -> None:
        if body is not None:
            self.output += (header(len(body), COMMAND), body)

    def _obey(self, body: bytes) -> None:
        name, data = split_command(body)
        if name == b"PING":
            # The context, after two octets of time to live, comes back as it is.
            self._frame(COMMAND, command(b"PONG", data[2:]))

    def _frame(self, flags: int, payload: Octets, scratch: Scratch | None = None) -> None:
        head, rest = self._mechanism.wrap(flags, payload, scratch)
        self.output += (header(len(head) + len(rest)) + head, rest)
