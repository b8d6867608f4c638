"""CURVE: encrypted connections between nodes that know each other's keys (https://rfc.zeromq.org/spec/26/).

Pure, but for the keys of one connection, which come from the system's randomness through libsodium.
"""

from __future__ import annotations

import base64
import hmac
import os
import string
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from nacl.bindings import (
    crypto_box,
    crypto_box_afternm,
    crypto_box_beforenm,
    crypto_box_keypair,
    crypto_box_open,
    crypto_box_open_afternm,
    crypto_scalarmult_base,
)
from nacl.exceptions import CryptoError

from replication.transport.zmtp.frames import (
    COMMAND,
    MORE,
    ProtocolError,
    StrangerError,
    check_metadata,
    command,
    metadata,
    split_command,
)
from replication.transport.zmtp.mechanism import PULL, PUSH, refusal_by_peer
from replication.transport.zmtp.records import OFFER, ZmtpRecords, agreed
from replication.transport.zmtp.scratch import Scratch

# Z85 (https://rfc.zeromq.org/spec/32/) is base 85 as in RFC 1924, with other digits.
_RFC_1924: Final = (
    string.digits + string.ascii_uppercase + string.ascii_lowercase
).encode() + b"!#$%&()*+-;<=>?@^_`{|}~"
_Z85: Final = (
    string.digits + string.ascii_lowercase + string.ascii_uppercase
).encode() + b".-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85: Final = bytes.maketrans(_RFC_1924, _Z85)
_FROM_Z85: Final = bytes.maketrans(_Z85, _RFC_1924)

CURVE_KEY_BYTES: Final = 32
_COOKIE_BYTES: Final = 96
_NUMBER: Final = struct.Struct(">Q")
_VERSION: Final = b"\x01\x00"
_MESSAGE: Final = command(b"MESSAGE")
"""Before the number and the box of each message."""
_MORE_AND_COMMAND: Final = 1, 2
"""Flags within an encrypted frame: those of ZMTP, without a place for the length."""


class InvalidKeyError(ValueError):
    """A CURVE key is not 40 characters of Z85 (https://rfc.zeromq.org/spec/32/)."""


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """A node's own key pair, each key as 40 characters of Z85."""

    public: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def from_secret(cls, secret: str) -> CurveKeys:
        """The pair of a secret key; raises `InvalidKeyError`, whose text never shows the key."""
        octets = _checked(secret, "secret key")
        return cls(_z85(crypto_scalarmult_base(octets)), _z85(octets))

    @classmethod
    def generate(cls) -> CurveKeys:
        """A new pair from the system's randomness."""
        public, secret = crypto_box_keypair()
        return cls(_z85(public), _z85(secret))


def public_key(text: str) -> bytes:
    """A checked public key; raises `InvalidKeyError`."""
    return _z85(_checked(text, "public key"))


def _z85(octets: bytes) -> bytes:
    return base64.b85encode(octets).translate(_TO_Z85)


def _octets(key: bytes) -> bytes:
    return base64.b85decode(key.translate(_FROM_Z85))


def _checked(text: str, key_name: str) -> bytes:
    key = text.strip().encode("ascii", "backslashreplace")
    if len(key) == 40 and not key.translate(None, _Z85):
        try:
            return _octets(key)
        except ValueError:
            pass
    raise InvalidKeyError(f"{key_name} must be 40 characters of Z85, as `quorate keygen` prints them")


