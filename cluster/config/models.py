"""Configuration of a node and of the cluster: TOML into frozen models.

A file has two tables: `[node]` is this process's own (`NodeConfig`), `[cluster]` must read the same
on every node (`ClusterConfig`). docs/configuration.md is generated from the field descriptions here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from cluster.config.addresses import Address, AddressField
from cluster.config.container_links import ContainerLinkSettings, Text
from cluster.config.declared_queues import DeclaredQueueSettings
from cluster.config.environment import overlay
from cluster.config.formats import FORMAT_LEVEL
from cluster.config.http_settings import HttpSettings
from cluster.config.limits import GIB, KIB, MIB, ClientLimits
from cluster.config.passwords import PasswordHash
from cluster.config.tables import (
    ConfigError,
    Founder,
    LogSettings,
    PathField,
    ResourceAlarms,
    Section,
    Strangers,
    TlsSettings,
    TraceSettings,
    UserSettings,
    read_secret,
)
from cluster.config.token_settings import TokenKeyFiles, TokenSettings
from node.queue.placement_arguments import NAME_PATTERN
from replication.transport import CurveKeys, InvalidKeyError, public_key

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
QueueType = Literal["quorum", "classic"]
ServerProduct = Literal["RabbitMQ", "quorate"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Replication(Section):
    """Timing and flow control of the Raft groups."""

    election_timeout_ms: int = Field(
        default=1000,
        ge=50,
        le=60_000,
        description="Milliseconds without a message from the leader after which another node stands for "
        "election. A leader whose connection breaks is suspected at once; the timeout is for one that hangs.",
    )
    heartbeat_interval_ms: int = Field(
        default=100,
        ge=5,
        le=20_000,
        description="Milliseconds between a leader's heartbeats. At most a third of `election_timeout_ms`.",
    )
    clock_drift_percent: int = Field(
        default=10,
        ge=0,
        le=25,
        description="How much faster or slower than true time a node's clock (CLOCK_BOOTTIME) may run, in "
        "percent. Leases rest on this limit: with a worse clock, clients may read outdated state.",
    )
    max_append_bytes: int = Field(
        default=1 * MIB, ge=4 * KIB, le=64 * MIB, description="Octets of entries sent in one append message."
    )
    max_inflight_bytes: int = Field(
        default=8 * MIB,
        ge=4 * KIB,
        le=GIB,
        description="Octets of entries sent to one follower that it has not acknowledged.",
    )

    @model_validator(mode="after")
    def _heartbeats_fit(self) -> Self:
        if self.heartbeat_interval_ms * 3 > self.election_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be at most a third of "
                f"election_timeout_ms ({self.election_timeout_ms})"
            )
        return self


class JournalSettings(Section):
    """The journal that the partitions of a node share."""

    segment_bytes: int = Field(
        default=64 * MIB, ge=MIB, le=4 * GIB, description="Size of one segment file, in octets; preallocated."
    )
    cache_bytes: int = Field(
        default=128 * MIB,
        ge=0,
        le=256 * GIB,
        description="Memory for recent entries, in octets, over all partitions of a node. "
        "Older messages are read back from disk.",
    )
    snapshot_bytes: int = Field(
        default=64 * MIB,
        ge=64 * KIB,
        le=64 * GIB,
        description="Octets of a partition's log, new or dead, after which the node takes a snapshot of the "
        "partition; more where the last snapshot has more octets.",
    )


class Member(Section):
    """The addresses of a node for the other nodes and for clients."""

    peers: AddressField = Field(description="host:port where the other nodes reach it.")
    amqp: AddressField = Field(description="host:port where AMQP clients reach it.")
    http: AddressField = Field(description="host:port of its health, metrics and status pages.")
    public_key: str | None = Field(
        default=None,
        description="Its CURVE public key (40 characters), printed by `quorate keygen`. All nodes must have "
        "one to start.",
    )

    @model_validator(mode="after")
    def _key_is_valid(self) -> Self:
        if self.public_key is not None:
            public_key(self.public_key)
        return self


class ClusterConfig(Section):
    """The settings that must read the same on every node."""

    name: Name = Field(
        default="quorate", description="Name of the cluster. Nodes drop what a node of another cluster sends."
    )
    nodes: dict[Name, Member] = Field(
        min_length=1,
        description="The nodes that found the cluster, by name; in the file of a node that joins later, some "
        "nodes that it asks. Once the cluster is founded, its catalog lists the members (`quorate cluster`).",
    )
    default_queue_type: QueueType = Field(
        default="quorum",
        description='Type of a durable queue declared without `x-queue-type`: "quorum" is replicated on '
        'three nodes, "classic" lives on one.',
    )
    auto_delete_after_s: float = Field(
        default=0.0,
        ge=0.0,
        description="Seconds that an auto-delete queue waits for another consumer when its last one is gone. "
        "With 0, as on RabbitMQ, the queue is gone when the client that ended its last consumer is answered.",
    )
    epoch_timeout_s: float = Field(
        default=3600.0,
        ge=1.0,
        le=7 * 86400.0,
        description="Seconds that the branches of an epoch of a sink wait for a decision, from the last one "
        "on. Then the epoch is dropped, with a log event.",
    )
    take_timeout_s: float = Field(
        default=3600.0,
        ge=1.0,
        le=7 * 86400.0,
        description="Seconds that a queue holds the takes of a reader of which the queue's owner hears "
        "nothing. Then the takes end, with a log event, and their messages are ready again.",
    )
    reader_max_lag_octets: int = Field(
        default=1 << 30,
        ge=1,
        le=1 << 50,
        description="How far a reader of a stream may be behind before retention passes it, in octets of the "
        "stream's log, where the reader states no limit of its own.",
    )
    server_product: ServerProduct = Field(
        default="RabbitMQ",
        description="The product name that nodes give clients of AMQP 0-9-1. Some clients read the protocol "
        'by that name: Celery, told "quorate", would get no more tasks while some wait for their time.',
    )
    amqp10_product: ServerProduct = Field(
        default="RabbitMQ",
        description="The product name that nodes give clients of AMQP 1.0. RabbitMQ's client libraries of "
        "AMQP 1.0 talk to no other product.",
    )
    amqp10_redirects: bool = Field(
        default=False,
        description="Refuse a link of AMQP 1.0 to a queue that another node owns, and tell the client the "
        "address of that node (`amqp:link:redirect`). The address is the node's `amqp` in `cluster.nodes`, "
        "which clients must reach. Without it, any node serves any queue.",
    )
    formats: int = Field(
        default=FORMAT_LEVEL,
        ge=0,
        le=FORMAT_LEVEL,
        description="The newest formats that nodes write to each other and into their logs, once all members "
        "can read them. While it is the number of the last release, an upgrade can be taken back.",
    )
    users: dict[Annotated[str, StringConstraints(min_length=1, max_length=255)], UserSettings] = Field(
        default_factory=dict,
        description="The users that a new cluster begins with, by name, each with every permission in the "
        "virtual host `/`. If the table names none, the cluster has the user `guest` with password `guest`, "
        "and nodes listen on loopback only. Nodes read the table when the cluster is founded: from then on "
        "users are in its catalog, and are changed there (`quorate users`).",
    )
    loopback_users: tuple[str, ...] = Field(
        default=("guest",),
        strict=False,
        description="Users who may only log in from the node's own machine.",
    )
    anonymous_user: Annotated[str, StringConstraints(max_length=255)] = Field(
        default="",
        description="The user as whom AMQP clients come in that log in with SASL ANONYMOUS, without a "
        "password: grant this user only what every client that reaches the port may do. Empty: nodes do not "
        "offer ANONYMOUS.",
    )
    scram: bool = Field(
        default=False,
        description="Keep SCRAM-SHA-256 verifiers of passwords that are set from now on beside the hashes, "
        "and offer the mechanism over AMQP 1.0. A thief of the catalog tests passwords faster on verifiers "
        "than on hashes.",
    )
    tokens: TokenSettings | None = None
    links: dict[Name, ContainerLinkSettings] = Field(
        default_factory=dict,
        max_length=64,
        description="Links that nodes attach to clients' containers over AMQP 1.0, by name; at most 64.",
    )
    queues: dict[Text, DeclaredQueueSettings] = Field(
        default_factory=dict,
        max_length=10_000,
        description="Queues that each node declares when it starts, by name; at most 10,000.",
    )
    limits: ClientLimits = ClientLimits()
    alarms: ResourceAlarms = ResourceAlarms()
    strangers: Strangers = Strangers()
    replication: Replication = Replication()
    journal: JournalSettings = JournalSettings()

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        keyless = sorted(name for name, member in self.nodes.items() if member.public_key is None)
        if keyless and len(keyless) < len(self.nodes):
            raise ValueError(f"nodes.{keyless[0]}.public_key is missing: either all nodes have one or none")
        return self

    @property
    def encrypted(self) -> bool:
        """Whether nodes authenticate each other, and encrypt the messages between them."""
        return all(member.public_key is not None for member in self.nodes.values())

    def founders(self) -> dict[str, Founder]:
        """The users that a new cluster begins with; the default user alone when none is configured.

        Hashes passwords, which takes some 50 ms each. Raises `ConfigError`.
        """
        if not self.users:
            return {"guest": Founder(PasswordHash.of("guest", self.scram), ("administrator",))}
        return {name: Founder(user.hashed(self.scram), user.tags) for name, user in self.users.items()}


class Listen(Section):
    """The addresses on which the node listens."""

    amqp: AddressField = Field(default=Address("127.0.0.1", 5672), description="host:port for AMQP clients.")
    amqps: AddressField = Field(
        default=Address("127.0.0.1", 5671),
        description="host:port for AMQP clients that speak TLS; only with a table `[node.tls]`.",
    )
    http: AddressField = Field(
        default=Address("127.0.0.1", 15672), description="host:port for health, metrics and status."
    )
    https: AddressField | None = Field(
        default=None,
        description="host:port for the same over TLS, with the certificate of the table `[node.tls]`; "
        "without this key the node has no such port.",
    )
    peers: AddressField = Field(
        default=Address("127.0.0.1", 25672), description="host:port for the other nodes."
    )


class NodeConfig(Section):
    """The settings of one process."""

    name: Name = Field(
        description="Name of this node, which identifies it whatever its addresses: a key of "
        "`cluster.nodes`, unless the node joins a cluster that exists (`node.advertised`)."
    )
    data_dir: PathField = Field(
        description="Directory of its journal, taken from the current directory when relative. "
        "Created when absent, readable by its owner only."
    )
    archive_directory: PathField | None = Field(
        default=None,
        description="Directory in which segments of the journal are kept before their files are used again, "
        "in `NAME/journal` for the node of that name ([pipeline.md](pipeline.md#archives)). Without it no "
        "segment is kept.",
    )
    archive_max_age_s: float = Field(
        default=7 * 86400.0,
        ge=0,
        description="Seconds that a segment stays in the archive, from its last record on; 0: for ever.",
    )
    archive_max_bytes: int = Field(
        default=64 * GIB,
        ge=0,
        description="Octets of the archive above which the oldest segments leave it; 0: no limit.",
    )
    archive_waiting_bytes: int = Field(
        default=GIB,
        ge=0,
        description="Octets of segments that the journal keeps while the archive does not take them. Above "
        "this the oldest are used again without an archive, with a log event.",
    )
    domains: tuple[Name, ...] = Field(
        default=(),
        strict=False,
        max_length=16,
        description="Names of the domains, groups of nodes, to which this node belongs; at most 16. The "
        "replicas and the consumers of a queue with the argument `x-domain` are on the nodes of that domain "
        "alone ([queues.md](queues.md#domains-of-nodes)).",
    )
    log_level: LogLevel = Field(default="info", description="The least serious events that are logged.")
    time_slice_us: int = Field(
        default=100,
        ge=0,
        le=100_000,
        description="Microseconds that Linux (6.12 or newer) should run the node for at a time; 0: at will.",
    )
    secret_key_file: PathField | None = Field(
        default=None,
        description="File with the node's CURVE secret key, written by `quorate keygen`; without a key the "
        "node does not start. `quorate up` writes a key for each of its nodes.",
    )
    listen: Listen = Listen()
    advertised: Member | None = Field(
        default=None,
        description="Addresses at which others reach this node, if they are not those in `cluster.nodes`. A "
        "node that is not in `cluster.nodes` needs this table: it joins once `quorate cluster add` has run.",
    )
    tls: TlsSettings | None = None
    tokens: TokenKeyFiles | None = None
    http: HttpSettings = HttpSettings()
    traces: TraceSettings | None = None
    log: LogSettings = LogSettings()
    cluster: ClusterConfig

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.joins and self.advertised is None:
            known = ", ".join(sorted(self.cluster.nodes))
            raise ValueError(
                f'name "{self.name}" is not among cluster.nodes ({known}): '
                "correct it, or set node.advertised for a node that joins"
            )
        if self.cluster.encrypted and self.secret_key_file is None:
            raise ValueError("secret_key_file is missing, but cluster.nodes have public keys")
        if not self.cluster.encrypted and self.secret_key_file is not None:
            raise ValueError("secret_key_file is set, but cluster.nodes have no public_key")
        if (self.tokens is None) != (self.cluster.tokens is None):
            raise ValueError("[cluster.tokens] and [node.tokens] belong together: set both tables or none")
        return self

    @model_validator(mode="after")
    def _safe_listeners(self) -> Self:
        listen = self.listen
        open_to_clients = {"amqp": listen.amqp, "http": listen.http}
        if self.tls is not None:
            open_to_clients["amqps"] = listen.amqps
        if listen.https is not None:
            if self.tls is None:
                raise ValueError("listen.https is set, but there is no table [node.tls] with a certificate")
            open_to_clients["https"] = listen.https
        for key, address in open_to_clients.items():
            if not address.is_loopback and not self.cluster.users:
                raise ValueError(
                    f'listen.{key} "{address}" is open to other machines while guest/guest is the only '
                    "user: add a user under [cluster.users], or listen on 127.0.0.1"
                )
        if not self.listen.peers.is_loopback and not self.cluster.encrypted:
            raise ValueError(
                f'listen.peers "{self.listen.peers}" is open to other machines without keys: give every '
                "node a public_key and a secret_key_file (`quorate keygen`), or listen on 127.0.0.1"
            )
        return self

    @property
    def joins(self) -> bool:
        """Whether this node joins a cluster that other nodes have founded."""
        return self.name not in self.cluster.nodes

    @property
    def own(self) -> Member:
        """The addresses at which others reach this node."""
        return self.advertised or self.cluster.nodes[self.name]

    def curve_keys(self) -> CurveKeys:
        """This node's key pair, read from `secret_key_file`; raises `ConfigError` if it is not usable.

        A node does not run without keys: any process that reaches the port for peers could speak in the name
        of any node.
        """
        if self.secret_key_file is None:
            raise ConfigError(
                "node.secret_key_file: missing: nodes prove to each other who they are. Run `quorate keygen "
                "FILE` for each node, set its node.secret_key_file to FILE, and on all nodes "
                "cluster.nodes.NAME.public_key to what it printed"
            )
        try:
            keys = CurveKeys.from_secret(read_secret(self.secret_key_file, "secret key"))
        except InvalidKeyError as error:
            raise ConfigError(f"node.secret_key_file {self.secret_key_file}: {error}") from None
        if self.own.public_key not in (keys.public.decode(), None):
            where = f"cluster.nodes.{self.name}" if self.advertised is None else "node.advertised"
            raise ConfigError(
                f"node.secret_key_file {self.secret_key_file}: belongs to another public key than "
                f"{where}.public_key"
            )
        return keys


# -- reading ------------------------------------------------------------------------------------


NO_ENVIRONMENT: Final[Mapping[str, str]] = {}


def load(path: Path, environment: Mapping[str, str] = NO_ENVIRONMENT) -> NodeConfig:
    """Read a node's configuration file; raises `ConfigError`. Relative paths in it stay as they are.

    Values in `environment` (`cluster.config.environment`) count more than those in the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path), environment)


