"""A leaving node hands the groups that it leads over first."""

from __future__ import annotations

from cluster.catalog.replica import CATALOG
from replication.raft import Role
from tests.cluster.test_leases import isolate
from tests.site import Site


def leads_the_catalog(site: Site, name: str) -> bool:
    return site.nodes[name].broker.host.groups[CATALOG].raft.role is Role.LEADER


def test_a_node_that_leads_the_catalog_and_has_nothing_else_leaves() -> None:
    """A leader cannot end its own catalog lease, so another node must lead before this one is removed."""
    site = Site("n1", "n2", "n3")
    site.submit("n1", "found_members", {"nodes": {name: {"peers": name} for name in site.nodes}})
    site.until(lambda: any(leads_the_catalog(site, name) for name in site.nodes))
    [leader] = [name for name in site.nodes if leads_the_catalog(site, name)]
    other = next(name for name in site.nodes if name != leader)
    site.submit(other, "remove_member", {"name": leader, "heir": ""})
    site.until(lambda: leader not in site.nodes[other].broker.catalog.state.nodes)
    assert not leads_the_catalog(site, leader)


def test_a_process_ends_whose_node_was_removed_and_added_again_while_it_was_cut_off() -> None:
    """The other nodes have forgotten the front end of that process, which no owner would answer."""
    site = Site("n1", "n2", "n3")
    site.submit("n1", "found_members", {"nodes": {name: {"peers": name} for name in site.nodes}})
    site.until(lambda: not leads_the_catalog(site, "n3"))
    away = site.nodes["n3"]
    mend = isolate(site, "n3")
    site.submit("n1", "remove_member", {"name": "n3", "heir": ""})
    site.until(lambda: "n3" not in site.nodes["n1"].broker.catalog.state.nodes)
    site.submit("n1", "add_member", {"name": "n3", "peers": "n3"})
    assert away.up
    mend()
    site.until(lambda: away.retired)
    away.retired = False
    away.start()
    site.until(lambda: away.ready)
    site.client("n3").declare("q")
