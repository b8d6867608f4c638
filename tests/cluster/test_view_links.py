"""Links of AMQP 1.0 on which clients follow views (D15): rows and changes, from any node, over lost
owners.
"""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, SenderSettleMode
from tests.cluster.kept_links import owner, site
from tests.cluster.links import LinkClient
from tests.cluster.test_views import NAME, define, order
from tests.site import Site
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.view_rows import ToldRow, told_row

__all__ = ["site"]

pytestmark = pytest.mark.requirement("D15.2")

ADDRESS = f"/views/{NAME}"


class Follower(LinkClient):
    """A client that follows a view over one link."""

    def __init__(
        self, site: Site, node: str, wanted: int = 1000, address: str | None = ADDRESS, **fields: Any
    ) -> None:
        self.seen = 0
        self.rows: dict[str, ToldRow] = {}
        """The rows that the client knows, by their keys."""
        attach = [receiver(0, address, **fields)] if address else []
        super().__init__(site, node, *attach, *([credit(wanted)] if attach and wanted else []))

    def grant(self, wanted: int, **fields: Any) -> list[Any]:
        return self.send(credit(wanted, len(self.payloads), **fields))

    @property
    def news(self) -> list[ToldRow]:
        """The rows that have come since the last call."""
        found = [told_row(one) for one in self.payloads[self.seen :]]
        self.seen += len(found)
        for one in found:
            self.rows[str(one.key)] = one
        return found

    def ends(self) -> list[d.Detach]:
        self.reads()
        return [one.performative for one in self.frames if isinstance(one.performative, d.Detach)]

    def knows(self, *rows: dict[str, Any]) -> None:
        """Returns when the client knows these rows, and no others."""

        def known() -> bool:
            _ = self.news
            found = [one.row for one in self.rows.values() if one.row is not None]
            return sorted(map(str, found)) == sorted(map(str, rows))

        self.site.until(known)


def row(customer: str | None, count: int, total: float | None) -> dict[str, Any]:
    return {"c": customer, "n": count, "sum": total}


@pytest.fixture
def home(site: Site) -> Any:
    """A client of the queue under the view, which has two rows."""
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), order("b", 2)))
    return client


@pytest.mark.parametrize("address", [ADDRESS, NAME, f"amqp://host/views/{NAME}", f"amqp://host:5672/{NAME}"])
def test_a_link_gets_the_present_rows_and_then_each_change(site: Site, home: Any, address: str) -> None:
    follower = Follower(site, "n3", address=address)
    assert follower.news == [ToldRow(["a"], row("a", 1, 1)), ToldRow(["b"], row("b", 1, 2))]
    home.confirms(home.publish("q", order("a", 2), b"no JSON"))
    follower.knows(row("a", 2, 3), row("b", 1, 2), row(None, 1, None))
    assert home.purge("q") == 4
    follower.knows()
    assert {key for key, one in follower.rows.items() if one.row is None} == {"['a']", "['b']", "[None]"}
    assert not follower.ends()


def test_a_view_without_groups_has_one_row_and_rows_need_not_show_their_group(site: Site, home: Any) -> None:
    define(site, "q", "one", group_by=[], fields={"n": "COUNT(*)"})
    define(site, "q", "counts", fields={"n": "COUNT(*)"})
    assert Follower(site, "n2", address="/views/one").news == [ToldRow([], {"n": 2})]
    told = Follower(site, "n2", address="/views/counts").news
    assert told == [ToldRow(["a"], {"n": 1}), ToldRow(["b"], {"n": 1})]


@pytest.mark.requirement("D15.3")
def test_leased_messages_leave_the_rows_of_a_follower(site: Site, home: Any) -> None:
    follower = Follower(site, "n3")
    follower.knows(row("a", 1, 1), row("b", 1, 2))
    taker = site.client("n2")
    taker.consume("q", prefetch=1)
    follower.knows(row("b", 1, 2))
    taker.close()
    follower.knows(row("a", 1, 1), row("b", 1, 2))


