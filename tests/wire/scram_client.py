"""The client's side of SCRAM-SHA-256, written from RFC 5802 without the server's code."""

from __future__ import annotations

import base64
import hashlib
import hmac


def hi(password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hi of RFC 5802, section 2.2."""
    found = last = hmac.new(password, salt + b"\0\0\0\1", hashlib.sha256).digest()
    for _ in range(iterations - 1):
        last = hmac.new(password, last, hashlib.sha256).digest()
        found = xor(found, last)
    return found


def xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


class ScramClient:
    """One exchange. `gs2` is its GS2 header."""

    def __init__(
        self, user: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL", gs2: str = "n,,"
    ) -> None:
        self.gs2, self.nonce = gs2, nonce
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.password = password
        self.salt = b""
        self._signature = b""

    @property
    def first(self) -> bytes:
        return (self.gs2 + self.bare).encode()

    def final(self, challenge: bytes, extensions: str = "") -> bytes:
        """The client-final-message that answers a challenge."""
        nonce, salt, iterations = (part[2:] for part in challenge.decode().split(","))
        assert nonce.startswith(self.nonce) and len(nonce) > len(self.nonce)
        self.salt = base64.b64decode(salt)
        # The standard library's PBKDF2 is `hi`, which a test shows.
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), self.salt, int(iterations))
        client_key = hmac.new(salted, b"Client Key", hashlib.sha256).digest()
        server_key = hmac.new(salted, b"Server Key", hashlib.sha256).digest()
        binding = base64.b64encode(self.gs2.encode()).decode()
        without_proof = f"c={binding},r={nonce}{extensions}"
        authenticated = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        stored_key = hashlib.sha256(client_key).digest()
        proof = xor(client_key, hmac.new(stored_key, authenticated, hashlib.sha256).digest())
        self._signature = hmac.new(server_key, authenticated, hashlib.sha256).digest()
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def believes(self, final: bytes) -> bool:
        """Whether the server-final-message shows that the server knows the password's verifier."""
        return final == b"v=" + base64.b64encode(self._signature)