def parse(text: str, source: str, environment: Mapping[str, str] = NO_ENVIRONMENT) -> NodeConfig:
    """The configuration in a TOML text and in the environment's variables. Raises `ConfigError`.

    `source` names the text in errors.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from error
    unknown = sorted(set(tables) - {"node", "cluster"})
    if unknown:
        raise ConfigError(f"{source}: {unknown[0]}: unknown; a file has the tables [node] and [cluster]")
    origins = overlay(tables, environment, NodeConfig)
    for name in ("node", "cluster"):
        if not isinstance(tables.get(name), dict):
            raise ConfigError(f"{source}: the table [{name}] is missing")
    if "cluster" in tables["node"]:
        raise ConfigError(f"{source}: node.cluster: unknown key; [cluster] is a table of its own")
    return validate({**tables["node"], "cluster": tables["cluster"]}, source, origins)


def validate(
    values: Mapping[str, Any], source: str, origins: Mapping[str, str] = NO_ENVIRONMENT
) -> NodeConfig:
    """The node configuration made of `values`; raises `ConfigError` with every mistake in them.

    `origins` has the variables that values come from, by key path; the other values come from `source`.
    """
    try:
        return NodeConfig.model_validate(values)
    except ValidationError as error:
        lines = [f"{origins.get(_path(one), source)}: {_explain(one)}" for one in error.errors()]
        raise ConfigError("\n".join(lines)) from None


def _path(problem: Any) -> str:
    location = [str(part) for part in problem["loc"] if part != "[key]"]
    return ".".join(location if location[:1] == ["cluster"] else ["node", *location])


_SECRET = re.compile(r"password|secret")


def _explain(problem: Any) -> str:
    """One mistake as key path, value and remedy; never the value of a secret or of a whole table."""
    path = _path(problem)
    message = str(problem["msg"]).removeprefix("Value error, ")
    value = problem["input"]
    if problem["type"] == "extra_forbidden":
        return f"{path}: unknown key: correct or remove it (docs/configuration.md lists all keys)"
    if problem["type"] == "missing":
        return f"{path}: missing: set it (docs/configuration.md explains it)"
    if isinstance(value, Mapping | BaseModel) or _SECRET.search(path):
        return f"{path}: {message}"
    return f"{path}: {message}; the value is {value!r}"
