"""No node serves on a lease whose end another node does not wait for (docs/decisions/0015-leases.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.peers.catalog_messages import LeasePong
from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.simulation.connection import Connection
from tests.site import Site

NEW = "late"
"""A virtual host that is declared while leases of former leaders may still hold."""


class Watch:
    """Declares, and checks every few milliseconds whether a node relies on a catalog without the
    declaration.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.answered = False

    def declare(self, name: str) -> None:
        def answered(value: object, refusal: object) -> None:
            assert refusal is None
            self.answered = True

        node = self.site.nodes[name]
        node.broker.catalog.submit("declare_vhost", {"vhost": NEW}, answered)
        node.wanted()

    def stale(self) -> list[str]:
        """The nodes that would serve clients without the new virtual host, although it was declared."""
        if not self.answered:
            return []
        nodes = self.site.nodes.values()
        return [
            node.name
            for node in nodes
            if node.up and node.broker.catalog_fresh() and NEW not in node.broker.catalog.state.vhosts
        ]

    def nothing_stale(self, seconds: float) -> None:
        end = self.site.world.now + seconds
        while self.site.world.now < end:
            self.site.run(0.003)
            assert not self.stale()
        assert self.answered


def leader_of(site: Site) -> str:
    return next(node.name for node in site.nodes.values() if node.broker.catalog.leads)


def reset(site: Site, pairs: list[tuple[str, str]]) -> Callable[[], None]:
    """Cut the connections, which break at once on both ends. The result mends them."""
    mend = site.network.cut(pairs)
    for pair in pairs:
        site.network.break_connection(*pair)
    return mend


def isolate(site: Site, name: str) -> Callable[[], None]:
    """Cut a node off from all others. The result mends that."""
    others = [other for other in site.nodes if other != name]
    return reset(site, [(name, other) for other in others] + [(other, name) for other in others])


def elected(site: Site, others: list[str]) -> str:
    """The node among `others` that leads the catalog next."""
    site.until(lambda: any(site.nodes[name].broker.catalog.leads for name in others))
    return next(name for name in others if site.nodes[name].broker.catalog.leads)


def settled_site(*names: str, seed: int = 1, drift: float = 0.0) -> Site:
    """A site in which every node has a lease."""
    site = Site(*names, seed=seed, drift=drift)
    site.until(lambda: all(node.broker.catalog_fresh() for node in site.nodes.values()))
    return site


@pytest.mark.requirement("A16.3")
@pytest.mark.parametrize("resets", [True, False])
def test_a_deposed_leader_grants_no_lease_that_its_successor_does_not_wait_for(resets: bool) -> None:
    """Of five nodes, the old leader and one more on its side still reach each other."""
    site = settled_site("n1", "n2", "n3", "n4", "n5")
    old = leader_of(site)
    beside, *majority = [name for name in site.nodes if name != old]
    pairs = [(a, b) for a in (old, beside) for b in majority]
    pairs += [(b, a) for a, b in pairs]
    (reset(site, pairs) if resets else site.network.cut(pairs))
    watch = Watch(site)
    watch.declare(elected(site, majority))
    watch.nothing_stale(6.0)


@pytest.mark.requirement("A16.3")
def test_a_leader_that_no_voter_reaches_gives_itself_no_lease() -> None:
    """Connections to the leader are refused, and its own connections live, so it does not notice that its
    voters suspect it.
    """
    site = settled_site("n1", "n2", "n3")
    old = leader_of(site)
    others = [name for name in site.nodes if name != old]
    reset(site, [(name, old) for name in others])
    watch = Watch(site)
    new = elected(site, others)
    assert site.nodes[old].broker.catalog.leads, "it was elected over a leader that does not know of it"
    watch.declare(new)
    watch.nothing_stale(6.0)


