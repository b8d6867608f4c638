"""Views over queues and streams (D15): rows of what is available, from any node, and over lost owners."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.views import MOST_OVER_QUEUE
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.view_port import UNKNOWN_VERSION, ViewRows, ViewVersion
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from tests.cluster.kept_links import owner, site
from tests.cluster.kinds import KINDS, declare
from tests.cluster.links import LinkClient
from tests.cluster.test_settling_by_bookmark import QUEUE
from tests.cluster.test_topics import TOPIC, publish
from tests.cluster.test_undoing import back, over
from tests.inside import state_of
from tests.session.test_amqp10_management import parsed
from tests.site import Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.test_management import request

__all__ = ["site"]

NAME = "v"
GROUP = {"group_by": ["/c"], "fields": {"c": "/c", "n": "COUNT(*)", "sum": "SUM(/p)"}}


def define(site: Site, queue: str, name: str = NAME, **terms: Any) -> None:
    view = {"name": name, "queue": queue, "filter": "", **GROUP, **terms}
    site.submit("n1", "put_view", {"vhost": "/", "view": view})


class Reading:
    """A question for the rows of a view, which waits for its answer."""

    def __init__(
        self, site: Site, node: str, name: str = NAME,
        known: ViewVersion = UNKNOWN_VERSION, wait_ms: int = 0,
    ) -> None:  # fmt: skip
        self.site = site
        self.answers: list[ViewRows | Refusal | None] = []
        front_end = site.front_end(node)
        take = self.answered
        site.nodes[node].input(lambda: front_end.views.read("/", name, 0, known, wait_ms, take))

    def answered(self, rows: ViewRows | None, refusal: Refusal | None) -> None:
        self.answers.append(refusal or rows)

    @property
    def answer(self) -> ViewRows:
        self.site.until(lambda: self.answers)
        (answer,) = self.answers
        if isinstance(answer, Refusal):
            raise answer
        assert answer is not None
        return answer


def read(site: Site, node: str, name: str = NAME) -> ViewRows:
    """The rows of a view that lags behind no more, and that was the same for all pages."""
    found = [Reading(site, node, name).answer]

    def whole() -> bool:
        if not is_whole(found[-1]):
            found.append(Reading(site, node, name).answer)
        return is_whole(found[-1])

    site.until(whole)
    return found[-1]


def is_whole(rows: ViewRows) -> bool:
    return not (rows.behind or rows.awaited) and rows.at_once


def rows(site: Site, node: str, name: str = NAME) -> list[list[Any]]:
    return sorted(read(site, node, name).rows, key=str)


def order(customer: str, price: float) -> bytes:
    return b'{"c": "%s", "p": %s}' % (customer.encode(), str(price).encode())


# -- what is available -----------------------------------------------------------------------------------


@pytest.mark.requirement("D15.2")
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "exclusive"])
def test_rows_follow_the_queue_from_any_node(site: Site, kind: str, mode: int) -> None:
    client = site.client("n1")
    queue = declare(client, kind)
    client.confirms(client.publish(queue, order("a", 1), order("b", 2), delivery_mode=mode))
    define(site, queue)
    assert rows(site, "n3") == [["a", 1, 1], ["b", 1, 2]]
    client.confirms(client.publish(queue, order("a", 0.5), b"no JSON", delivery_mode=mode))
    for node in site.nodes:
        assert rows(site, node) == [["a", 2, 1.5], ["b", 1, 2], [None, 1, None]]
    assert client.bodies(queue)[1:] == [order("b", 2), order("a", 0.5), b"no JSON"]
    assert rows(site, "n2") == []
    assert read(site, "n2").fields == ["c", "n", "sum"]


@pytest.mark.requirement("D15.3")
@pytest.mark.parametrize("prefetch", [1, 2])
def test_leased_messages_leave_the_rows_and_come_back_on_return(site: Site, prefetch: int) -> None:
    client = site.client("n2")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), order("a", 2), order("b", 4)))
    assert rows(site, "n3") == [["a", 2, 3], ["b", 1, 4]]
    consumer = site.client("n3")
    consumer.consume("q", prefetch=prefetch)
    site.until(lambda: len(consumer.deliveries) == prefetch)
    left = [["a", 1, 2], ["b", 1, 4]] if prefetch == 1 else [["b", 1, 4]]
    assert rows(site, "n1") == left
    consumer.close()
    site.until(lambda: client.depth("q") == 3)
    assert rows(site, "n1") == [["a", 2, 3], ["b", 1, 4]]
    taker = site.client("n1")
    taker.consume("q", prefetch=3)
    site.until(lambda: len(taker.deliveries) == 3)
    assert rows(site, "n2") == []
    taker.ack(taker.deliveries[0])
    taker.nack(taker.deliveries[2], requeue=False)
    taker.close()
    site.until(lambda: client.depth("q") == 1)
    assert rows(site, "n2") == [["a", 1, 2]]


@pytest.mark.requirement("D15.3")
def test_at_most_once_deliveries_leave_the_rows(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", semantics="at-most-once")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), order("b", 2)))
    assert rows(site, "n2") == [["a", 1, 1], ["b", 1, 2]]
    assert client.get("q") is not None
    assert rows(site, "n2") == [["b", 1, 2]]


@pytest.mark.requirement("D15.2")
def test_what_expires_is_purged_or_delayed_is_not_in_the_rows(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), expiration="200"))
    client.confirms(client.publish("q", order("b", 1), headers={"x-delay": 400}))
    client.confirms(client.publish("q", order("c", 1)))
    assert rows(site, "n2") == [["a", 1, 1], ["c", 1, 1]]
    site.run(0.3)
    assert rows(site, "n2") == [["c", 1, 1]]
    site.run(0.3)
    assert rows(site, "n2") == [["b", 1, 1], ["c", 1, 1]]
    client.purge("q")
    assert rows(site, "n2") == []


@pytest.mark.requirement("D15.2")
def test_a_view_of_a_queue_with_a_target_depth_has_what_the_queue_shows(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", target_queue_depth=2)
    define(site, "q")
    client.confirms(client.publish("q", *(order("a", n) for n in range(4))))
    assert rows(site, "n2") == [["a", 2, 1]]
    taken = client.get("q")
    assert taken is not None and taken.body == order("a", 0)
    assert rows(site, "n2") == [["a", 2, 3]]


@pytest.mark.requirement("D15.2")
def test_the_past_and_the_filter_of_a_view(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    bodies = [order("ab"[n % 2], n) for n in range(2000)]
    client.confirms(client.publish("q", *bodies))
    fields = {"least": "MIN(/p)", "most": "MAX(/p)", "avg": "AVG(/p)", "n": "COUNT(/p)"}
    define(site, "q", filter="/c = 'b' AND /p > 10", group_by=[], fields=fields)
    assert read(site, "n3").rows == [[11, 1999, 1005.0, 995]]


@pytest.mark.requirement("D15.2")
def test_a_view_over_a_stream_has_all_that_the_stream_keeps(site: Site) -> None:
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream", max_age="1s")
    client.declare("over", underlying_topic=TOPIC)
    define(site, TOPIC)
    define(site, "over", "w")
    publish(client, order("a", 1).decode(), order("b", 2).decode())
    assert client.get("over") is not None
    assert rows(site, "n3") == [["a", 1, 1], ["b", 1, 2]]
    assert rows(site, "n3", "w") == [["b", 1, 2]]
    site.run(1.5)
    assert rows(site, "n3") == []


@pytest.mark.requirement("D15.2")
def test_messages_that_are_brought_back_are_in_the_rows(site: Site) -> None:
    client = over(site)
    define(site, QUEUE)
    publish(client, order("a", 1).decode(), order("b", 2).decode())
    assert rows(site, "n2") == [["a", 1, 1], ["b", 1, 2]]
    client.drain(QUEUE)
    assert rows(site, "n2") == []
    back(site)
    assert rows(site, "n2") == [["a", 1, 1], ["b", 1, 2]]


# -- owners and definitions ------------------------------------------------------------------------------


@pytest.mark.requirement("D15.2", "D15.3")
@pytest.mark.parametrize("power", [False, True])
def test_the_next_owner_works_the_rows_out_anew(site: Site, power: bool) -> None:
    home = site.client("n1")
    home.declare("q")
    define(site, "q")
    first = owner(site)
    near, far = (name for name in site.nodes if name != first)
    client = site.client(near)
    client.confirms(client.publish("q", *(order("ab"[n % 2], n) for n in range(10))))
    consumer = site.client(far)
    consumer.consume("q", prefetch=3)
    site.until(lambda: len(consumer.deliveries) == 3)
    site.nodes[first].stop(power=power)
    left = [["a", 3, 4 + 6 + 8], ["b", 4, 3 + 5 + 7 + 9]]
    assert rows(site, near) == left
    site.nodes[first].start()
    assert rows(site, far) == left
    consumer.close()
    site.until(lambda: client.depth("q") == 10)
    assert rows(site, near) == [["a", 5, 20], ["b", 5, 25]]


@pytest.mark.requirement("D15.2")
def test_definitions_come_change_and_go_with_their_queue(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    client.declare("r")
    client.confirms(client.publish("q", order("a", 1)))
    client.confirms(client.publish("r", order("a", 2), order("b", 3)))
    define(site, "q")
    define(site, "q", group_by=[], fields={"n": "COUNT(*)"})
    assert read(site, "n2").rows == [[1]]
    define(site, "r")
    assert rows(site, "n2") == [["a", 1, 2], ["b", 1, 3]]
    assert viewed(site) == {"r"}
    site.submit("n2", "delete_view", {"vhost": "/", "name": NAME})
    with pytest.raises(NotFoundError, match="no view 'v' in vhost '/'"):
        read(site, "n2")
    assert viewed(site) == set()
    define(site, "r")
    client.delete("r")
    client.declare("r")
    with pytest.raises(NotFoundError, match="no view 'v'"):
        read(site, "n2")
    assert all(not list(node.broker.catalog.state.views.in_vhost("/")) for node in site.nodes.values())


def viewed(site: Site) -> set[str]:
    """The queues of whose messages their owners have views."""
    site.run(0.05)
    owners = [one for node in site.nodes.values() for one in node.broker.owners.values() if one.active]
    queues = {id: queue for one in owners for id, queue in state_of(one).queues.items()}
    names = {queue.id: queue.name for queue in site.nodes["n1"].broker.catalog.state.queues.values()}
    return {names[id] for id, queue in queues.items() if queue.delivery.views is not None}


@pytest.mark.requirement("D15.2")
def test_a_restarted_cluster_has_its_views(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", order("a", 1)))
    define(site, "q")
    for node in site.nodes.values():
        node.stop(power=True)
    for node in site.nodes.values():
        node.start()
    site.until(lambda: all(node.ready for node in site.nodes.values()))
    assert rows(site, "n2") == [["a", 1, 1]]


@pytest.mark.requirement("D15.2")
def test_a_policy_keeps_the_views_and_consumers_with_filters_do(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    consumer = site.client("n2")
    consumer.consume("q", prefetch=1, arguments={"x-filter": "/c = 'a'"})
    client.confirms(client.publish("q", order("b", 1), order("a", 2), order("a", 3)))
    site.until(lambda: consumer.deliveries)
    policy = {"name": "p", "pattern": ".*", "apply_to": "all", "priority": 0}
    policy |= {"definition": {"max-length": 100}}
    site.submit("n1", "put_policy", {"vhost": "/", "operator": False, "policy": policy})
    assert rows(site, "n3") == [["a", 1, 3], ["b", 1, 1]]
    site.submit("n1", "delete_view", {"vhost": "/", "name": NAME})
    define(site, "q")
    consumer.close()
    site.until(lambda: client.depth("q") == 3)
    assert rows(site, "n3") == [["a", 2, 5], ["b", 1, 1]]


@pytest.mark.requirement("D15.2", "D15.3")
def test_a_client_of_amqp_1_0_reads_a_view(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), order("b", 2)))
    client.consume("q", prefetch=1)
    site.until(lambda: client.deliveries)
    pair = (
        sender(0, MANAGEMENT_ADDRESS, "pair"),
        receiver(1, MANAGEMENT_ADDRESS, "pair"),
        credit(10, handle=1),
    )
    reader = LinkClient(site, "n3", *pair)
    reader.send(transfer(1, request(f"/views/{NAME}", "GET", None, message_id="id"), settled=True))
    (payload,) = reader.payloads
    _, status, body = parsed(payload)
    assert (status, body["rows"], body["complete"]) == (200, [{"c": "b", "n": 1, "sum": 2}], True)


# -- following -------------------------------------------------------------------------------------------


@pytest.mark.requirement("D15.2")
def test_a_reader_follows_the_versions_of_a_view(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1)))
    known = read(site, "n3").version
    following = Reading(site, "n3", known=known, wait_ms=20_000)
    site.run(1)
    assert not following.answers
    client.confirms(client.publish("q", order("b", 1)))
    answer = following.answer
    assert sorted(answer.rows) == [["a", 1, 1], ["b", 1, 1]]
    assert answer.version > known
    late = Reading(site, "n3", known=answer.version, wait_ms=500)
    site.run(0.4)
    assert not late.answers
    site.run(0.2)
    assert late.answer.version == answer.version


@pytest.mark.requirement("D15.2")
@pytest.mark.parametrize("way", ["purge", "get", "expiry", "return"])
def test_a_follower_hears_of_what_leaves_and_comes_back(site: Site, way: str) -> None:
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), expiration="1500"))
    other = site.client("n2")
    if way == "return":
        assert other.get("q", no_ack=False) is not None
    before = read(site, "n3")
    following = Reading(site, "n3", known=before.version, wait_ms=20_000)
    site.run(0.2)
    assert not following.answers
    if way == "purge":
        assert other.purge("q") == 1
    elif way == "get":
        assert other.get("q") is not None
    elif way == "return":
        other.close()
    else:
        site.run(1.5)
    site.run(0.3)
    assert following.answers
    assert following.answer.rows == ([["a", 1, 1]] if way == "return" else [])


@pytest.mark.requirement("D15.2")
def test_a_view_that_lags_behind_says_so(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    count = 20_000
    for first in range(0, count, 1000):
        client.confirms(client.publish("q", *(order("a", n) for n in range(first, first + 1000))))
    define(site, "q")
    lagging = Reading(site, "n3").answer
    assert 0 < lagging.behind < count and not lagging.complete
    assert sum(n for _, n, _ in lagging.rows) + lagging.behind == count
    consumer = site.client("n2")
    consumer.consume("q", prefetch=100)
    site.until(lambda: len(consumer.deliveries) == 100)
    assert rows(site, "n3") == [["a", count - 100, sum(range(100, count))]]


@pytest.mark.requirement("D15.2")
def test_a_follower_hears_of_the_next_owner_and_of_the_end_of_the_queue(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1)))
    first = owner(site)
    near, far = (name for name in site.nodes if name != first)
    known = read(site, near).version
    following = Reading(site, near, known=known, wait_ms=20_000)
    site.run(0.1)
    site.nodes[first].stop(power=True)
    assert following.answer.version.term > known.term
    last = Reading(site, far, known=read(site, far).version, wait_ms=20_000)
    site.run(0.1)
    site.client(near).delete("q")
    with pytest.raises(NotFoundError, match="no queue 'q'"):
        _ = last.answer


# -- refusals --------------------------------------------------------------------------------------------


def test_a_queue_has_a_limited_number_of_views(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    for number in range(MOST_OVER_QUEUE):
        define(site, "q", f"v{number}")
    define(site, "q", "v0")
    assert isinstance(refused(site, "q", "more"), PreconditionFailedError)
    assert isinstance(refused(site, "no", "more"), NotFoundError)


def refused(site: Site, queue: str, name: str) -> Refusal | None:
    """The catalog's refusal of another view."""
    found: list[Refusal | None] = []
    view = {"name": name, "queue": queue, "filter": "", **GROUP}
    node = site.nodes["n2"]
    answer = lambda _, refusal: found.append(refusal)  # noqa: E731
    node.input(lambda: node.broker.catalog.submit("put_view", {"vhost": "/", "view": view}, answer))
    site.until(lambda: found)
    return found[0]


def test_rows_come_page_by_page(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", *(order(f"c{n}", n) for n in range(2500))))
    define(site, "q")
    found = read(site, "n3")
    assert (len(found.rows), found.at_once, found.cut) == (2500, True, False)
    assert sorted(found.rows, key=lambda row: row[2]) == [[f"c{n}", 1, n] for n in range(2500)]
