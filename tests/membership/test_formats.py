"""Which formats nodes write: those that the node at the other end, or every member, reads."""

from __future__ import annotations

import pytest

from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command
from cluster.config.formats import FORMAT_LEVEL
from tests.membership.test_commands import Catalog
from tests.site import Site

NODES = ("n1", "n2", "n3")


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    for number, name in enumerate(NODES, start=1):
        made.do("start_node", name=name, front_end=number, formats=1)
    return made


def test_the_least_of_all_members_counts(catalog: Catalog) -> None:
    assert catalog.state.members.formats_of_all == 1
    catalog.do("start_node", name="n2", front_end=12, formats=2)
    assert catalog.state.members.formats_of_all == 1
    # The release from before says nothing.
    catalog.do("start_node", name="n3", front_end=13)
    assert catalog.state.members.formats_of_all == 0
    assert catalog.copied().members.formats == {"n1": 1, "n2": 2, "n3": 0}


def test_a_newcomer_counts_from_its_first_start(catalog: Catalog) -> None:
    catalog.do("add_member", name="n4", peers="n4:1")
    assert catalog.state.members.formats_of_all == 1
    catalog.do("start_node", name="n4", front_end=14)
    assert catalog.state.members.formats_of_all == 0
    catalog.do("remove_member", name="n4")
    assert catalog.do("forget_member", name="n4")
    assert catalog.state.members.formats_of_all == 1


def test_a_founder_that_never_ran_counts() -> None:
    catalog = Catalog()
    catalog.do("start_node", name="n1", front_end=1, formats=1)
    assert catalog.state.members.formats_of_all == 0


def test_a_snapshot_of_the_release_from_before_is_read() -> None:
    """It has no numbers, and what is written after it is for nodes that have none."""
    catalog = Catalog()
    catalog.do("start_node", name="n1", front_end=1)
    del catalog.state.members.formats["n1"]
    older = CatalogState(Observer())
    older.restore(catalog.state.snapshot())
    assert older.members.formats_of_all == 0
    older.apply(encode_command(9, 77, "start_node", {"name": "n1", "front_end": 2, "formats": 1}))
    assert older.members.formats == {"n1": 1}


def site_of(*formats: int) -> Site:
    site = Site(*NODES)
    for name, number in zip(NODES, formats, strict=True):
        restart(site, name, number)
    return site


def restart(site: Site, name: str, formats: int) -> None:
    """Another release of the node comes up."""
    node = site.nodes[name]
    node.stop(power=False)
    node.formats = formats
    site.run(1.0)
    node.start()
    site.until(lambda: node.ready)
    site.until(lambda: set(node.broker.connected) == set(NODES) - {name})


def written(site: Site) -> list[int]:
    return [node.broker.formats.everywhere for node in site.nodes.values()]


def test_a_node_says_what_it_reads_to_its_peers_and_to_all() -> None:
    site = Site(*NODES)
    site.until(lambda: written(site) == [FORMAT_LEVEL] * 3)
    assert site.nodes["n1"].broker._peer_formats.of("n2") == FORMAT_LEVEL
    restart(site, "n2", 0)
    site.until(lambda: written(site) == [0, 0, 0])
    assert site.nodes["n1"].broker._peer_formats.of("n2") == 0
    assert site.nodes["n1"].broker._peer_formats.of("n3") == FORMAT_LEVEL
    assert site.nodes["n2"].broker._peer_formats.of("n3") == 0, "it is of the release from before itself"


def test_what_a_node_reads_counts_while_it_is_down() -> None:
    site = site_of(1, 0, 1)
    site.nodes["n2"].stop(power=False)
    site.run(3.0)
    assert site.nodes["n1"].broker.formats.everywhere == 0
    assert site.nodes["n1"].broker._peer_formats.of("n2") == 0


def test_what_a_replica_of_the_release_from_before_dropped_is_said_again() -> None:
    """Its snapshots have no numbers: after its upgrade it hears those of the others once more."""
    site = site_of(1, 1, 0)
    for name in NODES:
        # As after a snapshot that n3 made, and sent to all.
        site.nodes[name].broker.catalog.state.members.formats.clear()
    site.nodes["n1"].broker.catalog.state.members.formats["n1"] = 1
    restart(site, "n3", 1)
    site.until(lambda: written(site) == [1, 1, 1])


def test_nothing_is_said_again_once_all_know() -> None:
    site = site_of(1, 1, 1)
    site.run(2.0)
    before = applied(site)
    site.run(5.0)
    assert applied(site) == before


def applied(site: Site) -> list[int]:
    return [node.broker.catalog.version for node in site.nodes.values()]


def test_a_node_knows_which_peers_are_of_the_last_release() -> None:
    """From the numbers that they say on the connections which they have now."""
    host = site_of(1, 0, 1).nodes["n1"].broker.host
    assert [host.of_last_release(peer) for peer in ("n2", "n3", "n4")] == [True, False, True]


def test_a_member_that_never_started_is_known() -> None:
    catalog = Catalog()
    catalog.do("start_node", name="n1", front_end=1, formats=1)
    assert catalog.state.members.never_started == ["n2", "n3"]
    catalog.do("add_member", name="n4", peers="n4:1")
    assert catalog.state.members.never_started == ["n2", "n3"]
    for number, name in enumerate(("n2", "n3"), start=2):
        catalog.do("start_node", name=name, front_end=number)
    assert catalog.state.members.never_started == []
