"""Password hashes: quorate's own, salted and memory-hard, and those in definitions of RabbitMQ."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from node.wire.saslprep import ProhibitedTextError
from node.wire.scram import SALT_BYTES, SCRAM_SHA_256, Verifier

_SCRYPT_N = 1 << 14
_SCRYPT_R = 8
_SCRYPT_P = 1
_SCRYPT_LARGEST = 1 << 21
"""Largest n * r; a check takes 128 * n * r octets of memory."""
_SCRYPT_LONGEST = 1 << 22
"""Largest n * r * p: 32 times that of hashes made here. Any peer has a hash checked, by a log-in."""

_PREFIX = "scrypt"
SCRYPT_PREFIX: Final = _PREFIX + "$"
"""Begins the hashes of `PasswordHash`, and no others."""
_VERIFIER: Final = f"${SCRAM_SHA_256}$"

SCRYPT: Final = "quorate_scrypt"
"""The name of quorate's own algorithm in definitions."""

RABBITMQ_DIGESTS: Final = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
_RABBITMQ_SALT: Final = 4
"""Octets of salt in front of RabbitMQ's digests."""


class StoredHash(Protocol):
    """A hash with which a password can be compared."""

    def matches(self, password: str) -> bool: ...


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    """A salted scrypt hash (RFC 7914), written `scrypt$n$r$p$salt$hash` with hexadecimal salt and hash.

    `verifier` lets clients log in by SCRAM too; it is written behind the hash,
    `$SCRAM-SHA-256$iterations$salt$StoredKey$ServerKey`.
    """

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes
    verifier: Verifier | None = None

    @classmethod
    def of(cls, password: str, scram: bool = False) -> PasswordHash:
        """The hash of a password under a new salt. Takes some 50 ms and 16 MiB on purpose.

        `scram`: with a verifier, unless SASLprep prohibits the password.
        """
        salt = os.urandom(16)
        digest = _scrypt(password, salt, _SCRYPT_N, _SCRYPT_R, _SCRYPT_P)
        verifier = None
        if scram:
            with suppress(ProhibitedTextError):
                verifier = Verifier.of(password, os.urandom(SALT_BYTES))
        return cls(_SCRYPT_N, _SCRYPT_R, _SCRYPT_P, salt, digest, verifier)

    @classmethod
    def decoy(cls) -> PasswordHash:
        """The hash of no password, made at once: `matches` takes as long as on any other, and says no."""
        return cls(_SCRYPT_N, _SCRYPT_R, _SCRYPT_P, os.urandom(16), os.urandom(32))

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """The hash that `str` wrote. Raises ValueError, whose text does not show the hash."""
        text, with_verifier, written = text.partition(_VERIFIER)
        verifier = Verifier.parse(written) if with_verifier else None
        fields = text.split("$")
        try:
            if len(fields) != 6 or fields[0] != _PREFIX:
                raise ValueError
            n, r, p = (int(field) for field in fields[1:4])
            salt, digest = bytes.fromhex(fields[4]), bytes.fromhex(fields[5])
        except ValueError:
            raise ValueError("is not a hash as `quorate hash-password` prints it") from None
        in_range = 1 < n <= 1 << 20 and n & (n - 1) == 0 and 1 <= r <= 32 and 1 <= p <= 16
        # RFC 7914, section 2: n is less than 2 ** (128 * r / 8).
        if not (in_range and n < 1 << 16 * r and salt and digest):
            raise ValueError("has scrypt parameters out of range")
        if n * r > _SCRYPT_LARGEST:
            raise ValueError("takes more than 256 MiB to check")
        if n * r * p > _SCRYPT_LONGEST:
            raise ValueError("takes seconds to check")
        return cls(n, r, p, salt, digest, verifier)

    def __str__(self) -> str:
        written = "" if self.verifier is None else f"{_VERIFIER}{self.verifier}"
        fields = (_PREFIX, str(self.n), str(self.r), str(self.p), self.salt.hex(), self.digest.hex())
        return "$".join(fields) + written

    def __repr__(self) -> str:
        return "PasswordHash(...)"

    def matches(self, password: str) -> bool:
        """Whether the hash is of this password. As slow as `of`; compares in constant time."""
        digest = _scrypt(password, self.salt, self.n, self.r, self.p, len(self.digest))
        return hmac.compare_digest(digest, self.digest)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int, size: int = 32) -> bytes:
    octets = password.encode("utf-8", "surrogateescape")
    # The array V with two blocks more, and a block for each of the p parts: OpenSSL takes no more.
    limit = 128 * r * (n + 2 + p)
    return hashlib.scrypt(octets, salt=salt, n=n, r=r, p=p, maxmem=limit, dklen=size)


