"""Who may import whom: the design's table, enforced on the syntax trees."""

from __future__ import annotations

import ast

import pytest

from tests.structure.tree import FOLDERS, ROOT, Module, imports, modules, nodes, violations

ANYTHING = frozenset(FOLDERS)


def of_cluster(*packages: str) -> frozenset[str]:
    """Packages of the cluster, and what stands below all of them."""
    return frozenset({*(f"cluster.{package}" for package in packages), "node", "replication"})


MAY_IMPORT: dict[str, frozenset[str]] = {
    # Folders; what a folder says of itself goes without saying.
    "replication": frozenset(),
    "node": frozenset(),
    "cluster": frozenset({"node", "replication"}),
    "pipeline": frozenset(),
    "chaos": frozenset(),
    "bench": frozenset({"cluster", "node", "pipeline", "replication"}),
    "scripts": frozenset({"cluster", "node", "replication"}),
    "docs": frozenset(),
    "deploy": frozenset(),
    "tests": ANYTHING,
    # Finer rows, stricter than their folder: these parts could be published alone.
    "replication.raft": frozenset({"replication.raft"}),
    "replication.journal": frozenset(
        {"replication.journal", "replication.raft.types", "replication.raft.errors"}
    ),
    "replication.archive": frozenset({"replication.archive", "replication.journal"}),
    "replication.transport": frozenset({"replication.transport"}),
    "node.ranges": frozenset({"node.ranges"}),
    "node.refusal": frozenset({"node.refusal"}),
    "node.names": frozenset(),
    "node.type_names": frozenset(),
    # `node.delivery`, which protocols share, is below their machines and below sessions.
    "node.delivery": frozenset({"node.delivery", "node.ranges.range_set"}),
    # The interface of messages; the formats that implement it are on the wire's side.
    "node.message": frozenset({"node.message", "node.ranges"}),
    # Selectors ask messages for facts, and know no format.
    "node.expressions": frozenset({"node.expressions", "node.message"}),
    "node.wire": frozenset(
        {"node.wire", "node.delivery", "node.message", "node.names", "node.ranges", "node.refusal"}
    ),
    "node.routing": frozenset({"node.routing", "node.refusal", "node.type_names"}),
    "node.queue": frozenset(
        {
            "node.queue",
            "node.delivery.backlog",
            "node.delivery.link_terms",
            "node.delivery.settlements",
            "node.expressions",
            "node.message",
            "node.ranges",
            "node.refusal",
            "node.type_names",
            "node.wire.formats",
        }
    ),
    "node.session": frozenset(
        {
            "node.session",
            "node.delivery",
            "node.expressions",
            "node.message",
            "node.names",
            "node.ranges",
            "node.refusal",
            "node.routing",
            "node.type_names",
            "node.wire",
        }
    ),
    # The packages of the cluster, from the bottom.
    "cluster.system": frozenset({"cluster.system"}),
    "cluster.config": of_cluster("config", "system"),
    "cluster.log": of_cluster("log", "system"),
    "cluster.peers": of_cluster("peers"),
    # Users' rights are a part of the catalog's state; its members work on the state.
    "cluster.catalog.access": of_cluster("catalog.access", "config", "peers"),
    "cluster.catalog": of_cluster("catalog", "config", "peers"),
    "cluster.catalog.membership": of_cluster("catalog", "config", "peers"),
    "cluster.owner": of_cluster("owner", "peers"),
    # The two ends of a queue know of each other only what `peers` has.
    "cluster.gateway": of_cluster("gateway", "catalog", "config", "peers"),
    "cluster.broker": of_cluster("broker", "catalog", "config", "gateway", "owner", "peers"),
    "cluster.admin": of_cluster(
        "admin", "catalog", "config", "gateway", "log", "peers", "system", "owner", "broker"
    ),
    "cluster.process": of_cluster(
        "process",
        "admin",
        "broker",
        "catalog",
        "config",
        "gateway",
        "log",
        "owner",
        "peers",
        "system",
    ),
    "cluster.cli": of_cluster("cli", "catalog", "config", "log", "process", "system"),
    # The pipeline reads documented formats, and shares no code with the broker.
    "pipeline.octets": frozenset({"pipeline.octets"}),
    "pipeline.message": frozenset({"pipeline.message", "pipeline.octets"}),
    "pipeline.journal": frozenset({"pipeline.journal", "pipeline.message", "pipeline.octets"}),
    "pipeline.audit": frozenset(
        {"pipeline.audit", "pipeline.journal", "pipeline.message", "pipeline.octets"}
    ),
    "pipeline.options": frozenset(),
    "pipeline.arrow": frozenset(
        {"pipeline.arrow", "pipeline.journal", "pipeline.log", "pipeline.message", "pipeline.octets"}
    ),
    "pipeline.sources": frozenset(
        {
            "pipeline.sources",
            "pipeline.audit",
            "pipeline.journal",
            "pipeline.log",
            "pipeline.message",
            "pipeline.octets",
            "pipeline.options",
        }
    ),
    "pipeline.archive": frozenset(
        {"pipeline.archive", "pipeline.arrow", "pipeline.log", "pipeline.message", "pipeline.sources"}
    ),
    "pipeline.report": frozenset(
        {"pipeline.report", "pipeline.journal", "pipeline.message", "pipeline.octets", "pipeline.sources"}
    ),
    "pipeline.replay": frozenset({"pipeline.replay", "pipeline.log", "pipeline.options", "pipeline.sources"}),
    "pipeline.log": frozenset({"pipeline.log", "pipeline.message", "pipeline.octets", "pipeline.options"}),
    "pipeline.jobs": frozenset({"pipeline"}),
    "pipeline.spark": frozenset({"pipeline"}),
}