def test_credit_bounds_what_comes_and_changes_between_are_merged(site: Site, home: Any) -> None:
    follower = Follower(site, "n3", wanted=1)
    assert follower.news == [ToldRow(["a"], row("a", 1, 1))]
    for price in range(50):
        home.confirms(home.publish("q", order("b", price)))
        site.run(0.02)
    assert follower.news == []
    follower.grant(1)
    assert follower.news == [ToldRow(["b"], row("b", 51, 2 + sum(range(50))))]
    for price in range(50):
        home.confirms(home.publish("q", order("a", price)))
        site.run(0.02)
    assert follower.news == []
    follower.grant(5)
    assert follower.news == [ToldRow(["a"], row("a", 51, 1 + sum(range(50))))]
    (session,) = follower.session.connection.sessions
    assert len(session.links) == 1


def test_a_drain_ends_with_the_present_rows(site: Site, home: Any) -> None:
    follower = Follower(site, "n3", wanted=0)
    assert follower.news == []
    answers = follower.grant(10, drain=True)
    assert [one.row for one in follower.news] == [row("a", 1, 1), row("b", 1, 2)]
    (flow,) = [one for one in answers if isinstance(one, d.Flow) and one.handle is not None]
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 10, True)
    home.confirms(home.publish("q", order("b", 2)))
    site.run(0.2)
    assert follower.news == []
    answers = follower.send(credit(10, 10, drain=True))
    assert [one.row for one in follower.news] == [row("b", 2, 4)]
    (flow,) = [one for one in answers if isinstance(one, d.Flow) and one.handle is not None]
    assert (flow.link_credit, flow.delivery_count) == (0, 20)
    (flow,) = [one for one in follower.send(credit(3, 20, drain=True)) if isinstance(one, d.Flow)]
    assert follower.news == [] and (flow.link_credit, flow.delivery_count) == (0, 23)


def test_a_drain_beside_a_question_that_waits(site: Site, home: Any) -> None:
    follower = Follower(site, "n3")
    assert len(follower.news) == 2
    answers = follower.send(credit(5, 2, drain=True))
    (flow,) = [one for one in answers if isinstance(one, d.Flow) and one.handle is not None]
    assert (flow.link_credit, flow.delivery_count) == (0, 7) and follower.news == []
    follower.send(credit(5, 7))
    home.confirms(home.publish("q", order("c", 1)))
    follower.knows(row("a", 1, 1), row("b", 1, 2), row("c", 1, 1))


def test_deliveries_are_settled_and_the_node_says_so(site: Site, home: Any) -> None:
    follower = Follower(site, "n2")
    (attach,) = [one.performative for one in follower.frames if isinstance(one.performative, d.Attach)]
    assert attach.snd_settle_mode is SenderSettleMode.SETTLED
    transfers = [one.performative for one in follower.frames if isinstance(one.performative, d.Transfer)]
    assert len(transfers) == 2 and all(one.settled for one in transfers)


@pytest.mark.parametrize("power", [False, True])
def test_a_follower_goes_on_with_the_next_owner(site: Site, home: Any, power: bool) -> None:
    first = owner(site)
    near, far = (name for name in site.nodes if name != first)
    writer, follower = site.client(near), Follower(site, far)
    writer.confirms(writer.publish("q", *(order("ab"[n % 2], n) for n in range(3000))))
    follower.knows(row("a", 1501, 1 + sum(range(0, 3000, 2))), row("b", 1501, 2 + sum(range(1, 3000, 2))))
    _ = follower.news
    site.nodes[first].stop(power=power)
    site.run(3)
    assert follower.news == [], "no row has changed"
    writer.confirms(writer.publish("q", order("c", 1)))
    site.until(lambda: bool(follower.news))
    assert follower.rows["['c']"].row == row("c", 1, 1) and not follower.ends()
    site.nodes[first].start()
    assert writer.purge("q") == 3003
    follower.knows()


