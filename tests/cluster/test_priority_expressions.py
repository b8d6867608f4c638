"""Queues that deliver by an expression over their messages (D10), on every kind of queue and over owners."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from tests.cluster.kept_links import owner, site
from tests.cluster.kinds import client, declared
from tests.cluster.test_browsing_consumers import browser
from tests.cluster.test_modified_annotations import sent
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.sections import application, message

__all__ = ["client", "declared", "site"]

WORTH = "/price * /qty"


def order(price: float, qty: int) -> bytes:
    return b'{"price": %r, "qty": %d}' % (price, qty)


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.requirement("D10.1", "D10.2", "D10.3")
def test_the_highest_value_comes_first_and_the_oldest_of_equal_ones(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared(priority_expression=WORTH)
    bodies = [order(2, 3), b"no JSON", order(1, 6), order(-4, 1), order(7, 10**12), order(0, 0), b"[]"]
    client.confirms(client.publish(queue, *bodies, delivery_mode=mode))
    highest, first, second, zero = order(7, 10**12), order(2, 3), order(1, 6), order(0, 0)
    assert client.bodies(queue) == [highest, first, second, zero, b"no JSON", order(-4, 1), b"[]"]


@pytest.mark.requirement("D10.1")
def test_a_property_ranks_messages_of_both_protocols(site: Site) -> None:
    client = site.client("n2")
    client.declare("q", priority_expression="weight")
    for weight in (3, 9, 6):
        client.confirms(client.publish("q", b"%d" % weight, headers={"weight": weight}))
    sent(site, "q", message(application(weight=7), body=b"7"))
    assert client.bodies("q") == [b"9", b"7", b"6", b"3"]


@pytest.mark.requirement("D10.1", "D10.3")
def test_a_message_that_is_given_back_takes_its_place_again(client: Client) -> None:
    client.declare("q", priority_expression="/n")
    client.confirms(client.publish("q", *[b'{"n": %d}' % n for n in (1, 8, 8, 4)]))
    client.consume("q", prefetch=2)
    client.site.until(lambda: len(client.deliveries) == 2)
    client.nack(client.deliveries[0], requeue=True)
    client.site.until(lambda: len(client.deliveries) == 3)
    found = [one.body for one in client.deliveries]
    assert found == [b'{"n": 8}'] * 3
    assert client.deliveries[2].method.redelivered


@pytest.mark.requirement("D10.1", "D10.3")
@pytest.mark.parametrize("power", [False, True])
def test_the_next_owner_knows_the_ranks(site: Site, power: bool) -> None:
    home = site.client("n1")
    home.declare("q", priority_expression="/n")
    home.confirms(home.publish("q", *[b'{"n": %d}' % n for n in (2, 7, 5, 2, 9)]))
    first = owner(site)
    far = site.client(next(name for name in site.nodes if name != first))
    site.nodes[first].stop(power=power)
    far.confirms(far.publish("q", b'{"n": 6}'))
    assert far.bodies("q") == [b'{"n": %d}' % n for n in (9, 7, 6, 5, 2, 2)]


@pytest.mark.requirement("D10.1")
def test_a_full_queue_drops_the_oldest_message_of_the_lowest_value(client: Client) -> None:
    client.declare("q", priority_expression="/n", max_length=3)
    client.confirms(
        client.publish("q", *[b'{"n": %d, "i": %d}' % (n, i) for i, n in enumerate((1, 1, 5, 9, 1))])
    )
    assert client.bodies("q") == [b'{"n": 9, "i": 3}', b'{"n": 5, "i": 2}', b'{"n": 1, "i": 4}']


@pytest.mark.requirement("D10.1")
def test_a_filter_has_its_messages_by_their_ranks(client: Client) -> None:
    client.declare("q", priority_expression="/n")
    client.confirms(client.publish("q", *[b'{"n": %d}' % n for n in (1, 4, 3, 2, 6)]))
    client.consume("q", arguments={"x-filter": "/n % 2 = 0"})
    client.site.until(lambda: len(client.deliveries) == 3)
    assert [one.body for one in client.deliveries] == [b'{"n": 6}', b'{"n": 4}', b'{"n": 2}']


@pytest.mark.requirement("D10.1")
def test_messages_of_transactions_and_dead_letters_have_ranks(client: Client) -> None:
    client.declare("q", priority_expression="/n")
    client.declare("waiting", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="q")
    client.confirms(client.publish("waiting", *[b'{"n": %d}' % n for n in (5, 1)]))
    client.site.until(lambda: client.depth("q") == 2)
    other = client.site.client("n1", transactional=True)
    other.publish("q", *[b'{"n": %d}' % n for n in (3, 8)])
    other.commit()
    assert client.bodies("q") == [b'{"n": %d}' % n for n in (8, 5, 3, 1)]


def test_browsing_shows_ranks_in_their_order(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", priority_expression="/n")
    client.confirms(client.publish("q", *[b'{"n": %d}' % n for n in (1, 10**15, 300)]))
    taker = browser(site, "n2", limit=1)
    site.until(lambda: len(taker.bodies) == 1)
    taker.credit(5)
    site.until(lambda: len(taker.bodies) == 3)
    assert taker.bodies == [b'{"n": %d}' % n for n in (10**15, 300, 1)]


@pytest.mark.requirement("D10.1")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"priority_expression": "/n +"}, "the expression ends too early at column 5"),
        ({"priority_expression": 7}, "unacceptable_type"),
        ({"priority_expression": "/n", "max_priority": 9}, "both x-priority-expression and x-max-priority"),
        ({"priority_expression": "/n", "group_by": "key"}, "both x-priority-expression and x-group-by"),
    ],
)
def test_a_wrong_expression_is_refused(client: Client, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=reason) as refused:
        client.declare("q", **arguments)
    assert refused.value.code == 406


def test_no_queue_has_an_expression_before_all_nodes_know_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-priority-expression", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first") as refused:
        client.declare("q", priority_expression="/n")
    assert refused.value.code == 406
