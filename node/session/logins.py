"""SASL mechanisms (RFC 4422): read the user and the proof out of a client's response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from node.wire.scram import Verifier

PLAIN_MECHANISM = "PLAIN"
EXTERNAL = "EXTERNAL"
ANONYMOUS = "ANONYMOUS"

LARGEST_TRACE: Final = 1020
"""Octets of the trace that an anonymous client may send: 255 characters (RFC 4505, section 2)."""


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user name with a password to check."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertifiedLogin:
    """A user name that needs no password: the client's certificate proves it, or an earlier login."""

    user: str


@dataclass(frozen=True, slots=True)
class AnonymousLogin:
    """The client names no user: the configuration says as whom the client comes in, if at all."""


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """A user whose client has proved by SCRAM that it knows the password of this verifier. The login counts
    while the verifier is the user's.
    """

    user: str
    verifier: Verifier


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """An access token, which names its user."""

    token: str = field(repr=False)


Login = PasswordLogin | TokenLogin | CertifiedLogin | AnonymousLogin | ScramLogin


class MalformedResponseError(Exception):
    """The response does not follow the mechanism. The text never quotes the response, which may have a
    password in it.
    """


def parse_login(mechanism: str, response: bytes, certified_name: str) -> Login:
    """The login in a response to PLAIN, EXTERNAL or ANONYMOUS. `certified_name` is the name in the client's
    valid certificate; empty without one.

    Raises MalformedResponseError, also for another mechanism.
    """
    match mechanism:
        case "PLAIN":
            return _plain(response)
        case "EXTERNAL" if certified_name:
            return CertifiedLogin(certified_name)
        case "EXTERNAL":
            raise MalformedResponseError("there is no certificate of the client, or no name in it")
        case "ANONYMOUS" if len(response) <= LARGEST_TRACE:
            return AnonymousLogin()
        case "ANONYMOUS":
            raise MalformedResponseError("the trace of the anonymous client is too long")
    raise MalformedResponseError("the mechanism is not known")


def _plain(response: bytes) -> PasswordLogin:
    """SASL PLAIN (RFC 4616): authorization identity, user and password with a NUL between each two."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise MalformedResponseError("the response has not the three parts of PLAIN")
    return password_login(parts[1], parts[2])


def password_login(user: bytes, password: bytes) -> PasswordLogin:
    """A login from octets. The name is UTF-8 with invalid octets replaced; a password may be any octets."""
    return PasswordLogin(user.decode("utf-8", "replace"), password.decode("utf-8", "surrogateescape"))
