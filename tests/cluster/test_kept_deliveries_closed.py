"""Links whose deliveries are kept, and connections that seem to live at nodes that were cut off while the
clients went on elsewhere (docs/decisions/0047-leases-of-links.md).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TerminusExpiryPolicy
from tests.cluster.kept_links import (
    ACCEPTED,
    QUEUE,
    Link,
    attached,
    client,
    drained,
    keeping,
    kept,
    owner,
    publish,
    site,
    stolen,
)
from tests.cluster.links import LinkClient
from tests.cluster.test_leases import isolate
from tests.site import Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled

__all__ = ["client", "site"]


def _never(unsettled: dict[bytes, None] | None = None) -> d.Attach:
    return keeping(unsettled, timeout=0, expiry_policy=TerminusExpiryPolicy.NEVER)


class HalfOpen:
    """A link at a node that is cut off, whose client has attached the link again elsewhere."""

    def __init__(self, site: Site, cut: int) -> None:
        self.site, self.at_owner = site, owner(site)
        others = [name for name in site.nodes if name != self.at_owner]
        self.cut, self.alive = others[cut], others[1 - cut]
        self.former = Link(site, self.cut, _never())
        self.mend: Callable[[], None] = isolate(site, self.cut)
        self.again = Link(site, self.alive, _never({}))

    def let_back(self, way: str) -> None:
        """The node that was cut off greets the owner, or a new one."""
        if way == "new owner":
            self.site.nodes[self.at_owner].stop(power=True)
        elif way == "given up":
            self.site.run(8.0)
        self.mend()
        self.site.run(8.0)


@pytest.fixture(params=[0, 1])
def half_open(site: Site, client: Client, request: pytest.FixtureRequest) -> HalfOpen:
    return HalfOpen(site, request.param)


BACK = ("same owner", "given up", "new owner")


@pytest.mark.requirement("B7.7", "B7.9")
@pytest.mark.parametrize("way", BACK)
@pytest.mark.parametrize("end", ["closed", "detached", "lost"])
def test_a_consumer_that_comes_back_late_does_not_get_a_link_that_has_ended_elsewhere(
    half_open: HalfOpen, end: str, way: str
) -> None:
    site, again = half_open.site, half_open.again
    if end == "closed":
        again.submit(d.Detach(0, True))
        site.until(lambda: again.came(d.Detach))
    else:
        again.end(end)
        site.run(1.0)
    half_open.let_back(way)
    assert stolen(half_open.former)
    beside = site.client(half_open.alive)
    publish(beside, b"1", b"2")
    other = LinkClient(site, half_open.alive, receiver(1, QUEUE), credit(10, handle=1))
    assert [payload[-1:] for payload in other.payloads] == [b"1", b"2"]
    assert not half_open.former.payloads and not kept(site)
    other.send(settled(0, 1, ACCEPTED))
    drained(site, beside)


@pytest.mark.requirement("B7.7", "B7.9")
@pytest.mark.parametrize("way", BACK)
def test_a_consumer_that_comes_back_late_takes_the_link_from_no_later_one(
    half_open: HalfOpen, way: str
) -> None:
    half_open.let_back(way)
    assert stolen(half_open.former) and not half_open.again.came(d.Detach)
    beside = half_open.site.client(half_open.alive)
    publish(beside, b"1", b"2")
    assert half_open.again.bodies == b"12" and not half_open.former.payloads
    half_open.again.accept(0, 1)
    drained(half_open.site, beside)


@pytest.mark.parametrize("killed", ["owner", "nothing"])
def test_a_consumer_keeps_its_link_over_the_loss_of_its_owner(
    site: Site, client: Client, killed: str
) -> None:
    at_owner = owner(site)
    name = next(one for one in site.nodes if one != at_owner)
    link = Link(site, name, _never())
    if killed == "owner":
        site.nodes[at_owner].stop(power=True)
    else:
        isolate(site, name)()
    site.run(8.0)
    publish(site.client(name), b"1")
    assert link.bodies == b"1" and not link.came(d.Detach)
    link.accept(0)
    link.end("detached")
    drained(site, site.client(name))


@pytest.mark.parametrize("way", ["closed for good", "lost", "detached", "ended", "closed"])
def test_the_log_does_not_have_a_link_that_has_ended(site: Site, client: Client, way: str) -> None:
    link = Link(site, next(one for one in site.nodes if one != owner(site)), _never())
    assert attached(site) == 1
    if way == "closed for good":
        link.send(d.Detach(0, True))
    else:
        link.end(way)
    site.until(lambda: not attached(site))


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("killed", ["front end", "both"])
def test_the_log_does_not_have_the_links_of_a_dead_front_end(
    site: Site, client: Client, killed: str, power: bool
) -> None:
    at_owner = owner(site)
    name = at_owner if killed == "both" else next(one for one in site.nodes if one != at_owner)
    Link(site, name, _never())
    site.nodes[name].stop(power=power)
    site.run(8.0)
    site.nodes[name].start()
    site.until(lambda: not attached(site))


def test_the_log_does_not_have_a_link_that_ends_while_there_is_no_owner(site: Site, client: Client) -> None:
    at_owner = owner(site)
    name = next(one for one in site.nodes if one != at_owner)
    link = Link(site, name, _never())
    site.nodes[at_owner].stop(power=True)
    site.run(0.1)
    link.lose()
    site.run(8.0)
    assert not attached(site)


@pytest.mark.interpreted
def test_no_link_is_logged_while_a_member_does_not_read_that(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.LINKS_IN_LOGS", FORMAT_LEVEL + 1)
    at_owner = owner(site)
    name, alive = (one for one in site.nodes if one != at_owner)
    early = Link(site, name, _never())
    assert not attached(site)
    monkeypatch.undo()
    later = _never()
    later.name = "later"
    Link(site, name, later)
    site.nodes[at_owner].stop(power=True)
    site.run(8.0)
    assert attached(site) == 1, "the log has the later link"
    publish(site.client(alive), b"1", b"2")
    assert len(early.bodies) == 1 and not early.came(d.Detach)


@pytest.mark.interpreted
def test_a_link_is_not_logged_any_more_when_a_member_goes_back_to_the_release_before(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_owner = owner(site)
    name, alive = (one for one in site.nodes if one != at_owner)
    former = Link(site, name, _never())
    monkeypatch.setattr("cluster.catalog.membership.formats.LINKS_IN_LOGS", FORMAT_LEVEL + 1)
    again = Link(site, alive, _never({}))
    assert stolen(former)
    site.nodes[at_owner].stop(power=True)
    site.run(8.0)
    assert not attached(site)
    publish(site.client(alive), b"1")
    assert again.bodies == b"1" and not again.came(d.Detach)


@pytest.mark.requirement("B7.9")
@pytest.mark.parametrize("way", BACK)
@pytest.mark.parametrize("taken", [False, True], ids=["ready", "taken by another consumer"])
def test_what_a_late_consumer_still_holds_of_a_closed_link_goes_back_to_the_queue(
    site: Site, client: Client, way: str, taken: bool
) -> None:
    at_owner = owner(site)
    cut, alive = (name for name in site.nodes if name != at_owner)
    former = Link(site, cut, _never())
    publish(client, b"1", b"2")
    assert former.bodies == b"12"
    mend = isolate(site, cut)
    again = Link(site, alive, _never({}))
    assert again.bodies == b"12"
    again.submit(d.Detach(0, True))
    site.until(lambda: again.came(d.Detach))
    other = LinkClient(site, alive, receiver(1, QUEUE), credit(2 if taken else 0, handle=1))
    assert len(other.payloads) == (2 if taken else 0)
    if way == "new owner":
        site.nodes[at_owner].stop(power=True)
    elif way == "given up":
        site.run(8.0)
    mend()
    site.run(8.0)
    assert stolen(former) and not kept(site)
    other.send(credit(10, delivery_count=len(other.payloads), handle=1))
    assert sorted(payload[-1:] for payload in other.payloads) == [b"1", b"2"]
    other.send(settled(0, 1, ACCEPTED))
    drained(site, site.client(alive))
