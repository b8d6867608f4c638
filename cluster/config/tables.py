"""Tables of the configuration that concern who may connect: users, and the TLS port."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from cluster.catalog.access.passwords import PasswordHash

PathField = Annotated[Path, Strict(False)]


class ConfigError(Exception):
    """A configuration that cannot be used. The text has a line for each mistake: key path, value, remedy."""


class Section(BaseModel):
    """A table of the file. Unknown keys are errors, since a misspelt limit would otherwise be no limit.

    Values must have the right TOML type: no text for a number, no boolean for one either.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class UserSettings(Section):
    """A user whom a new cluster begins with. Exactly one of the first two keys."""

    password_hash: str | None = Field(
        default=None, repr=False, description="Hash that `quorate hash-password` printed."
    )
    password_file: PathField | None = Field(
        default=None,
        description="File with the password in plain text in its first line; no other account may be "
        "able to read it.",
    )
    tags: tuple[Literal["administrator", "monitoring", "policymaker", "management", "impersonator"], ...] = (
        Field(
            default=("administrator",),
            strict=False,
            description="What the user may do over HTTP; an administrator may do everything.",
        )
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.password_hash is None) == (self.password_file is None):
            raise ValueError("set either password_hash or password_file")
        if self.password_hash is not None:
            PasswordHash.parse(self.password_hash)
        return self

    def hashed(self) -> PasswordHash:
        """The user's password hash; reads `password_file`. Raises `ConfigError` when it cannot be used."""
        if self.password_hash is not None:
            return PasswordHash.parse(self.password_hash)
        assert self.password_file is not None
        return PasswordHash.of(read_secret(self.password_file, "password"))


class Founder(NamedTuple):
    """A user whom a new cluster begins with."""

    password_hash: PasswordHash
    tags: tuple[str, ...]


class Strangers(Section):
    """Clients that have not logged in, and those that fail to. Protects a node from whoever can reach it."""

    connections: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="Connections to one node that are not open yet; further ones are closed.",
    )
    connections_per_address: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="The same from one address (from one /64 network with IPv6).",
    )
    failures: int = Field(
        default=30,
        ge=0,
        le=1_000_000,
        description="Failed logins and other failed negotiations within `window_s` after which an address "
        "is not listened to for `block_s`; 0: never.",
    )
    window_s: float = Field(
        default=60.0, gt=0, le=86_400, description="Seconds over which failures of an address are counted."
    )
    block_s: float = Field(
        default=60.0, gt=0, le=86_400, description="Seconds that an address is blocked for."
    )
    never_blocked: tuple[str, ...] = Field(
        default=("127.0.0.0/8", "::1/128"),
        strict=False,
        description="Networks whose addresses are never blocked, such as that of a proxy, or of all who come "
        "from behind one address. An address at which a client is logged in is not either.",
    )
    pause_s: float = Field(
        default=3.0,
        ge=0,
        le=60,
        description="Seconds between a failed negotiation and the closing of the connection.",
    )

    @model_validator(mode="after")
    def _are_networks(self) -> Self:
        for network in self.never_blocked:
            ip_network(network)
        return self


class TlsSettings(Section):
    """The port for clients that speak TLS; there is none without this table.

    The files are read again when they change, and on SIGHUP, for connections made from then on.
    """

    certificate: PathField = Field(
        description="File with the node's certificate and those between it and the root, in PEM."
    )
    key: PathField = Field(
        description="File with the certificate's private key, in PEM, not encrypted; not every account may "
        "be able to read it."
    )
    ca: PathField | None = Field(
        default=None, description="File with the certificates that sign those of clients, in PEM."
    )
    verify: Literal["none", "optional", "required"] = Field(
        default="none",
        description="Whether clients are asked for a certificate signed by `ca`, and may or must show one.",
    )
    minimum_version: Literal["1.2", "1.3"] = Field(
        default="1.2", description="The oldest version of TLS that is spoken."
    )
    user_from: Literal["common_name", "distinguished_name", "san_dns", "san_email", "san_uri"] = Field(
        default="common_name",
        description="What in a client's certificate is the name of the user, for clients that log in with "
        "SASL EXTERNAL. A certificate with several common names names nobody; of alternative names of one "
        "kind the first counts.",
    )

    @model_validator(mode="after")
    def _verifiable(self) -> Self:
        if self.verify != "none" and self.ca is None:
            raise ValueError(f'ca is missing: verify is "{self.verify}", and nothing says whom to trust')
        return self


class TraceSettings(Section):
    """OpenTelemetry traces of messages that their publishers trace; without this table there are none."""

    endpoint: str = Field(
        pattern=r"^https?://[^/]+/.+",
        description="URL to which spans are sent, OTLP over HTTP: of a collector on the same machine "
        "`http://127.0.0.1:4318/v1/traces`.",
    )
    sample_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of the sampled traces of publishers for which this node records spans, by the "
        "trace's id: the same on every node, or traces have gaps.",
    )


class LogSettings(Section):
    """Where the node logs to."""

    file: PathField | None = Field(
        default=None,
        description="File to which the log goes, with all else that the node writes to standard error; "
        "without it to standard error.",
    )
    file_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=4096,
        le=1 << 40,
        description="Octets from which on the file is set aside as `FILE.1`, and a new one begun.",
    )
    files_kept: int = Field(
        default=4, ge=1, le=1000, description="Files set aside that are kept: `FILE.1`, the newest, and on."
    )


def read_secret(path: Path, what: str) -> str:
    """The first line of a file that only its owner may read; raises `ConfigError`."""
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read the {what}: {error}") from error
    if mode & 0o077:
        raise ConfigError(f"{path}: the {what} can be read by other accounts: chmod 600 {path}")
    if not lines or not lines[0]:
        raise ConfigError(f"{path}: the first line must be the {what}")
    return lines[0]


class ResourceAlarms(Section):
    """When publishers are held back: while any node of the cluster is short of memory or disk, clients that
    publish are not read from, and are told so (`connection.blocked`; `channel.flow` where a client does not
    know that). Consumers are not disturbed.
    """

    memory_high_watermark: float = Field(
        default=0.6,
        gt=0,
        le=1,
        description="Share of the machine's memory (in a container, of what that may have) that a node may "
        "take before its alarm goes off.",
    )
    memory_high_watermark_bytes: int = Field(
        default=0,
        ge=0,
        le=1 << 50,
        description="The same in octets, which counts instead of the share if it is not 0.",
    )
    disk_free_limit_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=0,
        le=1 << 60,
        description="Octets that must be free where the data directory is.",
    )