MAY_NOT_IMPORT: dict[str, frozenset[str]] = {
    # An owner is given the registry of features.
    "node.queue": frozenset({"node.queue.features"}),
    "node.queue.features": frozenset(),
    # The code that sessions of all protocols share imports none of the protocols.
    "node.session": frozenset({"node.session.amqp091", "node.session.amqp10"}),
    # The sessions of one protocol do not know the other protocol. `node.wire` converts messages.
    "node.session.amqp091": frozenset({"node.session.amqp10", "node.wire.amqp10"}),
    "node.session.amqp10": frozenset({"node.session.amqp091", "node.wire.amqp091"}),
    "cluster.catalog": frozenset({"cluster.catalog.membership"}),
    "cluster.catalog.access": frozenset(),
    "cluster.catalog.membership": frozenset({"cluster.catalog.access"}),
    # Clients are shown by views, and commands are no protocol's: over HTTP there is no other way to ask.
    "cluster.admin": frozenset(
        {"node.wire.amqp091", "node.session.amqp091", "node.wire.amqp10", "node.session.amqp10"}
    ),
}
"""Parts of what a row allows that a package must not use after all."""

PURE = (
    "replication.raft", "node.delivery", "node.ranges", "node.refusal", "node.message", "node.wire",
    "node.expressions", "node.routing", "node.queue", "pipeline.octets", "pipeline.message",
    "cluster.owner", "cluster.catalog", "cluster.gateway", "cluster.broker",
)  # fmt: skip
"""Decisions: `(input, now)` in, bytes or effects out. The simulator runs them under its own clock."""

SHELLS = {
    "cluster.catalog.access.patterns": "a match in exponential time is only found out by a clock",
    "cluster.catalog.awaiting": "lets coroutines of the process wait for an answer of the catalog",
}
"""Modules in these packages that are none, and why."""

# fmt: off
IMPURE_MODULES = frozenset({
    "cluster.log", "cluster.system",
    "aiohttp", "asyncio", "concurrent", "datetime", "logging", "multiprocessing", "os", "pathlib",
    "prometheus_client", "queue", "random", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "ssl", "subprocess", "tempfile", "threading", "time", "uvloop",
})
# fmt: on


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def row_of(module: Module) -> tuple[str, frozenset[str]]:
    """The most specific row for a module, with its own folder added where the row is a folder's."""
    row = max((row for row in MAY_IMPORT if within(module.name, row)), key=len)
    return row, MAY_IMPORT[row] | ({row} if "." not in row else frozenset())


