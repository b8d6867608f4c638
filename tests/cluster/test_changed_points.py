"""A queue over a stream gets another recovery point by a policy, and what the queue has never had (D13)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.effective import settings_of
from cluster.config.formats import CHANGED_POINTS
from cluster.log.event_log import EventLog
from cluster.owner.context import ChangedPast, Past
from cluster.process.overdue import OverdueLog
from node.message.bookmarks import bookmark_of
from node.queue.features.underlying_topic import RECOVERY_POINT
from tests.cluster.kept_links import site
from tests.cluster.test_policies import drop, put
from tests.cluster.test_streams import got, reading
from tests.cluster.test_topics import TOPIC, declared, publish, taken
from tests.inside import machine_of
from tests.site import Client, Site

__all__ = ["site"]

pytestmark = pytest.mark.requirement("D13.1", "D13.2")


@pytest.fixture
def told(site: Site) -> list[ChangedPast]:
    """The changes of recovery points that owners tell of."""
    found: list[ChangedPast] = []
    for node in site.nodes.values():
        node.past_changed = found.append
    return found


def settled(site: Site, client: Client, queue: str, *names: str) -> None:
    """A consumer takes and acknowledges these messages, which the queue has."""
    assert taken(client, queue) == list(names)
    site.until(lambda: client.depth(queue) == 0)


def test_another_point_brings_in_what_the_queue_has_never_had(site: Site, told: list[ChangedPast]) -> None:
    client = declared(site)
    publish(client, *"12")
    client.declare("q", underlying_topic=TOPIC)
    publish(client, *"345")
    assert [taken(client, "q")[0], client.depth("q")] == ["3", 0]
    publish(client, "6")
    put(client, recovery_point="epoch")
    site.until(lambda: client.depth("q") == 3)
    assert taken(client, "q") == ["1", "2", "6"]
    assert [one.outcome for one in told] == [Past.REFILLED]
    assert told[0].messages == 3 and told[0].oldest > 0


def test_a_point_counts_once(site: Site, told: list[ChangedPast]) -> None:
    """Whatever comes later: the same point again, a later one, none, and other owners."""
    client = declared(site)
    publish(client, *"12")
    client.declare("q", underlying_topic=TOPIC)
    publish(client, *"34")
    came = reading(site, "n2", "first", **{"x-tell": True}).deliveries
    bookmarks = [one.headers["x-bookmark"] for one in came]
    put(client, recovery_point=bookmarks[1])
    site.until(lambda: client.depth("q") == 3)
    settled(site, client, "q", *"234")
    for point in (bookmarks[2], "now", bookmarks[1], "0s"):
        put(client, recovery_point=point)
    drop(client)
    put(client, max_length=10, recovery_point=bookmarks[1])
    site.until(lambda: len(told) == 7)
    assert [one.outcome for one in told] == [Past.REFILLED, *[Past.HAD] * 6]
    assert client.depth("q") == 0
    site.nodes["n1"].stop(power=True)
    other = site.client("n2")
    site.run(1.0)
    put(other, recovery_point="epoch")
    site.until(lambda: other.depth("q") == 1)
    assert taken(other, "q") == ["1"]
    assert [one.outcome for one in told[7:]] == [Past.REFILLED]


@pytest.mark.parametrize("filter", ["", "n < 3000 OR n > 4000"])
@pytest.mark.parametrize("moment_s", [0.0, 0.001, 0.002, 0.004, 0.006, 0.01, 0.03])
def test_the_past_comes_in_once_whichever_owner_dies(site: Site, moment_s: float, filter: str) -> None:
    many = 5000 if filter else 100
    client = declared(site)
    for first in range(0, many, 500 if filter else 50):
        some = [str(number) for number in range(first, first + (500 if filter else 50))]
        publish(client, *some, headers={"n": first})
    terms = {"filter": filter} if filter else {}
    client.declare("q", underlying_topic=TOPIC, **terms)
    publish(client, "new", headers={"n": 0})
    settled(site, client, "q", "new")
    policy = {
        "name": "p", "pattern": ".*", "apply_to": "queues", "priority": 0,
        "definition": {"recovery-point": "epoch"},
    }  # fmt: skip
    asked = {"vhost": "/", "operator": False, "policy": policy}
    site.nodes["n2"].broker.catalog.submit("put_policy", asked, lambda *_: None)
    site.nodes["n2"].wanted()
    site.run(moment_s)
    site.nodes["n1"].stop(power=True)
    taker = site.client("n2")
    taker.consume("q", no_ack=True)
    firsts = [one // 500 * 500 for one in range(many)]
    wanted = [str(one) for one in range(many) if not filter or not 3000 <= firsts[one] <= 4000]
    site.until(lambda: len(taker.deliveries) >= len(wanted))
    publish(site.client("n3"), "last", headers={"n": 0})
    site.until(lambda: len(taker.deliveries) > len(wanted))
    assert got(taker) == [*wanted, "last"]


def test_points_that_change_while_the_past_comes_in_count_behind_it(site: Site) -> None:
    client = declared(site)
    for first in range(0, 3000, 500):
        publish(client, *(str(number) for number in range(first, first + 500)))
    came = reading(site, "n2", "last", **{"x-tell": True}).deliveries
    client.declare("q", underlying_topic=TOPIC, filter="TRUE")
    for point in (came[-1].headers["x-bookmark"], "epoch", "now", "epoch"):
        put(client, recovery_point=point)
    taker = site.client("n3")
    taker.consume("q", no_ack=True)
    site.until(lambda: len(taker.deliveries) == 3000)
    assert sorted(map(int, got(taker))) == list(range(3000))


def test_a_new_queue_has_the_past_by_its_policy(site: Site, told: list[ChangedPast]) -> None:
    client = declared(site)
    publish(client, *"123")
    put(client, pattern="^q", recovery_point="epoch")
    client.declare("q", underlying_topic=TOPIC)
    client.declare("own", underlying_topic=TOPIC)
    client.declare("q of its own", underlying_topic=TOPIC, recovery_point="now")
    assert taken(client, "q") == [*"123"]
    assert client.depth("own") == client.depth("q of its own") == 0
    assert not told


def test_a_policy_has_no_effect_where_a_queue_has_no_past(site: Site, told: list[ChangedPast]) -> None:
    """Neither on other queues, nor beside a deduplication window, nor with a bookmark of another queue."""
    client = declared(site)
    client.declare("plain")
    client.declare("over a pattern", underlying_topic="^s$", default_publish_target=TOPIC)
    client.declare("once", underlying_topic=TOPIC, deduplication_window=1000)
    client.declare("over", underlying_topic=TOPIC)
    state = site.nodes["n1"].broker.catalog.state
    put(client, recovery_point="epoch")
    having = [
        one.name for one in state.queues.values() if RECOVERY_POINT.field in settings_of(state, one).asked
    ]
    assert having == ["over"]
    put(client, recovery_point=bookmark_of(state.queue("/", "plain").id, 1))
    assert RECOVERY_POINT.field not in settings_of(state, state.queue("/", "over")).asked
    put(client, recovery_point=bookmark_of(state.queue("/", TOPIC).id, 1))
    assert RECOVERY_POINT.field in settings_of(state, state.queue("/", "over")).asked
    assert {one.queue for one in told} == {state.queue("/", "over").id}


def test_the_log_may_not_have_from_where_on_a_queue_has_all(site: Site, told: list[ChangedPast]) -> None:
    """A queue of an earlier release goes on, and the owner says so."""
    client = declared(site)
    publish(client, "1")
    for node in site.nodes.values():
        node.broker._peer_formats.own = CHANGED_POINTS - 1
    client.declare("q", underlying_topic=TOPIC)
    put(client, recovery_point="epoch")
    site.run(1.0)
    for node in site.nodes.values():
        node.broker._peer_formats.own = CHANGED_POINTS
    site.until(lambda: all(node.broker.formats.know_changed_points() for node in site.nodes.values()))
    assert not told
    put(client, recovery_point="1h")
    site.until(lambda: told)
    assert [one.outcome for one in told] == [Past.UNKNOWN]
    assert client.depth("q") == 0


@pytest.mark.parametrize(
    ("change", "event"),
    [
        (ChangedPast(5, Past.REFILLED, 1, 2, 3), "queue_refilled"),
        (ChangedPast(5, Past.HAD, 1, 0, 0), "queue_goes_on"),
        (ChangedPast(5, Past.UNKNOWN, 0, 2, 3), "queue_goes_on"),
    ],
)
def test_the_log_tells_where_the_queue_stands(change: ChangedPast, event: str) -> None:
    lines: list[dict[str, Any]] = []

    class Lines(EventLog):
        def __init__(self) -> None:
            pass

        def info(self, event: str, **fields: object) -> None:
            lines.append({"event": event, **fields})

    OverdueLog(Lines(), lambda queue: ("/", "q")).past(change)
    (line,) = lines
    assert (line["event"], line["vhost"], line["queue"]) == (event, "/", "q")
    assert line["messages"] == change.messages
    for name, number in (("had_from", change.first), ("oldest", change.oldest)):
        assert line[name] == (bookmark_of(5, number) if number else None)
    assert line.get("known") == {Past.REFILLED: None, Past.HAD: True, Past.UNKNOWN: False}[change.outcome]


def test_replicas_agree_about_the_past(site: Site) -> None:
    """The places of a queue are in snapshots."""
    client = declared(site)
    publish(client, *"12")
    client.declare("q", underlying_topic=TOPIC)
    put(client, recovery_point="epoch")
    site.until(lambda: client.depth("q") == 2)
    site.run(1.0)
    partition = site.front_end("n1").queue("/", TOPIC, 0).partition
    machines = [machine_of(node.broker.owners[partition]) for node in site.nodes.values()]
    assert len({machine.snapshot() for machine in machines}) == 1


@pytest.mark.parametrize("filter", ["", "TRUE"])
def test_a_purge_behind_a_policy_removes_the_past(site: Site, filter: str) -> None:
    client = declared(site)
    publish(client, *"123")
    client.declare("q", underlying_topic=TOPIC, **({"filter": filter} if filter else {}))
    put(client, recovery_point="epoch")
    client.purge("q")
    publish(client, "4")
    site.run(0.5)
    assert taken(client, "q") == ["4"]
