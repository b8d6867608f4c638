"""Links whose deliveries a classic queue keeps, while the queue's only node is away
(docs/decisions/0047-leases-of-links.md).
"""

from __future__ import annotations

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TerminusExpiryPolicy
from tests.cluster.kept_links import Link, client, keeping, kept, site
from tests.cluster.links import LinkClient
from tests.site import Site
from tests.wire.amqp10.performatives import credit, receiver

__all__ = ["client", "site"]


@pytest.fixture
def link(site: Site) -> Link:
    """A link at n1 with two messages of a queue at n3 that keeps them without end."""
    at_home = site.client("n3")
    at_home.declare("classic", queue_type="classic", durable=True)
    found = Link(site, "n1", _keeping())
    assert all(at_home.confirms(at_home.publish("classic", b"1", b"2")))
    assert found.bodies == b"12"
    return found


def _keeping(unsettled: dict[bytes, None] | None = None) -> d.Attach:
    return keeping(unsettled, queue="classic", timeout=0, expiry_policy=TerminusExpiryPolicy.NEVER)


def _unreachable(site: Site) -> bool:
    broker = site.nodes["n1"].broker
    return broker.links.to(broker.catalog.state.queues["/", "classic"].partition).unreachable


def _ready(site: Site) -> bytes:
    other = LinkClient(site, "n2", receiver(1, "classic"), credit(10, handle=1))
    site.until(lambda: len(other.payloads) == 2)
    return b"".join(payload[-1:] for payload in other.payloads)


@pytest.mark.requirement("B7.9")
@pytest.mark.parametrize("early", [False, True], ids=["closed behind", "closed before the node is missed"])
def test_a_client_hears_that_its_link_is_closed_when_nothing_is_kept_for_it(
    site: Site, link: Link, early: bool
) -> None:
    site.nodes["n3"].stop(power=False)
    if early:
        link.submit(d.Detach(0, True))
    site.until(lambda: _unreachable(site))
    if not early:
        link.submit(d.Detach(0, True))
    site.run(20.0)
    assert not link.came(d.Detach), "the node that is away keeps the messages still"
    site.nodes["n3"].start()
    site.until(lambda: link.came(d.Detach))
    assert link.came(d.Detach) == [d.Detach(0, True)] and not kept(site)
    assert _ready(site) == b"12"


@pytest.mark.requirement("B7.9")
def test_a_link_is_closed_that_its_client_has_closed_before_it_lost_its_connection(
    site: Site, link: Link
) -> None:
    """The queue keeps messages that the link has not got again, and that no front end gives back."""
    link.lose()
    site.until(lambda: kept(site) == 2)
    again = Link(site, "n1", _keeping(dict.fromkeys(link.tags)), credits=0)
    assert again.told == set(link.tags)
    site.nodes["n3"].stop(power=False)
    site.until(lambda: _unreachable(site))
    again.submit(d.Detach(0, True))
    site.run(1.0)
    again.lose()
    site.run(1.0)
    site.nodes["n3"].start()
    assert _ready(site) == b"12"
    assert not kept(site)


def test_a_link_that_is_lost_meanwhile_has_its_deliveries_again(site: Site, link: Link) -> None:
    site.nodes["n3"].stop(power=False)
    site.until(lambda: _unreachable(site))
    link.lose()
    site.run(1.0)
    site.nodes["n3"].start()
    site.until(lambda: kept(site) == 2)
    again = Link(site, "n2", _keeping(dict.fromkeys(link.tags)))
    assert again.told == set(link.tags) and again.bodies == b"12"