@dataclass(frozen=True, slots=True, repr=False)
class RabbitmqHash:
    """A hash from RabbitMQ's definitions, written `algorithm$base64`: the salt, then the digest of salt and
    password.
    """

    algorithm: str
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> RabbitmqHash:
        """The hash that `str` wrote. Raises ValueError, whose text does not show the hash."""
        algorithm, _, encoded = text.partition("$")
        try:
            octets = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("is not base64") from None
        if algorithm not in RABBITMQ_DIGESTS:
            raise ValueError(f"is of an algorithm that is none of {', '.join(RABBITMQ_DIGESTS)}")
        size = hashlib.new(RABBITMQ_DIGESTS[algorithm], usedforsecurity=False).digest_size
        if len(octets) != _RABBITMQ_SALT + size:
            raise ValueError(f"has another length than hashes of {algorithm}")
        return cls(algorithm, octets[:_RABBITMQ_SALT], octets[_RABBITMQ_SALT:])

    def __str__(self) -> str:
        return f"{self.algorithm}${base64.b64encode(self.salt + self.digest).decode()}"

    def __repr__(self) -> str:
        return "RabbitmqHash(...)"

    def matches(self, password: str) -> bool:
        """Whether the hash is of this password; compares in constant time."""
        octets = self.salt + password.encode("utf-8", "surrogateescape")
        digest = hashlib.new(RABBITMQ_DIGESTS[self.algorithm], octets, usedforsecurity=False).digest()
        return hmac.compare_digest(digest, self.digest)


def verifier_in(text: str) -> Verifier | None:
    """The verifier of a hash as the catalog keeps it; None where there is none."""
    _, found, written = text.partition(_VERIFIER)
    return Verifier.parse(written) if found else None


def without_verifier(text: str) -> str:
    """The hash alone, as releases keep it that know no SCRAM."""
    return text.partition(_VERIFIER)[0]


def with_verifier(text: str, made: str) -> str:
    """The hash `text`, with the verifier of `made`, a later hash of the same password."""
    return without_verifier(text) + "".join(made.partition(_VERIFIER)[1:])


def parse_hash(text: str) -> StoredHash:
    """The hash, of either kind, that `str` wrote. Raises ValueError, whose text does not show the hash."""
    if text.startswith(SCRYPT_PREFIX):
        return PasswordHash.parse(text)
    return RabbitmqHash.parse(text)


def imported_hash(algorithm: str, encoded: str) -> str:
    """A hash of a definitions file as the catalog keeps it; an empty one, for no password, stays empty.

    `algorithm` is the file's `hashing_algorithm`, of RabbitMQ or `SCRYPT`; empty means RabbitMQ's sha256.
    Raises ValueError, whose text does not show the hash.
    """
    if not encoded:
        return ""
    if algorithm == SCRYPT:
        return str(PasswordHash.parse(encoded))
    return str(RabbitmqHash.parse(f"{algorithm or 'rabbit_password_hashing_sha256'}${encoded}"))


def exported_hash(text: str) -> tuple[str, str]:
    """Inverse of `imported_hash`: the algorithm's name and the hash."""
    if not text or text.startswith(SCRYPT_PREFIX):
        return SCRYPT if text else "rabbit_password_hashing_sha256", text
    algorithm, _, encoded = text.partition("$")
    return algorithm, encoded
