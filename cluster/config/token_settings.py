"""Tables of the configuration for access tokens (OAuth 2)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cluster.config.tables import PathField, Section

Algorithm = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "HS256",
    "HS384",
    "HS512",
]
Claim = Annotated[str, StringConstraints(min_length=1, max_length=255)]
KeyId = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class TokenSettings(Section):
    """Access tokens (JSON Web Tokens) by which clients log in. Without this table nodes take none. Each node
    reads the keys that sign them from files: `[node.tokens]`.
    """

    issuer: Claim = Field(description="The issuer of the tokens, as it stands in their claim `iss`.")
    audience: Claim = Field(
        description="The name of the cluster for the issuer: tokens have it in their claim `aud`, and in "
        "front of each scope for the cluster (`quorate.read:*/*`). RabbitMQ calls it resource_server_id.",
    )
    algorithms: tuple[Algorithm, ...] = Field(
        default=("RS256", "ES256", "EdDSA"),
        strict=False,
        min_length=1,
        description="The algorithms of signatures that nodes take. Those in HS need a secret in "
        "`node.tokens.secrets`, which lets every node sign tokens as well.",
    )
    user_claims: tuple[str, ...] = Field(
        default=("sub", "client_id"),
        strict=False,
        min_length=1,
        description="The claims that may hold the name of the user: the first one that a token has counts.",
    )
    clock_skew_s: int = Field(
        default=10,
        ge=0,
        le=300,
        description="Seconds by which the clocks of the issuer and of the nodes may differ: for so long a "
        "token counts before its beginning, and after its end.",
    )


class TokenKeyFiles(Section):
    """The keys that sign access tokens, by key id. The node reads the files again when they change, and on
    SIGHUP. A token that names no key is taken where there is one key in all.
    """

    jwks: PathField | None = Field(
        default=None,
        description="File with public keys as the issuer publishes them (a JSON Web Key Set, RFC 7517).",
    )
    public_keys: dict[KeyId, PathField] = Field(
        default_factory=dict, description="Files with one public key each, in PEM, by key id."
    )
    secrets: dict[KeyId, PathField] = Field(
        default_factory=dict,
        description="Files with a secret each in the first line, of 32 octets or more, by key id, for the "
        "algorithms in HS (48 for HS384, 64 for HS512); no other account may be able to read them.",
    )

    @model_validator(mode="after")
    def _some_key(self) -> Self:
        if self.jwks is None and not self.public_keys and not self.secrets:
            raise ValueError("set jwks, public_keys or secrets: without a key no token can be checked")
        twice = sorted(self.public_keys.keys() & self.secrets.keys())
        if twice:
            raise ValueError(f'the key id "{twice[0]}" stands in public_keys and in secrets')
        return self
