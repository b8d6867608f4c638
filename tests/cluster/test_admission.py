"""Founding distinguishes a node that has lost its disk from a node of a new cluster."""

from __future__ import annotations

import pytest

from cluster.catalog.membership.admission import ASK_INTERVAL_S, Admission, AdmissionDesk
from tests.site import Site

MEMBERS = ("n1", "n2", "n3")


def desk(*, empty: bool = True, rebuilding: bool = False) -> AdmissionDesk:
    return AdmissionDesk("n1", MEMBERS, empty=empty, rebuilding=rebuilding)


def test_a_node_with_a_journal_asks_no_other() -> None:
    assert desk(empty=False).state is Admission.WHOLE


def test_a_single_node_founds_its_cluster_alone() -> None:
    assert AdmissionDesk("n1", ("n1",), empty=True, rebuilding=False).state is Admission.WHOLE


def test_empty_nodes_alone_are_a_new_cluster() -> None:
    new = desk()
    assert new.state is Admission.UNKNOWN
    new.told("n2", empty=True)
    assert new.state is Admission.UNKNOWN
    new.told("n3", empty=True)
    assert new.state is Admission.WHOLE


def test_a_majority_of_empty_founders_founds_nothing() -> None:
    """The founders may be a minority of a cluster that has grown since, cut off from all others."""
    lost = AdmissionDesk("n1", MEMBERS, empty=True, rebuilding=False)
    lost.told("n2", empty=True)
    assert lost.state is Admission.UNKNOWN
    assert lost.awaited == ["n3"]
    lost.told("n4", empty=True)
    assert lost.state is Admission.UNKNOWN, "a node that joins later is no founder"
    lost.told("n3", empty=False)
    assert lost.state is Admission.REBUILDING
    assert lost.awaited == []


def test_founders_of_a_grown_cluster_that_lost_their_disks_wait_for_it() -> None:
    """Two of five nodes have lost their disks: the cluster survives, and no second one may be founded."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("orders", durable=True)
    lost = [site.nodes[name] for name in ("n1", "n2")]
    for node in lost:
        node.stop(power=True)
        node.disk.wipe()
    site.nodes["n3"].pause()
    for node in lost:
        node.empty = True
        node.start()
    site.run(10.0)
    assert [node.broker.bootstrap.state for node in lost] == [Admission.UNKNOWN] * 2
    assert not any(node.broker.host.groups for node in lost)
    site.nodes["n3"].resume()
    site.until(lambda: all(node.broker.bootstrap.state is Admission.REBUILDING for node in lost))
    site.run(5.0)
    assert not any(group.raft.may_vote for node in lost for group in node.broker.host.groups.values())


def test_an_empty_node_of_a_cluster_that_ran_has_lost_its_disk() -> None:
    lost = desk()
    lost.told("n3", empty=False)
    assert lost.state is Admission.REBUILDING
    lost.told("n2", empty=True)
    assert lost.state is Admission.REBUILDING


@pytest.mark.parametrize("empty", [True, False])
def test_a_restart_does_not_make_a_rebuilding_node_whole(empty: bool) -> None:
    assert desk(empty=empty, rebuilding=True).state is Admission.REBUILDING


def test_the_others_are_asked_again_until_they_answer() -> None:
    asking = desk()
    assert asking.ask_due(1.0)
    assert not asking.ask_due(1.0 + ASK_INTERVAL_S / 2)
    assert asking.ask_due(1.0 + ASK_INTERVAL_S)
    asking.told("n2", empty=True)
    asking.told("n3", empty=True)
    assert not asking.ask_due(9.0)


def test_a_founder_that_asks_late_is_told_that_it_was_counted() -> None:
    """The founder hears of the others when the cluster is founded already."""
    first = desk()
    first.told("n2", empty=True, process=7)
    assert not first.counted("n2", 7), "nothing is founded yet"
    first.told("n3", empty=True)
    assert first.counted("n2", 7)
    assert not first.counted("n2", 8), "another process may have another disk"
    assert not first.counted("n3", 0)


def test_a_node_that_lost_its_disk_counts_no_founder() -> None:
    lost = desk()
    lost.told("n2", empty=True, process=7)
    lost.told("n3", empty=False)
    assert not lost.counted("n2", 7)
