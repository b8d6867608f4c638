"""Security mechanisms of ZMTP: what both sides say between the greeting and the first message. Pure."""

from __future__ import annotations

from typing import Protocol

from replication.transport.zmtp import (
    ProtocolError,
    RefusedError,
    check_metadata,
    command,
    metadata,
    split_command,
)

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
    def plain(self) -> bool:
        """Whether frames travel as they are: `wrap` and `unwrap` are not called."""

    @property
    def user(self) -> str | None:
        """The node that the other side has proved to be; None where nothing is proved."""

    def begin(self) -> bytes | None:
        """The command to send after the greeting."""

    def answer(self, body: bytes) -> bytes | None:
        """Take a command of the other side; returns the one to send. Raises ProtocolError."""

    def wrap(self, flags: int, payload: bytes | memoryview) -> bytes:
        """A frame in the form in which it travels."""

    def unwrap(self, payload: bytes) -> tuple[int, bytes]:
        """Flags and octets of a frame that came in; raises ProtocolError."""


def refusal_of(name: bytes, data: bytes) -> ProtocolError:
    """What the other side means by a command that is not the next one of the handshake."""
    if name == b"ERROR":
        return RefusedError("the other side does not know this node's key")
    return ProtocolError(f"{name.decode('ascii', 'replace')} is not the next command of the handshake")


class NullMechanism:
    """No security: each side tells the type of its socket (ZMTP 3.1, "The NULL Security Mechanism")."""

    name = "NULL"
    plain = True
    user = None

    def __init__(self, *, as_server: bool) -> None:
        self.as_server = False
        """NULL knows no server: the greeting never says so."""
        self.ready = False
        self._own, self._other = (PULL, PUSH) if as_server else (PUSH, PULL)

    def begin(self) -> bytes | None:
        return command(b"READY", metadata(self._own))

    def answer(self, body: bytes) -> bytes | None:
        name, data = split_command(body)
        if name != b"READY" or self.ready:
            raise refusal_of(name, data)
        check_metadata(data, self._other)
        self.ready = True
        return None

    def wrap(self, flags: int, payload: bytes | memoryview) -> bytes:
        raise AssertionError("frames travel as they are")

    def unwrap(self, payload: bytes) -> tuple[int, bytes]:
        raise AssertionError("frames travel as they are")
