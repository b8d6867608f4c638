"""An issuer of access tokens, with its keys and the files that nodes read them from."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER: Final = "https://login.example"
AUDIENCE: Final = "quorate"
SECRET: Final = "a secret that nodes and the issuer share, of many octets"
EVERYTHING: Final = "quorate.configure:*/* quorate.write:*/*/* quorate.read:*/*/*"


@cache
def private_key(algorithm: str) -> Any:
    """The issuer's key for an algorithm, by which the key is also called."""
    if algorithm.startswith(("RS", "PS")):
        return rsa.generate_private_key(65537, 2048)
    curves: dict[str, Any] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
    if algorithm in curves:
        return ec.generate_private_key(curves[algorithm]())
    return ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else SECRET


def pem(algorithm: str) -> bytes:
    """The public key in PEM."""
    public: bytes = (
        private_key(algorithm).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return public


def jwk(algorithm: str, **more: Any) -> dict[str, Any]:
    """The public key as the issuer publishes it."""
    makers: dict[str, Any] = {"RS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}
    made = makers[algorithm[:2]].to_jwk(private_key(algorithm).public_key(), as_dict=True)
    return {**made, "kid": algorithm, **more}


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a token of alice with all rights, for ten minutes; a change to None leaves one out."""
    whole = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600, "scope": EVERYTHING,
    } | changes  # fmt: skip
    return {name: value for name, value in whole.items() if value is not None}


def token(algorithm: str = "ES256", *, headers: dict[str, Any] | None = None, **changes: Any) -> str:
    """A token, signed by the key that is called like the algorithm."""
    signed = {"kid": algorithm, **(headers or {})}
    return jwt.PyJWS().encode(
        json.dumps(claims(**changes)).encode(), private_key(algorithm), algorithm, signed
    )


def write_keys(directory: Path, *algorithms: str) -> Path:
    """A file with the public keys for these algorithms."""
    path = directory / "jwks.json"
    path.write_text(json.dumps({"keys": [jwk(one) for one in algorithms or ("ES256",)]}))
    return path