def test_a_view_that_lags_behind_says_so_on_its_link(site: Site, home: Any) -> None:
    count = 20_000
    for first in range(0, count, 1000):
        home.confirms(home.publish("q", *(order("a", n) for n in range(first, first + 1000))))
    site.submit("n1", "delete_view", {"vhost": "/", "name": NAME})
    follower = Follower(site, "n3", address=None)
    define(site, "q")
    follower.send(receiver(0, ADDRESS), credit(1))
    (first_told,) = follower.news
    assert 0 < first_told.behind < count and not first_told.complete
    follower.grant(100_000)
    follower.knows(row("a", count + 1, 1 + sum(range(count))), row("b", 1, 2))
    assert follower.rows["['a']"].behind == 0


def test_many_rows_come_page_by_page(site: Site, home: Any) -> None:
    home.purge("q")
    home.confirms(home.publish("q", *(order(f"c{n}", n) for n in range(2500))))
    follower = Follower(site, "n3", wanted=100_000)
    follower.knows(*(row(f"c{n}", 1, n) for n in range(2500)))
    assert follower.session.connection.sessions.parts.rows.octets > 2500 * 200
    follower.send(d.Detach(0, True))
    assert follower.session.connection.sessions.parts.rows.octets == 0


# -- ends and refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["view", "queue"])
def test_a_link_ends_with_its_view(site: Site, home: Any, way: str) -> None:
    follower = Follower(site, "n3")
    assert len(follower.news) == 2
    if way == "view":
        site.submit("n1", "delete_view", {"vhost": "/", "name": NAME})
        home.confirms(home.publish("q", order("c", 1)))
    else:
        home.delete("q")
    site.until(lambda: bool(follower.ends()))
    (end,) = follower.ends()
    assert end.closed and end.error is not None and end.error.condition == AmqpCondition.RESOURCE_DELETED


def test_a_closed_link_asks_no_more(site: Site, home: Any) -> None:
    follower = Follower(site, "n3")
    assert len(follower.news) == 2
    follower.send(d.Detach(0, True))
    (end,) = follower.ends()
    assert end.closed and end.error is None
    home.confirms(home.publish("q", order("c", 1)))
    site.run(0.5)
    assert follower.news == []
    again = Follower(site, "n3")
    assert len(again.news) == 3


@pytest.mark.parametrize("address", ["/views/none", "none", "/views/%2e"])
def test_an_unknown_view_is_not_found(site: Site, home: Any, address: str) -> None:
    (end,) = Follower(site, "n3", wanted=0, address=address).ends()
    assert end.error is not None and end.error.condition == AmqpCondition.NOT_FOUND


@pytest.mark.parametrize("address", ["/views/", "/views/a/b", "/views/%ff"])
def test_an_address_that_names_no_view(site: Site, home: Any, address: str) -> None:
    (end,) = Follower(site, "n3", wanted=0, address=address).ends()
    assert end.error is not None and end.error.condition == AmqpCondition.INVALID_FIELD


def test_a_view_takes_no_messages(site: Site, home: Any) -> None:
    client = LinkClient(site, "n3")
    _, end = client.send(sender(0, ADDRESS))
    assert isinstance(end, d.Detach) and end.error is not None
    assert end.error.condition == AmqpCondition.INVALID_FIELD and "nothing is sent" in str(end.error)
    site.run(0.1)
    _, end = client.send(sender(1, NAME))
    assert isinstance(end, d.Detach) and end.error is not None
    assert end.error.condition == AmqpCondition.NOT_FOUND


def test_a_row_that_is_too_large_for_the_peer_ends_the_link(site: Site, home: Any) -> None:
    follower = Follower(site, "n3", max_message_size=40)
    (end,) = follower.ends()
    assert end.error is not None and end.error.condition == "amqp:link:message-size-exceeded"