class _Curve:
    """The state that both sides have in common: short keys that end with the connection, and numbered
    messages.
    """

    name = "CURVE"

    def __init__(self, as_server: bool) -> None:
        self.as_server = as_server
        self.ready = False
        self.user: str | None = None
        self._short_public, self._short_secret = crypto_box_keypair()
        self._shared = b""
        """The key of both short pairs, under which messages travel."""
        self._number = 0
        self._seen = 0
        self._records: ZmtpRecords | None = None
        """Known when the connection is ready."""

    def _next_number(self) -> bytes:
        self._number += 1
        return _NUMBER.pack(self._number)

    def _greater_number(self, octets: bytes) -> bytes:
        """A number of the other side, which must grow, so that nothing can be said twice."""
        [number] = _NUMBER.unpack(octets)
        if number <= self._seen:
            raise ProtocolError("a message was repeated")
        self._seen = number
        return octets

    def _agree(self, short_public: bytes) -> None:
        self._shared = crypto_box_beforenm(short_public, self._short_secret)

    def wrap(
        self, flags: int, payload: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[bytes, bytes | memoryview]:
        more, is_command = _MORE_AND_COMMAND
        number = self._next_number()
        assert self._records is not None, "messages come after the handshake"
        inner = more * bool(flags & MORE) | is_command * bool(flags & COMMAND)
        head, box = self._records.seal(number, inner, payload, scratch)
        return _MESSAGE + number + head, box

    def unwrap(self, payload: memoryview, scratch: Scratch | None = None) -> tuple[int, bytes | memoryview]:
        start = len(_MESSAGE) + _NUMBER.size
        if payload[: len(_MESSAGE)] != _MESSAGE or len(payload) < start or self._records is None:
            raise refusal_by_peer(*split_command(bytes(payload)))
        number = self._greater_number(bytes(payload[len(_MESSAGE) : start]))
        inner, octets = self._records.open(number, payload[start:], scratch)
        more, is_command = _MORE_AND_COMMAND
        return MORE * bool(inner & more) | COMMAND * bool(inner & is_command), octets


class ClientMechanism(_Curve):
    """The side that connects: it knows the server's key and proves its own."""

    def __init__(self, keys: CurveKeys, server: bytes) -> None:
        super().__init__(as_server=False)
        self._public, self._secret = _octets(keys.public), _octets(keys.secret)
        self._server = _octets(server)

    @property
    def introduced(self) -> bool:
        """The address does not prove the identity of the peer: the handshake does."""
        return True

    def begin(self) -> bytes | None:
        number = self._next_number()
        # As long as the longest answer to it, so that an answer never has more octets than the command that
        # it answers.
        box = crypto_box(bytes(64), b"CurveZMQHELLO---" + number, self._server, self._short_secret)
        return command(b"HELLO", _VERSION + bytes(72) + self._short_public + number + box)

    def answer(self, body: bytes) -> bytes | None:
        name, data = split_command(body)
        if name == b"WELCOME" and not self._shared and len(data) == 16 + 16 + CURVE_KEY_BYTES + _COOKIE_BYTES:
            return self._initiate(data)
        if name == b"READY" and self._shared and len(data) > _NUMBER.size:
            number = self._greater_number(data[: _NUMBER.size])
            nonce = b"CurveZMQREADY---" + number
            told = check_metadata(_opened(data[_NUMBER.size :], nonce, self._shared), PULL)
            self._records = agreed(told, self._shared, self.as_server)
            self.ready = True
            return None
        raise refusal_by_peer(name, data)

    def _initiate(self, welcome: bytes) -> bytes:
        nonce = b"WELCOME-" + welcome[:16]
        try:
            opened = crypto_box_open(welcome[16:], nonce, self._server, self._short_secret)
        except CryptoError as error:
            raise ProtocolError("the other side has other keys") from error
        short_server, cookie = opened[:CURVE_KEY_BYTES], opened[CURVE_KEY_BYTES:]
        self._agree(short_server)
        vouch_nonce = os.urandom(16)
        vouch = crypto_box(
            self._short_public + self._server, b"VOUCH---" + vouch_nonce, short_server, self._secret
        )
        number = self._next_number()
        told = self._public + vouch_nonce + vouch + metadata(PUSH, OFFER)
        box = crypto_box_afternm(told, b"CurveZMQINITIATE" + number, self._shared)
        return command(b"INITIATE", cookie + number + box)


class ServerMechanism(_Curve):
    """The side that accepts: it lets only those in whose key it knows."""

    def __init__(self, keys: CurveKeys, names: Callable[[bytes], str | None]) -> None:
        """`names` gives the node that a public key (Z85) belongs to."""
        super().__init__(as_server=True)
        self._secret = _octets(keys.secret)
        self._public = _octets(keys.public)
        self._names = names
        self._short_client = b""
        # The RFC lets a server keep its state in it; here the connection has it, and this is a mere token.
        self._cookie = os.urandom(_COOKIE_BYTES)

    def begin(self) -> bytes | None:
        return None

    @property
    def introduced(self) -> bool:
        return bool(self._short_client)

    def answer(self, body: bytes) -> bytes | None:
        name, data = split_command(body)
        if name == b"HELLO" and not self._short_client and len(data) == 194:
            return self._welcome(data)
        if name == b"INITIATE" and self._short_client and len(data) > _COOKIE_BYTES + _NUMBER.size:
            return self._let_in(data)
        raise refusal_by_peer(name, data)

    def _welcome(self, hello: bytes) -> bytes:
        short_client, number = hello[74:106], self._greater_number(hello[106:114])
        try:
            crypto_box_open(hello[114:], b"CurveZMQHELLO---" + number, short_client, self._secret)
        except CryptoError as error:
            raise ProtocolError("the other side takes this node for one with another key") from error
        self._short_client = short_client
        nonce = os.urandom(16)
        told = self._short_public + self._cookie
        return command(b"WELCOME", nonce + crypto_box(told, b"WELCOME-" + nonce, short_client, self._secret))

    def _let_in(self, initiate: bytes) -> bytes:
        if not hmac.compare_digest(initiate[:_COOKIE_BYTES], self._cookie):
            raise ProtocolError("another cookie than the one that was given")
        self._agree(self._short_client)
        number = self._greater_number(initiate[_COOKIE_BYTES : _COOKIE_BYTES + _NUMBER.size])
        box = initiate[_COOKIE_BYTES + _NUMBER.size :]
        told = _opened(box, b"CurveZMQINITIATE" + number, self._shared)
        client, vouch_nonce, vouch = told[:32], told[32:48], told[48:128]
        try:
            vouched = crypto_box_open(vouch, b"VOUCH---" + vouch_nonce, client, self._short_secret)
        except CryptoError as error:
            raise ProtocolError("the other side does not have the key that it names") from error
        if not hmac.compare_digest(vouched, self._short_client + self._public):
            raise ProtocolError("the other side vouches for another connection")
        self.user = self._names(_z85(client))
        if self.user is None:
            raise StrangerError("the key is unknown")
        self._records = agreed(check_metadata(told[128:], PUSH), self._shared, self.as_server)
        self.ready = True
        number = self._next_number()
        box = crypto_box_afternm(metadata(PULL, OFFER), b"CurveZMQREADY---" + number, self._shared)
        return command(b"READY", number + box)


def _opened(box: bytes, nonce: bytes, shared: bytes) -> bytes:
    try:
        return crypto_box_open_afternm(box, nonce, shared)
    except CryptoError as error:
        raise ProtocolError("a command that was not encrypted for this connection") from error
