"""Security mechanisms of ZMTP: the commands of both sides between greeting and first message. Pure."""

from __future__ import annotations

from typing import Protocol

from replication.transport.zmtp.frames import (
    ProtocolError,
    RefusedError,
)
from replication.transport.zmtp.scratch import Scratch

PUSH, PULL = "PUSH", "PULL"
"""A node pushes on the connections that it makes, and pulls from those that it accepts."""


class Mechanism(Protocol):
    """One side's part of a handshake, and of the encryption after it."""

    @property
    def name(self) -> str: ...

    @property
    def as_server(self) -> bool: ...

    @property
    def ready(self) -> bool:
        """Whether messages may flow."""

    @property
    def introduced(self) -> bool:
        """Whether the other side has shown that it knows this node's key."""

    @property
    def user(self) -> str | None:
        """The node that the other side has proved to be; None before."""

    def begin(self) -> bytes | None:
        """The command to send after the greeting."""

    def answer(self, body: bytes) -> bytes | None:
        """Take a command of the other side; returns the one to send. Raises ProtocolError."""

    def wrap(
        self, flags: int, payload: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[bytes, bytes | memoryview]:
        """A frame in the form in which it travels, in two pieces: a short one, then the rest, which may lie
        in the scratch.
        """

    def unwrap(self, payload: memoryview, scratch: Scratch | None = None) -> tuple[int, bytes | memoryview]:
        """Flags and octets of a frame that came in, copied out of it, perhaps into the scratch; raises
        ProtocolError.
        """


def refusal_by_peer(name: bytes, data: bytes) -> ProtocolError:
    """The meaning of a command that is not the next one of the handshake."""
    if name == b"ERROR":
        return RefusedError("the other side does not know this node's key")
    return ProtocolError(f"{name.decode('ascii', 'replace')} is not the next command of the handshake")
