"""Streams that a view feeds (D15): each change of a row is a message of the stream, once, whatever owner is
lost.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.catalog.fed_streams import LONGEST_CHAIN
from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from node.refusal import PreconditionFailedError, Refusal
from tests.cluster.kept_links import site
from tests.cluster.test_streams import STREAM, got, reading
from tests.cluster.test_views import NAME, define, order
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

pytestmark = pytest.mark.requirement("D15.2")

Row = tuple[str, dict[str, Any] | None]


def row(customer: str, count: int, total: float) -> Row:
    return f'["{customer}"]', {"c": customer, "n": count, "sum": total}


def gone(customer: str) -> Row:
    return f'["{customer}"]', None


def view(queue: str, name: str) -> dict[str, Any]:
    return {"name": name, "queue": queue, "filter": "", "group_by": ["/c"], "fields": {"n": "COUNT(*)"}}


def put(site: Site, view: dict[str, Any]) -> None:
    """Define a view. Raises what the catalog refuses it with."""
    answers: list[Refusal | None] = []
    node = site.nodes["n1"]
    arguments = {"vhost": "/", "view": view}
    node.broker.catalog.submit("put_view", arguments, lambda _, refusal: answers.append(refusal))
    node.wanted()
    site.until(lambda: answers)
    if answers[0] is not None:
        raise answers[0]


class Told:
    """Takes what a queue over the stream gets."""

    def __init__(self, site: Site, node: str, queue: str = "all") -> None:
        self.site, self.client, self.queue = site, site.client(node), queue
        self.rows = list[Row]()

    def take(self) -> None:
        for delivery in self.client.drain(self.queue):
            headers = delivery.headers
            body = json.loads(delivery.body)
            assert (body is None) == bool(headers.get("view_deleted"))
            self.rows.append((headers["view_key"], body))

    def knows(self, *rows: Row) -> None:
        def known() -> bool:
            self.take()
            last = dict(self.rows)
            return {key: one for key, one in last.items() if one is not None} == dict(rows)

        self.site.until(known, step_s=0.05)


@pytest.fixture
def home(site: Site) -> Client:
    """A client of the queue under the view, which has two rows, and feeds a stream with a queue over it."""
    client = site.client("n1")
    client.declare("q")
    define(site, "q")
    client.confirms(client.publish("q", order("a", 1), order("b", 2)))
    client.declare(STREAM, queue_type="stream", view=NAME)
    client.declare("all", underlying_topic=STREAM, recovery_point="epoch")
    return client


def test_a_stream_has_the_rows_and_then_each_change(site: Site, home: Client) -> None:
    told = Told(site, "n2")
    told.knows(row("a", 1, 1), row("b", 1, 2))
    home.confirms(home.publish("q", order("a", 2)))
    told.knows(row("a", 2, 3), row("b", 1, 2))
    assert home.purge("q") == 3
    told.knows()
    assert told.rows == [row("a", 1, 1), row("b", 1, 2), row("a", 2, 3), gone("a"), gone("b")]


def owner_of(site: Site, name: str) -> str:
    """The node that owns a queue."""
    for node in site.nodes.values():
        queue = node.broker.catalog.state.queues.get(("/", name)) if node.ready else None
        owner = None if queue is None else node.broker.owners.get(queue.partition)
        if owner is not None and owner.active:
            return node.name
    raise AssertionError("there is no owner")


def grows(rows: list[Row]) -> None:
    """No row has been told that is not newer than the one before."""
    counts = dict[str, int]()
    for key, one in rows:
        assert one is not None, f"{key} has gone"
        assert one["n"] > counts.get(key, 0), f"{key} has shrunk, or was told again"
        counts[key] = one["n"]


@pytest.mark.parametrize("apart", [False, True], ids=["one partition", "two partitions"])
@pytest.mark.parametrize("power", [False, True], ids=["stop", "power"])
@pytest.mark.parametrize("lost", ["q", STREAM])
def test_each_change_is_told_once_whatever_owner_is_lost(
    site: Site, lost: str, power: bool, apart: bool
) -> None:
    client = site.client("n1")
    client.declare("q", **({"initial_owner": "n1"} if apart else {}))
    define(site, "q")
    client.declare(STREAM, queue_type="stream", view=NAME, **({"initial_owner": "n2"} if apart else {}))
    client.declare("all", underlying_topic=STREAM, recovery_point="epoch")
    assert (owner_of(site, "q") != owner_of(site, STREAM)) == apart
    client.confirms(client.publish("q", *(order("ab"[n % 2], 1) for n in range(3000))))
    first = owner_of(site, lost)
    near, far = (name for name in site.nodes if name != first)
    told = Told(site, far)
    told.knows(row("a", 1500, 1500), row("b", 1500, 1500))
    before, writer = list(told.rows), site.client(near)
    site.nodes[first].stop(power=power)
    site.run(3)
    told.take()
    assert told.rows == before, "no row has changed"
    writer.confirms(writer.publish("q", order("c", 1)))
    told.knows(row("a", 1500, 1500), row("b", 1500, 1500), row("c", 1, 1))
    grows(told.rows)
    site.nodes[first].start()
    assert writer.purge("q") == 3001
    told.knows()
    assert sorted(told.rows[-3:]) == [gone("a"), gone("b"), gone("c")]


def test_the_rows_outlive_all_nodes_and_come_out_of_a_snapshot(site: Site, home: Client) -> None:
    told = Told(site, "n2")
    told.knows(row("a", 1, 1), row("b", 1, 2))
    for price in range(100):
        home.confirms(home.publish("q", order("a", price), b"x" * 2000))
        site.run(0.05)
    told.take()
    taken = list(told.rows)
    for node in site.nodes.values():
        node.stop(power=True)
    for node in site.nodes.values():
        node.start()
    site.until(lambda: all(node.ready for node in site.nodes.values()))
    again = Told(site, "n1")
    site.run(3)
    again.take()
    writer = site.client("n1")
    writer.confirms(writer.publish("q", order("d", 1)))
    again.rows = [*taken, *again.rows]
    wanted = [row("a", 101, 1 + sum(range(100))), row("b", 1, 2), row("d", 1, 1)]
    again.knows(*wanted, ("[null]", {"c": None, "n": 100, "sum": None}))
    grows(again.rows)
    stream = site.nodes["n1"].broker.catalog.state.queues["/", STREAM]
    groups = [node.broker.host.groups[stream.partition] for node in site.nodes.values()]
    assert all(group.log.first_index() > 100 for group in groups), "the log begins with a snapshot"


def test_readers_of_the_stream_have_all_changes(site: Site, home: Client) -> None:
    told = Told(site, "n2")
    told.knows(row("a", 1, 1), row("b", 1, 2))
    home.confirms(home.publish("q", order("a", 2)))
    told.knows(row("a", 2, 3), row("b", 1, 2))
    read = [json.loads(body) for body in got(reading(site, "n3", "first"))]
    assert read == [one for _, one in told.rows] and len(read) == 3


def test_a_queue_with_keys_over_the_stream_has_the_rows(site: Site, home: Client) -> None:
    home.declare("last", underlying_topic=STREAM, recovery_point="epoch", key="view_key")
    home.confirms(home.publish("q", order("a", 2)))
    Told(site, "n2").knows(row("a", 2, 3), row("b", 1, 2))
    site.until(lambda: home.depth("last") == 2)
    last = Told(site, "n3", "last")
    last.take()
    assert sorted(last.rows) == [row("a", 2, 3), row("b", 1, 2)]


@pytest.mark.parametrize("recovery", [{}, {"recovery_point": "epoch"}], ids=["now", "epoch"])
def test_queues_over_patterns_in_other_partitions_get_the_changes(
    site: Site, home: Client, recovery: dict[str, str]
) -> None:
    Told(site, "n1").knows(row("a", 1, 1), row("b", 1, 2))
    home.declare("t", queue_type="stream", initial_owner="n3")
    home.declare("several", underlying_topic="^[st]$", default_publish_target="t", **recovery)
    partitions = {queue.partition for queue in site.nodes["n1"].broker.catalog.state.queues.values()}
    assert len(partitions) == 2
    site.run(1)
    home.confirms(home.publish("q", order("c", 2)))
    several = Told(site, "n2", "several")
    several.knows(*([row("a", 1, 1), row("b", 1, 2)] if recovery else []), row("c", 1, 2))
    assert home.confirms(home.publish("several", b"1")) == [True]


def test_a_view_without_groups_and_one_that_is_defined_anew(site: Site, home: Client) -> None:
    define(site, "q", "one", group_by=[], fields={"n": "COUNT(*)"})
    home.declare("single", queue_type="stream", view="one")
    home.declare("counts", underlying_topic="single", recovery_point="epoch")
    told = Told(site, "n2", "counts")
    told.knows(("[]", {"n": 2}))
    define(site, "q", "one", group_by=["/c"], fields={"n": "COUNT(*)"})
    told.knows(('["a"]', {"n": 1}), ('["b"]', {"n": 1}))
    assert home.purge("q") == 2
    told.knows()


def test_a_stream_goes_on_when_its_view_is_there_again(site: Site, home: Client) -> None:
    told = Told(site, "n2")
    told.knows(row("a", 1, 1), row("b", 1, 2))
    site.submit("n1", "delete_view", {"vhost": "/", "name": NAME})
    home.confirms(home.publish("q", order("c", 1)))
    site.run(3)
    told.take()
    assert len(told.rows) == 2, "a view that is gone tells nothing"
    home.declare("r")
    home.confirms(home.publish("r", order("a", 1), order("d", 1)))
    define(site, "r")
    told.knows(row("a", 1, 1), row("d", 1, 1))
    assert told.rows[2:] == [row("d", 1, 1), gone("b")]


def test_many_rows_are_told_in_steps(site: Site, home: Client) -> None:
    home.purge("q")
    home.confirms(home.publish("q", *(order(f"c{n}", n) for n in range(2500))))
    told = Told(site, "n2")
    told.knows(*(row(f"c{n}", 1, n) for n in range(2500)))
    told.rows.clear()
    home.purge("q")
    site.until(lambda: told.take() or len(told.rows) >= 2500, step_s=0.05)
    assert sorted(told.rows) == sorted(gone(f"c{n}") for n in range(2500))


# -- refusals ------------------------------------------------------------------------------------------


def test_clients_publish_nothing_to_the_stream(site: Site, home: Client) -> None:
    home.declare_exchange("e", "fanout")
    home.bind(STREAM, "e")
    told = Told(site, "n2")
    told.knows(row("a", 1, 1), row("b", 1, 2))
    for key, exchange in ((STREAM, ""), ("all", ""), ("", "e")):
        assert home.confirms(home.publish(key, b"1", exchange=exchange)) == [False]
    home.declare("dying", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key=STREAM)
    home.confirms(home.publish("dying", b"2"))
    buyer = site.client("n3", transactional=True)
    buyer.publish(STREAM, b"3")
    with pytest.raises(ChannelClosedError):
        buyer.commit()
    site.run(1)
    home.confirms(home.publish("q", order("c", 1)))
    told.knows(row("a", 1, 1), row("b", 1, 2), row("c", 1, 1))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"queue_type": "stream", "view": "none"}, "no view 'none'"),
        ({"queue_type": "stream", "view": 7}, "invalid arg 'x-view'"),
        ({"queue_type": "quorum", "view": NAME}, "a view feeds streams"),
        ({"queue_type": "stream", "view": NAME, "filter": "a = 1"}, "filter the view"),
    ],
)
def test_a_declaration_that_no_view_can_feed(
    site: Site, home: Client, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ChannelClosedError, match=reason):
        home.declare("other", **arguments)


def test_circles_are_refused(site: Site, home: Client) -> None:
    site.submit("n1", "put_view", {"vhost": "/", "view": view("all", "w")})
    home.declare("t", queue_type="stream", view="w")
    with pytest.raises(PreconditionFailedError, match="would change by what it tells 's'"):
        put(site, view("t", NAME))
    with pytest.raises(PreconditionFailedError, match="would change by what it tells 's'"):
        put(site, view("all", NAME))
    home.declare("p", underlying_topic="^[tu]$", default_publish_target="t")
    put(site, view("p", "x"))
    with pytest.raises(ChannelClosedError, match="would change by what it tells 'u'"):
        home.declare("u", queue_type="stream", view="x")


def test_chains_are_bounded(site: Site, home: Client) -> None:
    below = STREAM
    for number in range(LONGEST_CHAIN - 1):
        put(site, view(below, f"v{number}"))
        below = f"s{number}"
        home.declare(below, queue_type="stream", view=f"v{number}")
    put(site, view(below, "more"))
    with pytest.raises(ChannelClosedError, match="a chain of more than 16"):
        home.declare("more", queue_type="stream", view="more")


def test_no_stream_is_fed_before_all_nodes_read_the_level(
    site: Site, home: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-view", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match="a release without x-view"):
        home.declare("other", queue_type="stream", view=NAME)
