"""Password hashes, and checking a login against them."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass

_SCRYPT_N = 1 << 14
_SCRYPT_R = 8
_SCRYPT_P = 1
_PREFIX = "scrypt"


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    """A salted scrypt hash (RFC 7914), written `scrypt$n$r$p$salt$hash` with hexadecimal salt and hash."""

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, password: str) -> PasswordHash:
        """The hash of a password under a new salt. Takes some 50 ms on purpose."""
        salt = os.urandom(16)
        return cls(
            _SCRYPT_N, _SCRYPT_R, _SCRYPT_P, salt, _scrypt(password, salt, _SCRYPT_N, _SCRYPT_R, _SCRYPT_P)
        )

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """The hash that `str` wrote; raises ValueError, whose text does not show it."""
        fields = text.split("$")
        try:
            if len(fields) != 6 or fields[0] != _PREFIX:
                raise ValueError
            n, r, p = (int(field) for field in fields[1:4])
            salt, digest = bytes.fromhex(fields[4]), bytes.fromhex(fields[5])
        except ValueError:
            raise ValueError("is not a hash as `quorate hash-password` prints it") from None
        if not (1 < n <= 1 << 20 and n & (n - 1) == 0 and 1 <= r <= 32 and 1 <= p <= 16 and salt and digest):
            raise ValueError("has scrypt parameters out of range")
        return cls(n, r, p, salt, digest)

    def __str__(self) -> str:
        return "$".join((_PREFIX, str(self.n), str(self.r), str(self.p), self.salt.hex(), self.digest.hex()))

    def __repr__(self) -> str:
        return "PasswordHash(...)"

    def matches(self, password: str) -> bool:
        """Whether the hash is of this password; as slow as `of`, in constant time."""
        digest = _scrypt(password, self.salt, self.n, self.r, self.p, len(self.digest))
        return hmac.compare_digest(digest, self.digest)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int, size: int = 32) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=size)


class Logins:
    """Checks names and passwords. `remembered` is quick; `check` may take 50 ms, so call it in a thread.

    A password that was right once is remembered as an HMAC under a key of this process, so that
    a thousand clients that reconnect together do not cost a thousand scrypt runs.
    """

    def __init__(self, credentials: Mapping[str, PasswordHash]) -> None:
        self._credentials = dict(credentials)
        self._key = os.urandom(32)
        self._known: dict[str, bytes] = {}
        self._decoy = next(iter(self._credentials.values()), None) or PasswordHash.of("")

    def remembered(self, user: str, password: str) -> bool:
        """Whether this pair was right before. False says nothing."""
        known = self._known.get(user)
        return known is not None and hmac.compare_digest(known, self._tag(password))

    def check(self, user: str, password: str) -> bool:
        """Whether the password is the user's. An unknown user takes as long as a wrong password."""
        expected = self._credentials.get(user)
        if expected is None:
            self._decoy.matches(password)
            return False
        if self.remembered(user, password):
            return True
        if not expected.matches(password):
            return False
        self._known[user] = self._tag(password)
        return True

    def _tag(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), "sha256")
