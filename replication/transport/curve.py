"""CURVE keys of nodes, and the gate that lets only the nodes of the cluster in.

libzmq's CURVE alone admits every client that knows the server's public key, so each connection is
put to an authentication handler (ZAP, https://rfc.zeromq.org/spec/27/) that knows the nodes' keys.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

from replication.transport.sockets import Context, int_option

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_DOMAIN = "quorate"


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
        key = _checked(secret, "secret key")
        return cls(zmq.curve_public(key), key)

    @classmethod
    def generate(cls) -> CurveKeys:
        """A new pair from the system's randomness."""
        public, secret = zmq.curve_keypair()
        return cls(public, secret)


def public_key(text: str) -> bytes:
    """A checked public key; raises `InvalidKeyError`."""
    return _checked(text, "public key")


def _checked(text: str, what: str) -> bytes:
    key = text.strip().encode("ascii", "backslashreplace")
    try:
        if len(key) == 40 and len(z85.decode(key)) == 32:
            return key
    except (KeyError, struct.error):
        pass
    raise InvalidKeyError(f"{what} must be 40 characters of Z85, as `quorate keygen` prints them")


class Gate:
    """Answers ZAP requests: a connection is named after the node whose public key it proved to own."""

    def __init__(self, context: Context) -> None:
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind(ZAP_ENDPOINT)
        self._names: dict[bytes, bytes] = {}
        self.refused = 0

    @property
    def fd(self) -> int:
        return int_option(self._socket, zmq.FD)

    def admit(self, key: bytes, name: str) -> None:
        """Let connections with the public key `key` (Z85) in, as node `name`."""
        self._names[z85.decode(key)] = name.encode()

    def expel(self, name: str) -> None:
        """Refuse further connections of node `name`."""
        encoded = name.encode()
        self._names = {key: other for key, other in self._names.items() if other != encoded}

    def answer(self) -> None:
        """Answer every waiting request; called when `fd` becomes readable."""
        while not self._socket.closed and int_option(self._socket, zmq.EVENTS) & zmq.POLLIN:
            frames = self._socket.recv_multipart()
            split = frames.index(b"") + 1
            self._socket.send_multipart(frames[:split] + self._decide(frames[split:]))

    def _decide(self, request: list[bytes]) -> list[bytes]:
        version, request_id = request[0], request[1]
        mechanism, credentials = request[5], request[6:]
        name = self._names.get(credentials[0]) if mechanism == b"CURVE" and credentials else None
        if name is None:
            self.refused += 1
            return [version, request_id, b"400", b"unknown key", b"", b""]
        return [version, request_id, b"200", b"OK", name, b""]

    def close(self) -> None:
        self._socket.close(linger=0)
