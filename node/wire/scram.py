"""The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677) as a state machine, and verifiers of passwords.

state    the client's next message                 its answer
START    client-first-message; empty: not yet      server-first-message; an empty challenge
FIRST    client-first-message                      server-first-message
FINAL    client-final-message                      server-final-message: the proof is right
DONE     none                                      -

A message that breaks the rules raises ScramError with the error value of RFC 5802, section 7, for the log of
the node: the server may end the exchange without the value. The server offers no channel binding, and takes
no authorization identity but the user's own name. Messages hold no password, but a reader of a whole exchange
can try passwords on it: neither errors nor `repr` show any part of a message.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from node.wire.saslprep import ProhibitedTextError, saslprep

SCRAM_SHA_256: Final = "SCRAM-SHA-256"

HASH: Final = "sha256"
KEY_BYTES: Final = 32
"""Octets of SHA-256, and so of each key."""

LEAST_ITERATIONS: Final = 4096
"""RFC 7677, section 4."""

MOST_ITERATIONS: Final = 10_000_000

ITERATIONS: Final = 32_768
"""The iterations of new verifiers, and of decoys: another number would tell which names are users."""

SALT_BYTES: Final = 16

LARGEST_NONCE: Final = 128
"""Octets of a client's nonce. A SASL frame of AMQP 1.0 has 512 octets at most (section 5.3.1), and the nonce
comes back in the server's challenge.
"""

GS2_NONE: Final = (b"n", b"y")
"""The flags of clients that use no channel binding (RFC 5802, section 6)."""


class ScramError(Exception):
    """The exchange has failed. `value` is the error value of RFC 5802, section 7."""

    def __init__(self, value: str) -> None:
        super().__init__(f"{SCRAM_SHA_256}: {value}")
        self.value = value


@dataclass(frozen=True, slots=True, repr=False)
class Verifier:
    """Iterations, salt, StoredKey and ServerKey of a password, which a server keeps (RFC 5802, section 3)."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
        """The verifier of a password. Takes some 10 ms on purpose.

        Raises ProhibitedTextError for a password that SASLprep does not take, or of which it leaves nothing:
        an empty password would match.
        """
        prepared = saslprep(password, stored=True).encode()
        if not prepared:
            raise ProhibitedTextError("an empty password")
        salted = hashlib.pbkdf2_hmac(HASH, prepared, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", HASH)
        server_key = hmac.digest(salted, b"Server Key", HASH)
        return cls(iterations, salt, hashlib.sha256(client_key).digest(), server_key)

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """The verifier that `str` wrote. Raises ValueError, whose text does not show the verifier."""
        fields = text.split("$")
        try:
            iterations, (salt, stored_key, server_key) = int(fields[0]), map(bytes.fromhex, fields[1:])
        except ValueError:
            raise ValueError("is no SCRAM verifier") from None
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ValueError("has iterations out of range")
        if not 0 < len(salt) <= 64 or not len(stored_key) == len(server_key) == KEY_BYTES:
            raise ValueError("has a salt or a key of another length")
        return cls(iterations, salt, stored_key, server_key)

    @classmethod
    def decoy(cls, key: bytes, name: str) -> Verifier:
        """The verifier for a name without a password: no proof matches it. The same key makes the same salt
        for a name each time, as a password would have it.
        """
        octets = [
            hmac.digest(key, part + name.encode("utf-8", "replace"), HASH) for part in (b"1", b"2", b"3")
        ]
        return cls(ITERATIONS, octets[0][:SALT_BYTES], octets[1], octets[2])

    def __str__(self) -> str:
        octets = (self.salt, self.stored_key, self.server_key)
        return "$".join((str(self.iterations), *(one.hex() for one in octets)))

    def __repr__(self) -> str:
        return "Verifier(...)"


class ScramStage(Enum):
    """The client's message that comes next."""

    START = 1
    FIRST = 2
    FINAL = 3
    DONE = 4


class ScramExchange:
    """One exchange; see the module's docstring.

    `verifier_of` gives the verifier of a user, or a decoy. `nonce` is the server's part of the nonce, new for
    each exchange and beyond guessing: printable ASCII without a comma.
    """

    __slots__ = ("_bare", "_challenge", "_gs2", "_nonce", "_verifier_of", "stage", "user", "verifier")

    def __init__(self, verifier_of: Callable[[str], Verifier], nonce: bytes) -> None:
        self.stage = ScramStage.START
        self.user = ""
        """The name that the client claims, prepared."""
        self.verifier: Verifier | None = None
        self._verifier_of = verifier_of
        self._nonce = nonce
        self._gs2 = self._bare = self._challenge = b""

    def receive(self, message: bytes) -> bytes:
        """Take a message; return the answer. Where `stage` is DONE after that, the proof is right and the
        answer is the server-final-message. Raises ScramError.
        """
        match self.stage:
            case ScramStage.START if not message:
                self.stage = ScramStage.FIRST
                return b""
            case ScramStage.START | ScramStage.FIRST:
                return self._first(message)
            case ScramStage.FINAL:
                return self._final(message)
        raise ScramError("other-error")

    def _first(self, message: bytes) -> bytes:
        self._gs2, self._bare, name, nonce = parse_first(message)
        self.user = name
        self.verifier = verifier = self._verifier_of(name)
        self._nonce = nonce + self._nonce
        salt = b64encode(verifier.salt)
        self._challenge = b"r=%b,s=%b,i=%d" % (self._nonce, salt, verifier.iterations)
        self.stage = ScramStage.FINAL
        return self._challenge

    def _final(self, message: bytes) -> bytes:
        verifier = self.verifier
        assert verifier is not None
        self.stage = ScramStage.DONE
        without_proof, binding, nonce, proof = parse_final(message)
        if binding != b64encode(self._gs2):
            raise ScramError("channel-bindings-dont-match")
        if not hmac.compare_digest(nonce, self._nonce):
            raise ScramError("other-error")
        authenticated = b",".join((self._bare, self._challenge, without_proof))
        signature = hmac.digest(verifier.stored_key, authenticated, HASH)
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), verifier.stored_key):
            raise ScramError("invalid-proof")
        return b"v=" + b64encode(hmac.digest(verifier.server_key, authenticated, HASH))


