"""Tables of the configuration for users, clients that have not logged in, TLS, traces, logs and alarms."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from cluster.config.passwords import PasswordHash

PathField = Annotated[Path, Strict(False)]


class ConfigError(Exception):
    """A configuration that cannot be used. The text has a line for each mistake: key path, value, remedy."""


class Section(BaseModel):
    """A table of the file. An unknown key is an error: otherwise a misspelt limit would have no effect.

    Values must have the right TOML type: neither text nor a boolean stands for a number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class UserSettings(Section):
    """A user that a new cluster begins with. Set exactly one of the first two keys."""

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
            description="Permissions of the user over HTTP; an administrator may do everything.",
        )
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.password_hash is None) == (self.password_file is None):
            raise ValueError("set either password_hash or password_file")
        if self.password_hash is not None:
            PasswordHash.parse(self.password_hash)
        return self

    def hashed(self, scram: bool = False) -> PasswordHash:
        """The user's password hash, with `scram` and a `password_file` with a SCRAM verifier. Reads the file,
        and raises `ConfigError` if it cannot be used.
        """
        if self.password_hash is not None:
            return PasswordHash.parse(self.password_hash)
        assert self.password_file is not None
        return PasswordHash.of(read_secret(self.password_file, "password"), scram)


class Founder(NamedTuple):
    """A user that a new cluster begins with, the password hashed."""

    password_hash: PasswordHash
    tags: tuple[str, ...]


class Strangers(Section):
    """Limits for clients that have not logged in, and for those that fail to. They protect a node from any
    client that can reach it.
    """

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
        description="Connections that are not open yet from one address (from one /64 network with IPv6).",
    )
    failures: int = Field(
        default=30,
        ge=0,
        le=1_000_000,
        description="Failed logins and other failed negotiations within `window_s` after which an address "
        "is blocked for `block_s`; 0: never.",
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
        description="Networks whose addresses are never blocked, such as the network of a proxy, or of "
        "clients that share one address. An address at which a client is logged in is never blocked either.",
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
    """The port for clients that speak TLS, and TLS in place over AMQP 1.0; without this table the node has
    neither.

    The node reads the files again when they change, and on SIGHUP, for connections made from then on.
    """

    certificate: PathField = Field(
        description="File with the node's certificate and the intermediate certificates, in PEM."
    )
    key: PathField = Field(
        description="File with the certificate's private key, in PEM, not encrypted; the file may not be "
        "readable by every account."
    )
    ca: PathField | None = Field(
        default=None, description="File with the certificates that sign those of clients, in PEM."
    )
    verify: Literal["none", "optional", "required"] = Field(
        default="none",
        description="Whether the node asks clients for a certificate signed by `ca`: never, or clients may "
        "or must show one.",
    )
    minimum_version: Literal["1.2", "1.3"] = Field(
        default="1.2", description="The oldest version of TLS that is spoken."
    )
    user_from: Literal["common_name", "distinguished_name", "san_dns", "san_email", "san_uri"] = Field(
        default="common_name",
        description="The field of a client's certificate that holds the name of the user, for clients that "
        "log in with SASL EXTERNAL. A certificate with several common names names no user; of alternative "
        "names of one kind the first counts.",
    )

    @model_validator(mode="after")
    def _verifiable(self) -> Self:
        if self.verify != "none" and self.ca is None:
            raise ValueError(f'ca is missing: verify is "{self.verify}", which needs certificates to trust')
        return self


class TraceSettings(Section):
    """OpenTelemetry traces of messages that their publishers trace; without this table there are no
    traces.
    """

    endpoint: str = Field(
        pattern=r"^https?://[^/]+/.+",
        description="URL to which the node sends spans, OTLP over HTTP; for a collector on the same machine "
        "`http://127.0.0.1:4318/v1/traces`.",
    )
    sample_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of the publishers' sampled traces for which this node records spans, chosen by "
        "the trace's id. Set the same share on every node, or traces have gaps.",
    )


class LogSettings(Section):
    """The file of the node's log."""

    file: PathField | None = Field(
        default=None,
        description="File to which the node writes its log, and everything else that it would write to "
        "standard error; without it the log goes to standard error.",
    )
    file_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=4096,
        le=1 << 40,
        description="Octets of the file from which on the node renames it to `FILE.1` and begins a new one.",
    )
    files_kept: int = Field(
        default=4, ge=1, le=1000, description="Renamed files that are kept: `FILE.1`, the newest, and on."
    )


def read_secret(path: Path, secret: str) -> str:
    """The first line of the file at `path`, which only its owner may read; `secret` names it in errors.

    Raises `ConfigError` if the file cannot be read, is empty, or other accounts may read it.
    """
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read the {secret}: {error}") from error
    if mode & 0o077:
        raise ConfigError(f"{path}: the {secret} can be read by other accounts: chmod 600 {path}")
    if not lines or not lines[0]:
        raise ConfigError(f"{path}: the first line must be the {secret}")
    return lines[0]


class ResourceAlarms(Section):
    """When publishers are held back: while any node of the cluster is short of memory or disk, nodes do not
    read from clients that publish, and tell them so (`connection.blocked`; `channel.flow` to a client that
    does not know that method). Consumers go on.
    """

    memory_high_watermark: float = Field(
        default=0.6,
        gt=0,
        le=1,
        description="Share of the machine's memory (in a container, of the container's limit) that a node "
        "may take before its alarm goes off.",
    )
    memory_high_watermark_bytes: int = Field(
        default=0,
        ge=0,
        le=1 << 50,
        description="The same limit in octets; unless it is 0, it counts instead of the share.",
    )
    disk_free_limit_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=0,
        le=1 << 60,
        description="Octets that must be free on the file system of the data directory.",
    )
