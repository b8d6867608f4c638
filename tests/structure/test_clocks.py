"""Leases and timers of a node read one clock; whatever else tells the time has a reason."""

from __future__ import annotations

import ast

from tests.structure.tree import PRODUCT, Module, modules, nodes, violations

CLOCKS = {
    "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time_ns",
    "clock_gettime", "clock_gettime_ns",
}  # fmt: skip

READERS = {
    "cluster/catalog/access/patterns.py": "bounds the work on a pattern, and forgets slow ones after a while",
    "cluster/cli/commands/publisher.py": "a command of its own process, which paces its load",
    "cluster/cli/local/supervisor.py": "a process of its own, which reports when it waits for long",
    "cluster/admin/api/listing.py": "bounds the work on one pattern",
    "cluster/admin/api/node_report.py": "turns a moment of the node's clock into a time of day",
    "cluster/system/clock.py": "the clock of a node",
    "cluster/process/node.py": "the time of day, for times that clients and other nodes must understand",
    "cluster/admin/traces/export.py": "the time of day of spans",
    "cluster/admin/api/loop_share.py": "measures how long work has had the event loop",
    "cluster/admin/http/pages.py": "bounds how long a slice of a page takes",
    "replication/journal/batch.py": "measures a sync",
    "replication/journal/journal.py": "measures the recovery",
    "replication/transport/acceptor.py": "time-outs of connections, by the event loop's clock",
    "replication/transport/dialer.py": "time-outs of connections, by the event loop's clock",
    "replication/transport/peers.py": "time-outs of connections, by the event loop's clock",
    "replication/transport/stream.py": "time-outs of connections, by the event loop's clock",
}


def reads_a_clock(node: ast.AST) -> bool:
    """Whether it names a function that tells the time."""
    if isinstance(node, ast.Attribute):
        of = ast.unparse(node.value)
        return node.attr in CLOCKS or (node.attr == "time" and of.endswith(("loop", "time")))
    return isinstance(node, ast.Name) and node.id in CLOCKS


def clocks(module: Module) -> list[str]:
    """The expressions of a module that name a clock."""
    return [ast.unparse(node) for node in nodes(module) if reads_a_clock(node)]


def test_no_other_clock_is_read() -> None:
    """A lease that one clock began and another one ends is none (docs/decisions/0015-leases.md). Take the
    node's clock, or `now`.
    """
    assert violations(clocks, [one for one in modules(*PRODUCT) if one.path not in READERS]) == []


def test_every_reader_reads_one() -> None:
    assert {module.path for module in modules(*PRODUCT) if clocks(module)} >= READERS.keys()
