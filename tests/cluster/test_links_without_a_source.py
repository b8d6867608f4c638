"""A client attaches a link without a source: the node finds the queue that keeps the deliveries of the link
(part 2, section 2.6.3), whichever node owns the queue by now.
"""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, TerminusDurability, TerminusExpiryPolicy
from tests.cluster.kept_links import (
    KEPT_S,
    QUEUE,
    Link,
    client,
    drained,
    keeping,
    kept,
    owner,
    publish,
    site,
)
from tests.site import Client, Site

__all__ = ["client", "site"]

pytestmark = pytest.mark.requirement("B7.1", "B11.6")


def without_source(unsettled: Any = None, name: str | None = None) -> d.Attach:
    attach = keeping(unsettled)
    attach.source = None
    attach.name = attach.name if name is None else name
    return attach


@pytest.mark.parametrize("never", [False, True])
@pytest.mark.parametrize("lost", ["nothing", "the owner", "all power"])
def test_a_queue_that_keeps_its_deliveries_is_found(
    site: Site, client: Client, lost: str, never: bool
) -> None:
    fields: dict[str, Any] = {"timeout": 0, "expiry_policy": TerminusExpiryPolicy.NEVER} if never else {}
    client.declare("another")
    link = Link(site, "n2", keeping(**fields))
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    link.lose()
    site.until(lambda: kept(site) == 2)
    stopped = {"nothing": [], "the owner": [owner(site)], "all power": list(site.nodes)}[lost]
    for name in stopped:
        site.nodes[name].stop(power=True)
    if lost == "all power":
        for name in stopped:
            site.nodes[name].start()
    site.run(5.0)
    at = next(name for name in site.nodes if name not in stopped or lost == "all power")
    again = Link(site, at, without_source(dict.fromkeys(link.tags)))
    source = again.answer.source
    assert (source.address, source.durable) == (f"/queues/{QUEUE}", TerminusDurability.UNSETTLED_STATE)
    assert (source.expiry_policy, source.timeout) == ("never", 0) if never else ("link-detach", KEPT_S)
    assert again.told == set(link.tags) and again.bodies == b"12"
    assert again.accept(0, 1)
    drained(site, site.client(at))


def test_a_link_that_is_still_attached_is_found_and_taken_over(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1")
    assert link.bodies == b"1"
    again = Link(site, "n3", without_source())
    assert (again.answer.source.address, again.bodies) == (f"/queues/{QUEUE}", b"1")
    (detach,) = link.came(d.Detach)
    assert detach.error.condition == "amqp:link:stolen"


@pytest.mark.parametrize("name", ["another", "x" * 2000])
def test_a_link_that_no_queue_knows_is_not_found(site: Site, client: Client, name: str) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1")
    link.lose()
    site.until(lambda: kept(site) == 1)
    refused = Link(site, "n1", without_source(name=name), credits=0)
    assert refused.answer.source is None
    (detach,) = refused.came(d.Detach)
    assert detach.error.condition in (AmqpCondition.NOT_FOUND, AmqpCondition.INVALID_FIELD)


def test_a_link_that_its_client_has_closed_is_not_found(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1")
    link.send(d.Detach(0, True))
    site.run(1.0)
    refused = Link(site, "n1", without_source(), credits=0)
    (detach,) = refused.came(d.Detach)
    assert detach.error.condition == AmqpCondition.NOT_FOUND
