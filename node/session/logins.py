"""SASL mechanisms: what a client's response says of who it is (RFC 4422)."""

from __future__ import annotations

from dataclasses import dataclass, field

PLAIN_MECHANISM = "PLAIN"
EXTERNAL = "EXTERNAL"


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user who proves the name by a password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertifiedLogin:
    """A user whose name the client's certificate proves."""

    user: str


Login = PasswordLogin | CertifiedLogin


class MalformedResponseError(Exception):
    """A response that is none of the mechanism's. The text never shows it: it may hold a password."""


def parse_login(mechanism: str, response: bytes, certified_name: str) -> Login:
    """Who a client says to be. `certified_name` is what its certificate says; empty without one.

    Raises MalformedResponseError.
    """
    match mechanism:
        case "PLAIN":
            return _plain(response)
        case "EXTERNAL" if certified_name:
            return CertifiedLogin(certified_name)
        case "EXTERNAL":
            raise MalformedResponseError("there is no certificate of the client, or no name in it")
    raise MalformedResponseError("the mechanism is not known")


def _plain(response: bytes) -> PasswordLogin:
    """SASL PLAIN (RFC 4616): authorization identity, user and password with a NUL between each two."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise MalformedResponseError("the response has not the three parts of PLAIN")
    return password_login(parts[1], parts[2])


def password_login(user: bytes, password: bytes) -> PasswordLogin:
    """Names are in UTF-8, passwords may be any octets."""
    return PasswordLogin(user.decode("utf-8", "replace"), password.decode("utf-8", "surrogateescape"))