@pytest.mark.requirement("A16.5")
def test_readiness_is_asked_of_the_clock_and_not_of_the_last_turn() -> None:
    """A process that stood still may read a client's socket first."""
    site = settled_site("n1", "n2", "n3")
    other, victim = site.client("n2"), site.client("n1")
    other.declare("q")
    other.declare_exchange("x", "fanout")
    assert victim.confirms(victim.publish("", b"unroutable", exchange="x")) == [True]
    node = site.nodes["n1"]
    node.pause()
    other.bind("q", "x")
    site.run(2.0)
    node.resume(first=victim.reading(m.BasicPublish("x", ""), b"routed"))
    site.until(lambda: 2 in victim.confirmed | victim.refused)
    assert [delivery.body for delivery in other.drain("q")] == [b"routed"]


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_that_was_suspended_wakes_without_a_lease(seed: int) -> None:
    """The machine's clock counts the suspension, as CLOCK_BOOTTIME does."""
    site = settled_site("n1", "n2", "n3", seed=seed)
    victim = next(node for node in site.nodes.values() if not node.broker.catalog.leads)
    victim.suspend()
    watch = Watch(site)
    watch.declare(leader_of(site))
    site.run(3.0)
    assert watch.answered
    seen: list[bool] = []
    victim.resume(first=lambda: seen.append(victim.broker.catalog_fresh()))
    assert seen == [False]


def test_a_node_that_starts_anew_takes_no_lease_that_was_granted_to_its_former_process() -> None:
    """The clock of the node's machine may have begun anew, and the node's catalog may be behind."""
    site = settled_site("n1", "n2", "n3")
    node = next(node for node in site.nodes.values() if not node.broker.catalog.leads)
    leader = leader_of(site)
    former = node.front_end
    node.stop(power=True)
    node.start()
    since = node.clock() + 500.0
    node.broker.receive(leader, LeasePong(since, former).encode(), node.clock())
    assert not node.broker.catalog_fresh()
    node.broker.receive(leader, LeasePong(since).encode(), node.clock())
    assert not node.broker.catalog_fresh(), "one of an older release does not tell the process"


@pytest.mark.requirement("A16.3")
def test_leases_hold_with_clocks_at_both_ends_of_the_bound() -> None:
    for seed in range(4):
        site = settled_site("n1", "n2", "n3", seed=seed, drift=0.1)
        old = leader_of(site)
        others = [name for name in site.nodes if name != old]
        site.network.cut([(a, b) for a in others for b in [old]] + [(old, b) for b in others])
        watch = Watch(site)
        watch.declare(elected(site, others))
        watch.nothing_stale(4.0)


def test_a_node_in_good_health_always_has_a_lease() -> None:
    """Also with the longest interval between heartbeats."""
    site = settled_site("n1", "n2", "n3", drift=0.1)
    for _ in range(500):
        site.run(0.01)
        assert all(node.broker.catalog_fresh() for node in site.nodes.values())


class Answers:
    """The broker's answers to a client."""

    def __init__(self) -> None:
        self.methods: list[type[Method]] = []

    def received(self, method: Method, content: bytes) -> None:
        self.methods.append(type(method))

    def read(self) -> None:
        """Nothing to do: tests read the answers later."""


def test_a_user_that_one_node_knows_is_turned_away_by_none() -> None:
    """A node that was cut off when the user was made handles the log-in once its catalog is up to date."""
    site = settled_site("n1", "n2", "n3")
    other, far = leader_of(site), next(name for name in site.nodes if name != leader_of(site))
    near = [name for name in site.nodes if name != far]
    pairs = [(far, name) for name in near] + [(name, far) for name in near]
    mend = site.network.cut(pairs)
    site.until(lambda: not site.nodes[far].broker.catalog_fresh())
    site.submit(other, "put_user", {"user": "alice", "tags": [], "password_hash": "hash"})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    site.submit(other, "set_permissions", {"user": "alice", "vhost": "/", **everything})
    told = Answers()
    connection = Connection(site.nodes[far], site.front_end(far), told)
    connection.open("alice")
    site.run(1.0)
    assert told.methods == []
    mend()
    site.until(lambda: m.ConnectionOpenOk in told.methods)


def test_nothing_is_kept_of_a_client_that_goes_while_a_node_waits_for_its_catalog() -> None:
    site = settled_site("n1", "n2", "n3")
    far = next(name for name in site.nodes if name != leader_of(site))
    site.network.cut([(far, name) for name in site.nodes if name != far])
    site.until(lambda: not site.nodes[far].broker.catalog_fresh())
    connection = Connection(site.nodes[far], site.front_end(far), Answers())
    connection.open()
    assert site.front_end(far)._waiting
    connection.drop()
    assert not site.front_end(far)._waiting