def strange_imports(module: Module) -> list[str]:
    """Imports that the table does not allow."""
    row, allowed = row_of(module)
    wrong = [
        f"line {line} imports {name}, but {row} may import only {sorted(allowed)}"
        for line, name in imports(module)
        if name.split(".")[0] in FOLDERS and not any(within(name, package) for package in allowed)
    ]
    forbidden = max((row for row in MAY_NOT_IMPORT if within(module.name, row)), key=len, default="")
    wrong += [
        f"line {line} imports {name}, which {forbidden} must not"
        for line, name in imports(module)
        if any(within(name, package) for package in MAY_NOT_IMPORT.get(forbidden, ()))
    ]
    return wrong


def test_imports_follow_the_table() -> None:
    assert violations(strange_imports, modules()) == []


def impurities(module: Module) -> list[str]:
    """The calls of a module that modules with decisions must not make."""
    wrong = [
        f"line {line} imports {name}: a decision has no clock, randomness, I/O or logging of its own"
        for line, name in imports(module)
        if any(within(name, impure) for impure in IMPURE_MODULES)
    ]
    wrong += [
        f"line {node.lineno} awaits: a decision returns effects instead"
        for node in nodes(module)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    return wrong


DECISIONS = [one for one in modules() if any(within(one.name, package) for package in PURE)]


def test_decisions_are_pure() -> None:
    assert violations(impurities, [one for one in DECISIONS if one.name not in SHELLS]) == []


def test_shells_among_decisions_are_listed_while_they_are_shells() -> None:
    assert {one.name for one in DECISIONS if one.name in SHELLS and impurities(one)} == SHELLS.keys()


PLAIN = (
    "pipeline.octets", "pipeline.message", "pipeline.options", "pipeline.journal", "pipeline.log",
    "pipeline.audit", "pipeline.command", "pipeline.sources", "pipeline.archive.job", "pipeline.replay",
    "pipeline.report", "pipeline.jobs",
)  # fmt: skip
"""The parts of the pipeline that the distribution runs without the extra `spark`."""

OF_SPARK = ("deltalake", "numpy", "pyarrow", "pyspark", "pipeline.arrow", "pipeline.spark")


def extra_imports(module: Module) -> list[str]:
    """Imports of the extra `spark`, those inside functions aside: these run where Spark is asked for."""
    begun = [one for one in module.tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    lines = {one.lineno for one in begun}
    return [
        f"line {line} imports {name}, which only the extra has"
        for line, name in imports(module)
        if line in lines and any(within(name, package) for package in OF_SPARK)
    ]


def test_journals_are_read_without_spark() -> None:
    plain = [one for one in modules("pipeline") if any(within(one.name, package) for package in PLAIN)]
    assert plain
    assert violations(extra_imports, plain) == []


OBSERVED = ("cluster.owner", "cluster.gateway", "node")


def derived_from_observed(module: Module) -> list[str]:
    """Classes that derive from a class that the administration observes."""
    names = {name.rpartition(".")[2]: name for _, name in imports(module)}
    return [
        f"{node.name} derives from {names[base.id]}"
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and any(within(names.get(base.id, ""), each) for each in OBSERVED)
    ]


def test_the_administration_observes_and_derives_from_nothing_that_it_observes() -> None:
    """Traces of messages are values that owners and links are made with, and that decide nothing."""
    assert violations(derived_from_observed, modules("cluster/admin")) == []


BUILDER = "cluster.process.node"
"""The module that puts a node together; it names the protocols that the node speaks."""


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_a_protocol_is_known_to_its_codec_and_its_sessions_alone(protocol: str) -> None:
    own = ("node.wire", f"node.session.{protocol}", BUILDER)
    knowing = {
        module.path
        for module in modules("cluster", "node")
        if not any(within(module.name, package) for package in own)
        if any(
            within(name, f"node.{part}.{protocol}")
            for _, name in imports(module)
            for part in ("wire", "session")
        )
    }
    assert not knowing


def test_every_folder_and_package_has_a_row() -> None:
    packages = {
        f"{folder}.{path.name}"
        for folder in ("cluster", "node", "pipeline", "replication")
        for path in (ROOT / folder).iterdir()
        if (path / "__init__.py").is_file()
    }
    assert {name for name in {*FOLDERS, *packages} if name not in MAY_IMPORT} == set()
