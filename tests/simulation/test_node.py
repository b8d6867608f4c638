"""The end of a simulated node, its restart, and the order of input when it wakes up."""

from __future__ import annotations

import errno
from unittest import mock

import pytest

from replication.journal import DamagedEntryError
from tests.simulation.cluster import Cluster, Shape
from tests.simulation.faults import Faults
from tests.simulation.node import SimulatedNode

FULL = OSError(errno.ENOSPC, "No space left on the simulated disk")


def failing(error: Exception) -> SimulatedNode:
    """A node of a cluster, with a pending event that raises the error."""
    cluster = Cluster(1, Shape(publishers=0, consumers=5))
    cluster.start()
    node = cluster.nodes["n1"]

    def fail() -> None:
        raise error

    node.after(0.01, fail)
    return node


@pytest.mark.parametrize("error", [FULL, KeyError("queue"), AssertionError("two leaders")])
def test_an_exception_that_no_fault_explains_breaks_a_promise(error: Exception) -> None:
    node = failing(error)
    with pytest.raises(type(error)):
        node.world.run(node.world.now + 1.0)


def test_an_exception_of_a_full_disk_ends_the_node_alone() -> None:
    node = failing(FULL)
    node.disk.capacity = node.disk.used()
    life = node.life
    node.world.run(node.world.now + 0.1)
    assert not node.up and node.life > life


@pytest.mark.parametrize("incident", ["rot", "full disk"])
def test_what_was_confirmed_outlives_disks_that_fail(incident: str) -> None:
    cluster = Cluster(2, Shape())
    cluster.start()
    faults = Faults(cluster, (incident, "kill"), 0.2)
    cluster.world.run(cluster.world.now + 4.0)
    faults.stop()
    cluster.settle()
    assert cluster.history.confirmed > 0


def test_a_damaged_entry_of_a_rotten_disk_leaves_its_node_running() -> None:
    """The node asks other replicas for the entry (`replication.repair`)."""
    error = DamagedEntryError("n1.segment", 0, "a bit", 1, 1)
    node = failing(error)
    node.rotten = True
    group = next(one for one in node.broker.host.groups.values() if one.log.last_index() > 0)
    error.partition = group.partition
    node.world.run(node.world.now + 0.1)
    assert node.up and any(f"n1 finds {error}" in line for line in node.world.trace)


def test_a_slow_sync_ends_when_its_disk_recovers() -> None:
    """Otherwise a replica could stay behind for as long after the faults."""
    cluster = Cluster(1, Shape(publishers=0, consumers=0))
    cluster.start()
    node = cluster.nodes["n1"]
    node.disk.sync_seconds = 60.0
    node.broker.catalog.submit("delete_user", {"user": "absent"}, lambda value, refusal: None)
    node.wanted()
    while node.writer.batch is None:
        node.world.run(node.world.now + 0.01)
    node.disk_recovers()
    batch = node.writer.batch
    node.world.run(node.world.now + 0.01)
    assert node.writer.batch is not batch


def test_a_node_that_wakes_up_reads_what_waited_before_what_is_sent_then() -> None:
    """A client's reaction to one waiting input is behind all input that waits in its socket."""
    cluster = Cluster(1, Shape(publishers=0, consumers=0))
    cluster.start()
    node = cluster.nodes["n1"]
    read: list[str] = []
    node.pause()
    node.input(lambda: node.input(lambda: read.append("then")))
    node.input(lambda: read.append("waited"))
    node.resume()
    assert read == ["waited", "then"]
    node.input(lambda: read.append("at once"))
    assert read[-1] == "at once"


@pytest.mark.interpreted
def test_a_process_that_ends_while_it_is_frozen_does_not_wake_up() -> None:
    cluster = Cluster(1, Shape(publishers=0, consumers=0))
    cluster.start()
    node = cluster.nodes["n1"]
    woken: list[float] = []
    for _ in range(10):
        node.pause()
        node.world.run(node.world.now + 0.5)
        node.stop(power=True)
        with mock.patch.object(node.broker, "tick", woken.append):
            node.resume()
        node.start()
        node.world.run(node.world.now + 0.3)
    assert not woken
