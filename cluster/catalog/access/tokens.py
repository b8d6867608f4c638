"""Checks access tokens: JSON Web Tokens (RFC 7519) of the issuer that the configuration names.

The signature is looked at first, by the key that the token names, and for an algorithm that the
configuration takes and that the key is for. Nothing in a token counts before that. A check takes some tenths
of a millisecond. The time comes from the caller. The texts of errors are for the log, and quote no token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from jwt import PyJWS
from jwt.exceptions import PyJWTError

from cluster.catalog.access.token_rights import MOST_SCOPES, TokenRights, TooManyScopesError, rights_and_tags
from cluster.config.token_keys import TokenKeys
from cluster.config.token_settings import TokenSettings
from node.session.ports import Identity

LARGEST_TOKEN: Final = 16 * 1024
"""Octets. A larger token is refused before anything in it is read."""

LATEST_TIME: Final = 1 << 53
"""Seconds since 1970; a later time in a token is a mistake."""

LONGEST_NAME: Final = 255
"""Octets of a user's name."""


class TokenError(Exception):
    """The token is refused; the client must not see the reason."""


class TokenChecks:
    """The checks of one node."""

    def __init__(self, settings: TokenSettings, keys: TokenKeys, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` tells the time of day."""
        self._settings = settings
        self._keys = keys
        self._wall_ms = wall_ms
        self._signatures = PyJWS()

    def recognises(self, password: str) -> bool:
        """Whether a password has the form of a token: three parts, the first of which begins with `{"`."""
        return password.startswith("eyJ") and password.count(".") == 2

    def identity(self, token: str) -> Identity:
        """The user whom the token names, with the rights and tags that it grants. Raises TokenError."""
        claims = self._claims(token)
        user = self._user(claims)
        lasts = self._lasts(user, claims)
        rights, tags = self._granted(user, claims)
        return Identity(user, tags, rights, lasts)

    # -- the signature --------------------------------------------------------------------------

    def _claims(self, token: str) -> dict[str, Any]:
        """The claims of a token whose signature is right. Raises TokenError."""
        if len(token) > LARGEST_TOKEN:
            raise TokenError("the token is too long")
        try:
            header = self._signatures.get_unverified_header(token)
            if "crit" in header or "b64" in header:
                raise TokenError("the token has extensions of RFC 7515 that the node does not know")
            algorithm, key = header.get("alg"), self._keys.find(header.get("kid"))
            if algorithm not in self._settings.algorithms:
                raise TokenError("the token's algorithm is none that the configuration takes")
            if key is None:
                raise TokenError("the token names no key that the node has")
            if algorithm not in key.algorithms:
                raise TokenError("the token's algorithm is none that its key is for")
            claims = json.loads(self._signatures.decode(token, key.key, [algorithm]))
        except (PyJWTError, ValueError, TypeError, RecursionError) as error:
            kind = type(error).__name__
            raise TokenError(f"the token is malformed, or its signature is wrong ({kind})") from None
        if not isinstance(claims, dict):
            raise TokenError("the token's claims are no object")
        return claims

    # -- the claims -----------------------------------------------------------------------------

    def _user(self, claims: dict[str, Any]) -> str:
        """The user's name, of a token that is from the issuer and for this cluster. Raises TokenError."""
        settings = self._settings
        if claims.get("iss") != settings.issuer:
            raise TokenError("the token is from another issuer")
        audience = claims.get("aud")
        if audience != settings.audience and not (
            isinstance(audience, list) and settings.audience in audience
        ):
            raise TokenError("the token is for another audience")
        name = next((claims[claim] for claim in settings.user_claims if claim in claims), None)
        if not isinstance(name, str) or not name or not name.isprintable():
            raise TokenError("the token has no name of a user in the claims that may hold one")
        if len(name.encode()) > LONGEST_NAME:
            raise TokenError("the token has too long a name of a user")
        return name

    def _lasts(self, user: str, claims: dict[str, Any]) -> float:
        """The seconds until the token ends. Raises TokenError where it does not count now."""
        now, skew = self._wall_ms() / 1000, self._settings.clock_skew_s
        if "nbf" in claims and _time(user, claims, "nbf") > now + skew:
            raise TokenError(f"user '{user}' - the token does not count yet")
        lasts = _time(user, claims, "exp") + skew - now
        if lasts <= 0:
            raise TokenError(f"user '{user}' - the token has expired")
        return lasts

    def _granted(self, user: str, claims: dict[str, Any]) -> tuple[TokenRights, tuple[str, ...]]:
        """The rights and the tags in the claims. Raises TokenError."""
        scopes = claims.get("scope", "")
        if isinstance(scopes, str):
            scopes = scopes.split(" ")
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise TokenError(f"user '{user}' - the token's scope is neither a text nor a list of texts")
        try:
            return rights_and_tags(scopes, self._settings.audience)
        except TooManyScopesError:
            raise TokenError(
                f"user '{user}' - the token has more than {MOST_SCOPES} scopes for the cluster"
            ) from None


def _time(user: str, claims: dict[str, Any], claim: str) -> float:
    """A time in the claims, in seconds since 1970. Raises TokenError."""
    value = claims.get(claim)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LATEST_TIME:
        raise TokenError(f"user '{user}' - the token has no time in its claim {claim}")
    return float(value)
