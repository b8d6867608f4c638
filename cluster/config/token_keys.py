"""The keys that sign access tokens, read again when their files change.

A key is for the algorithms of its own kind alone. So a token cannot choose to have a public key used as the
secret of an HMAC, whose value everyone knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from cluster.config.tables import ConfigError, read_secret
from cluster.config.token_settings import TokenKeyFiles
from cluster.config.watched_files import WatchedFiles

LEAST_RSA_BITS: Final = 2048
LEAST_SECRET_OCTETS: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The least octets of a secret for each algorithm (RFC 7518, section 3.2)."""

LARGEST_FILE: Final = 1024 * 1024
"""Octets of a file of keys."""

_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_PUBLIC_KINDS: Final = ("RSA", "EC", "OKP")
"""The values of `kty` (RFC 7518, RFC 8037) of keys that may be published."""


class TokenKey(NamedTuple):
    """A key, and the algorithms that it may be used with."""

    key: Any
    algorithms: frozenset[str]


class TokenKeys:
    """The keys by their ids. Raises ConfigError for files that cannot be used."""

    def __init__(self, files: TokenKeyFiles) -> None:
        self._files = files
        paths = (files.jwks, *files.public_keys.values(), *files.secrets.values())
        self.files = WatchedFiles("node.tokens", [path for path in paths if path is not None])
        self._keys: dict[str, TokenKey] = {}
        self.reload()

    def find(self, key_id: str | None) -> TokenKey | None:
        """The key of this id; without an id the only key, if there is one alone."""
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    def reload(self) -> None:
        """Read the files again, for log-ins from now on. Raises ConfigError, and keeps the keys then."""
        self.files.note()
        keys: dict[str, TokenKey] = {}
        for key_id, key in self._read():
            if key_id in keys:
                raise ConfigError(f'node.tokens: two keys have the id "{key_id}"')
            keys[key_id] = key
        if not keys:
            raise ConfigError("node.tokens: the files have no key that signs tokens")
        self._keys = keys

    def _read(self) -> Iterator[tuple[str, TokenKey]]:
        files = self._files
        for key_id, path in files.secrets.items():
            yield key_id, _secret(path)
        for key_id, path in files.public_keys.items():
            yield key_id, _in_pem(path)
        if files.jwks is not None:
            yield from _in_set(files.jwks)


def _secret(path: Path) -> TokenKey:
    secret = read_secret(path, "secret of tokens").encode()
    algorithms = frozenset(name for name, least in LEAST_SECRET_OCTETS.items() if len(secret) >= least)
    if not algorithms:
        raise ConfigError(f"{path}: the secret of tokens has less than 32 octets")
    return TokenKey(secret, algorithms)


def _in_pem(path: Path) -> TokenKey:
    try:
        key = load_pem_public_key(_octets(path))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: no public key in PEM: {error}") from error
    algorithms = _algorithms_of(key)
    if not algorithms:
        raise ConfigError(f"{path}: {_MISFIT}")
    return TokenKey(key, algorithms)


def _in_set(path: Path) -> Iterator[tuple[str, TokenKey]]:
    """The keys of a JSON Web Key Set that sign tokens. Others, for encryption, are left out."""
    try:
        keys = json.loads(_octets(path))["keys"]
        rows = [dict(one) for one in keys]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: no JSON Web Key Set: {type(error).__name__}") from error
    for row in rows:
        kind, key_id = row.get("kty"), row.get("kid", "")
        if kind == "oct":
            raise ConfigError(f"{path}: a secret stands among public keys: use node.tokens.secrets")
        if kind not in _PUBLIC_KINDS or row.get("use", "sig") != "sig":
            continue
        if not isinstance(key_id, str):
            raise ConfigError(f"{path}: a key has an id that is no text")
        key = _jwk(path, row)
        if key is not None:
            yield key_id, key


def _jwk(path: Path, row: dict[str, Any]) -> TokenKey | None:
    """One key of a set; None for a key of a kind or a curve that nodes do not take."""
    try:
        key = PyJWK.from_dict({name: value for name, value in row.items() if name != "alg"}).key
    except (PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: the key {row.get('kid', '')!r} cannot be used: {error}") from error
    algorithms = _algorithms_of(key)
    if "alg" in row:
        algorithms = frozenset(one for one in algorithms if one == row["alg"])
    return TokenKey(key, algorithms) if algorithms else None


_MISFIT: Final = "the key is neither RSA of 2048 bits or more, nor Ed25519, nor on P-256, P-384 or P-521"


def _algorithms_of(key: Any) -> frozenset[str]:
    """The algorithms that a public key is for; none for one that nodes do not take."""
    if isinstance(key, RSAPublicKey) and key.key_size >= LEAST_RSA_BITS:
        return _RSA
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return frozenset({_CURVES[key.curve.name]})
    return frozenset({"EdDSA"}) if isinstance(key, Ed25519PublicKey) else frozenset()


def _octets(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the keys of tokens: {error.strerror}") from error
    if len(found) > LARGEST_FILE:
        raise ConfigError(f"{path}: a file of keys has {LARGEST_FILE} octets at most")
    return found
