"""Encrypts messages once both sides of a CURVE connection have proved who they are.

CURVE's own box (XSalsa20 with Poly1305) is what every ZeroMQ understands. Two nodes of this release agree on
AES-256-GCM in the metadata of the handshake, which CURVE protects: processors have instructions for it, and
it is many times faster (docs/decisions/0017-keys-between-nodes.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.bindings import crypto_box_afternm, crypto_box_open_afternm
from nacl.exceptions import CryptoError

from replication.transport.zmtp.frames import ProtocolError
from replication.transport.zmtp.scratch import Scratch

OFFER: Final = {b"X-Records": b"AES-256-GCM"}
"""The property of either side's metadata; names that begin with X- are free to applications (ZMTP 3.1)."""

_FORGED: Final = "a message that was not encrypted for this connection"
_TAG_BYTES: Final = 16
"""By which a box with AES-GCM is longer than its octets."""
_NONCE_HEAD: Final = bytes(4)
"""Before the number of a message: it makes 12 octets, and no number is used twice under one key."""


class ZmtpRecords(Protocol):
    """Encrypts and decrypts the numbered frames of one connection, each with an octet of flags.

    Where a scratch is given, and has room, the octets of the result may lie in it.
    """

    def seal(
        self, number: bytes, flags: int, octets: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[bytes, bytes | memoryview]:
        """The octets behind the number, in two pieces: a frame is not copied to join it to its head."""

    def open(
        self, number: bytes, octets: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[int, bytes | memoryview]:
        """Flags and octets of a frame; raises ProtocolError for what the other side has not sealed under
        this number.
        """


class BoxRecords:
    """CURVE's own: the flags are the first octet within the box."""

    def __init__(self, shared: bytes, as_server: bool) -> None:
        self._shared = shared
        outward, inward = (b"S", b"C") if as_server else (b"C", b"S")
        self._outward, self._inward = b"CurveZMQMESSAGE" + outward, b"CurveZMQMESSAGE" + inward

    def seal(
        self, number: bytes, flags: int, octets: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[bytes, bytes | memoryview]:
        inner = b"".join((bytes((flags,)), octets))
        return b"", crypto_box_afternm(inner, self._outward + number, self._shared)

    def open(
        self, number: bytes, octets: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[int, bytes | memoryview]:
        """Raises ProtocolError."""
        try:
            inner = crypto_box_open_afternm(bytes(octets), self._inward + number, self._shared)
        except CryptoError as error:
            raise ProtocolError(_FORGED) from error
        if not inner:
            raise ProtocolError(_FORGED)
        return inner[0], inner[1:]


class GcmRecords:
    """AES-256-GCM (NIST SP 800-38D), with a key for each direction.

    The flags stand before the box, as associated data: in it they would cost each side a copy of the frame.
    """

    def __init__(self, shared: bytes, as_server: bool) -> None:
        outward, inward = (b"from server", b"from client") if as_server else (b"from client", b"from server")
        self._outward, self._inward = AESGCM(_key(shared, outward)), AESGCM(_key(shared, inward))

    def seal(
        self, number: bytes, flags: int, octets: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[bytes, bytes | memoryview]:
        head, nonce = bytes((flags,)), _NONCE_HEAD + number
        room = None if scratch is None else scratch.take(len(octets) + _TAG_BYTES)
        if room is None:
            return head, self._outward.encrypt(nonce, octets, head)
        self._outward.encrypt_into(nonce, octets, head, room)
        return head, room

    def open(
        self, number: bytes, octets: bytes | memoryview, scratch: Scratch | None = None
    ) -> tuple[int, bytes | memoryview]:
        """Raises ProtocolError."""
        head, nonce, box = bytes(octets[:1]), _NONCE_HEAD + number, memoryview(octets)[1:]
        size = len(box) - _TAG_BYTES
        if size < 0:
            raise ProtocolError(_FORGED)
        room = None if scratch is None else scratch.take(size)
        try:
            if room is None:
                return head[0], self._inward.decrypt(nonce, box, head)
            self._inward.decrypt_into(nonce, box, head, room)
        except InvalidTag as error:
            raise ProtocolError(_FORGED) from error
        return head[0], room


def agreed(told: Mapping[bytes, bytes], shared: bytes, as_server: bool) -> ZmtpRecords:
    """The records that both sides support; `told` is the other side's metadata, by names in lower case."""
    (name, cipher), *_ = OFFER.items()
    kind = GcmRecords if told.get(name.lower()) == cipher else BoxRecords
    return kind(shared, as_server)


def _key(shared: bytes, direction: bytes) -> bytes:
    return blake2b(direction, key=shared, person=b"quorate records", digest_size=32).digest()
