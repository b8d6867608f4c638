"""`Broker` and `PartitionOwner` hand out views, each for a reader that is named here, and not their parts."""

from __future__ import annotations

import ast

import pytest

from tests.structure.tree import PRODUCT, Module, modules, nodes, violations

BROKER, OWNER = ("cluster/broker/broker.py", "Broker"), ("cluster/owner/partition.py", "PartitionOwner")

VIEWS: dict[tuple[str, str], dict[str, str]] = {
    BROKER: {
        "auto_delete_after_s": "cluster/owner/state.py",
        "bootstrap": "cluster/process/node.py",
        "catalog": "cluster/process/node.py",
        "clients": "cluster/process/node.py",
        "connected": "cluster/process/node.py",
        "copies": "cluster/process/node.py",
        "formats": "cluster/process/node.py",
        "front_ends": "cluster/owner/lost_front_ends.py",
        "host": "cluster/process/node.py",
        "latencies": "cluster/process/node.py",
        "links": "cluster/process/node.py",
        "local_queues": "cluster/process/node.py",
        "lost_entries": "cluster/process/node.py",
        "mover": "cluster/process/node.py",
        "new_space": "cluster/owner/paging.py",
        "overdue_epochs": "cluster/owner/epochs.py",
        "overdue_takes": "cluster/owner/takes.py",
        "overtaken_readers": "cluster/owner/state.py",
        "owners": "cluster/process/node.py",
        "partitions": "cluster/process/node.py",
        "queues": "cluster/owner/state.py",
        "receivers": "cluster/process/node.py",
        "served_at": "cluster/process/node.py",
        "transit": "cluster/owner/partition.py",
    },
    OWNER: {
        "active": "cluster/broker/partitions.py",
        "counts": "cluster/admin/api/log_answers.py",
        "feeds": "cluster/broker/partitions.py",
        "lost_front_ends": "cluster/broker/partitions.py",
        "machine": "cluster/admin/api/explain_answers.py",
        "paging": "cluster/broker/partitions.py",
        "partition": "cluster/broker/broker.py",
        "past": "cluster/admin/metrics/sweep.py",
        "pending": "cluster/broker/broker.py",
        "published": "bench/observing.py",
        "queues": "cluster/admin/api/queue_rows.py",
        "sessions": "cluster/broker/partitions.py",
        "term": "cluster/broker/broker.py",
        "unserved_octets": "cluster/broker/broker.py",
    },
}
"""The public attributes and properties of each class, with a module outside of it that reads each."""


def module_at(path: str) -> Module:
    return next(one for one in modules() if one.path == path)


def shown(place: tuple[str, str]) -> set[str]:
    """The public attributes that a class sets on itself, and its public properties."""
    path, name = place
    (found,) = (
        node for node in module_at(path).tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )
    names = {
        node.attr
        for node in ast.walk(found)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    names |= {
        node.name
        for node in found.body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(one) == "property" for one in node.decorator_list)
    }
    return {one for one in names if not one.startswith("_")}


def attributes_read(module: Module) -> set[str]:
    return {
        node.attr
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize("place", VIEWS, ids=lambda place: place[1])
def test_the_views_are_a_closed_list_and_each_has_a_reader(place: tuple[str, str]) -> None:
    assert shown(place) == VIEWS[place].keys()
    unread = {name for name, path in VIEWS[place].items() if name not in attributes_read(module_at(path))}
    assert not unread


def private_reads(module: Module) -> list[str]:
    """The places that read a private part of a broker or an owner."""
    return [
        f"line {node.lineno} reads {ast.unparse(node)}"
        for node in nodes(module)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and ast.unparse(node.value).rpartition(".")[2].lstrip("_") in ("broker", "owner")
    ]


def test_a_private_part_is_read_by_its_own_class() -> None:
    """Of brokers and owners; `_replace` and the like are named tuples' own."""
    assert violations(private_reads, modules(*PRODUCT)) == []
