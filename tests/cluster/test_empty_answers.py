"""A basic.get gets Empty only where the queue has no message (A17), also when the queue's owner is lost.

A message that is got without acknowledgement is removed before the client has it, so that no message comes
twice.
"""

from __future__ import annotations

import pytest

from tests.cluster.test_leases import isolate
from tests.cluster.test_linearizable_reads import owners_of
from tests.site import Client, Site

MILLISECONDS = (0, 2, 13, 50, 400, 1500)
"""(the time of a get after the cut of an owner, the duration of the cut after the get)."""


def cut_off(site: Site, client: Client) -> tuple[str, list[str]]:
    """The owner of the queue, and the others."""
    partition = client.node.broker.catalog.state.queues["/", "q"].partition
    site.until(lambda: owners_of(site, partition))
    (owner,) = owners_of(site, partition)
    return owner, [name for name in site.nodes if name != owner]


@pytest.mark.requirement("A17.5")
@pytest.mark.parametrize("no_ack", [True, False])
@pytest.mark.parametrize("lasting", MILLISECONDS)
@pytest.mark.parametrize("asked_of", ["the owner", "another node"])
def test_a_get_finds_a_confirmed_message(asked_of: str, lasting: int, no_ack: bool) -> None:
    for after in MILLISECONDS:
        site = Site("n1", "n2", "n3")
        first = site.client("n1")
        first.declare("q")
        owner, others = cut_off(site, first)
        asking = site.client(owner if asked_of == "the owner" else others[0])
        publishing = site.client(others[1])
        assert asking.get("q") is None
        assert publishing.confirms(publishing.publish("q", b"a")) == [True]
        mend = isolate(site, owner)
        site.run(after / 1000)
        asking.ask("q", no_ack=no_ack)
        site.run(lasting / 1000)
        mend()
        got = asking.got()
        assert got is not None, after
        assert got.body == b"a", after
        assert not no_ack or publishing.get("q") is None, after