def parse_first(message: bytes) -> tuple[bytes, bytes, str, bytes]:
    """The GS2 header, the rest, the prepared user name and the nonce of a client-first-message. Raises
    ScramError.
    """
    flag, found, rest = message.partition(b",")
    identity, found_too, bare = rest.partition(b",")
    if flag.startswith(b"p="):
        raise ScramError("channel-binding-not-supported")
    if not found or not found_too or flag not in GS2_NONE:
        raise ScramError("invalid-encoding")
    fields = _fields(bare)
    if [key for key, _ in fields[:2]] != [b"n", b"r"]:
        raise ScramError("invalid-encoding")
    name, nonce = _name(fields[0][1]), fields[1][1]
    if identity and (not identity.startswith(b"a=") or _name(identity[2:]) != name):
        # No user acts as another one.
        raise ScramError("other-error")
    if len(nonce) > LARGEST_NONCE:
        raise ScramError("no-resources")
    if not _is_nonce(nonce):
        raise ScramError("invalid-encoding")
    return message[: len(message) - len(bare)], bare, name, nonce


def parse_final(message: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """The part in front of the proof, channel binding in base64, nonce and proof of a client-final-message.
    Raises ScramError.
    """
    fields = _fields(message)
    keys = [key for key, _ in fields]
    if keys[:2] != [b"c", b"r"] or keys[-1] != b"p" or len(keys) < 3:
        raise ScramError("invalid-encoding")
    encoded = fields[-1][1]
    try:
        proof = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError("invalid-encoding") from None
    if len(proof) != KEY_BYTES:
        raise ScramError("invalid-encoding")
    return message[: -len(encoded) - len(b",p=")], fields[0][1], fields[1][1], proof


def _fields(message: bytes) -> list[tuple[bytes, bytes]]:
    """The attributes in their order: a letter, "=" and a value that is not empty, without NUL. Raises
    ScramError, also for the attribute of an extension that the server must know.
    """
    fields: list[tuple[bytes, bytes]] = []
    for one in message.split(b","):
        key, value = one[:1], one[2:]
        if not key.isalpha() or one[1:2] != b"=" or not value or b"\0" in value:
            raise ScramError("invalid-encoding")
        if key == b"m":
            raise ScramError("extensions-not-supported")
        fields.append((key, value))
    return fields


def _name(octets: bytes) -> str:
    """A name, of which "=2C" stands for a comma and "=3D" for "=". Raises ScramError."""
    first, *others = octets.split(b"=")
    whole = first
    for one in others:
        if one[:2] not in (b"2C", b"3D"):
            raise ScramError("invalid-encoding")
        whole += (b"," if one[:2] == b"2C" else b"=") + one[2:]
    try:
        name = saslprep(whole.decode())
    except (UnicodeDecodeError, ProhibitedTextError):
        raise ScramError("invalid-username-encoding") from None
    if not name:
        raise ScramError("invalid-username-encoding")
    return name


def _is_nonce(octets: bytes) -> bool:
    """Whether octets are printable ASCII. A comma ends the attribute, so that none is here."""
    return all(0x21 <= one <= 0x7E for one in octets)
