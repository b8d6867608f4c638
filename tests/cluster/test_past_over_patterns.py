"""A queue over a pattern of streams has the past of streams in several partitions (D1, D13)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.owner import feeding
from cluster.owner.context import PassedFeed
from cluster.owner.partition import PartitionOwner
from node.wire.amqp091 import methods as m
from tests.cluster.kept_links import site
from tests.cluster.test_policies import put
from tests.cluster.test_recovery_points import undecided
from tests.cluster.test_streams import got, now_s
from tests.cluster.test_topics import PATTERN, partitions, publish, streams
from tests.inside import machine_of, state_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

pytestmark = pytest.mark.requirement("D1.2", "D13.1")

NAMES = ("s", "s2", "s3")


def over(client: Client, name: str = "q", point: str = "epoch", **arguments: Any) -> None:
    client.declare(name, **PATTERN | {"recovery_point": point} | arguments)


def of(names: list[str], stream: str) -> list[str]:
    """The messages of a stream, of those that are called by streams."""
    return [name for name in names if name.split()[0] == stream]


def all_of(site: Site, queue: str, count: int) -> list[str]:
    """Take messages until the queue has given so many, and whatever comes in the moment behind them."""
    taker = site.client("n3")
    tag = taker.consume(queue, no_ack=True)
    site.until(lambda: len(taker.deliveries) >= count)
    site.run(0.1)
    taker.cancel(tag)
    return got(taker)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners send a few messages at a time."""
    monkeypatch.setattr(feeding, "MESSAGES_OF_PART", 7)


def test_a_new_queue_has_the_past_of_all_streams(site: Site) -> None:
    streams(site, *NAMES)
    client = site.client("n2")
    assert len(set(partitions(site, *NAMES))) == 3
    for round in range(3):
        for name in NAMES:
            publish(client, f"{name} {round}", to=name)
    over(client)
    for name in NAMES:
        publish(client, f"{name} 3", to=name)
    found = all_of(site, "q", 12)
    for name in NAMES:
        assert of(found, name) == [f"{name} {round}" for round in range(4)]
    assert len(found) == 12
    assert [client.depth(name) for name in NAMES] == [4, 4, 4]


def write(client: Client, first: int, last: int, *names: str, **properties: Any) -> None:
    """Messages with these numbers for each stream, in this order."""
    for name in names:
        tags = client.publish(name, *(f"{name} {one}".encode() for one in range(first, last)), **properties)
        assert all(client.confirms(tags))


def check(found: list[str], count: int, *names: str) -> None:
    """All messages are there, once, and those of each stream in its order."""
    for name in names:
        assert of(found, name) == [f"{name} {one}" for one in range(count)]
    assert len(found) == count * len(names)


def test_a_new_queue_has_the_past_from_a_time_on(site: Site) -> None:
    streams(site, *NAMES)
    client = site.client("n2")
    write(client, 0, 2, *NAMES)
    site.run(3.0)
    since = datetime.fromtimestamp(now_s(site), UTC)
    write(client, 2, 4, *NAMES)
    for number, point in enumerate((since.isoformat(), "2s")):
        over(site.client("n3"), f"q{number}", point)
    write(client, 4, 5, *NAMES)
    for number in range(2):
        found = all_of(site, f"q{number}", 9)
        for name in NAMES:
            assert of(found, name) == [f"{name} {one}" for one in (2, 3, 4)]
        assert len(found) == 9


@pytest.mark.interpreted
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("moment_s", [0.0, 0.001, 0.01])
def test_what_comes_while_the_queue_is_filled_stands_behind_the_past(site: Site, moment_s: float) -> None:
    streams(site, *NAMES)
    writers = [site.client(name) for name in ("n1", "n2", "n3")]
    write(writers[0], 0, 100, *NAMES)
    other, sent = site.client("n2"), 100
    arguments = {f"x-{name.replace('_', '-')}": value for name, value in PATTERN.items()}
    for round in range(40):
        if round == 5:
            site.run(moment_s)
            arguments["x-recovery-point"] = "epoch"
            other.send(m.QueueDeclare("q", durable=True, arguments=arguments))
        for writer, name in zip(writers, NAMES, strict=True):
            writer.publish(name, f"{name} {sent}".encode())
        sent += 1
        site.run(0.001)
    other.answer(m.QueueDeclareOk)
    check(all_of(site, "q", 3 * sent), sent, *NAMES)


def queue_id(site: Site, name: str) -> int:
    return site.nodes["n1"].broker.catalog.state.queues["/", name].id


def owner_of(site: Site, queue: str) -> str:
    """The node that owns a queue's partition."""
    (partition,) = partitions(site, queue)
    return next(name for name, node in site.nodes.items() if node.up and node.broker.owners[partition].active)


@pytest.mark.interpreted
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("parts", [0, 1, 2, 4, 9])
@pytest.mark.parametrize("end", ["s2", "s"])
def test_the_past_comes_in_once_whichever_owner_dies(site: Site, end: str, parts: int) -> None:
    """Either the owner of a stream that sends its messages, or the owner of the queue."""
    streams(site, "s", "s2")
    client = site.client("n3")
    write(client, 0, 100, "s2", "s")
    over(client)
    number, partition = queue_id(site, "q"), partitions(site, "q")[0]
    state = machine_of(site.nodes["n1"].broker.owners[partition])
    site.until(
        lambda: number in state.queues and len(state.queues[number].alive) >= 100 + 7 * parts, step_s=0.0002
    )
    assert len(state.queues[number].alive) < 180
    site.nodes[owner_of(site, end)].stop(power=True)
    write(client, 100, 102, "s", "s2")
    check(all_of(site, "q", 204), 102, "s", "s2")


@pytest.fixture
def told(site: Site) -> list[PassedFeed]:
    """The feeds that retention has passed, as owners tell."""
    found: list[Any] = []
    for node in site.nodes.values():
        node.past_changed = found.append
    return found


def test_retention_waits_for_copies_that_are_under_way(site: Site, told: list[PassedFeed]) -> None:
    site.client("n1").declare("s", queue_type="stream", initial_cluster_size=1)
    site.client("n2").declare("s2", queue_type="stream", max_age="1s")
    client = site.client("n2")
    over(client)
    write(client, 0, 1, "s2")
    site.until(lambda: client.depth("q") == 1)
    site.nodes["n1"].stop(power=True)
    write(client, 1, 10, "s2")
    site.run(4.0)
    assert client.depth("s2") == 9
    site.nodes["n1"].start()
    site.until(lambda: site.nodes["n1"].ready)
    check(all_of(site, "q", 10), 10, "s2")
    site.until(lambda: client.depth("s2") == 0)
    assert told == []


@pytest.mark.interpreted
@pytest.mark.usefixtures("small_parts")
def test_what_retention_has_passed_is_told_and_the_rest_is_sent(
    site: Site, told: list[PassedFeed], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.client("n1").declare("s", queue_type="stream")
    client = site.client("n2")
    client.declare("s2", queue_type="stream", max_age="1s")
    write(client, 0, 20, "s2")
    monkeypatch.setattr(feeding, "PARTS_UNDER_WAY", 1)
    over(client, "whole")
    monkeypatch.setattr(feeding, "PARTS_UNDER_WAY", 0)
    over(client)
    site.until(lambda: client.depth("s2") == 0)
    monkeypatch.setattr(feeding, "PARTS_UNDER_WAY", 4)
    write(client, 20, 25, "s2")
    assert all_of(site, "q", 5) == [f"s2 {one}" for one in range(20, 25)]
    assert {(one.stream, one.queue) for one in told} >= {(queue_id(site, "s2"), queue_id(site, "q"))}


@pytest.mark.parametrize("argument", [{"filter": "n % 2 = 0"}, {"max_priority": 3}, {"group_by": "n"}])
def test_a_queue_that_decides_about_each_message_has_the_past_of_streams_of_all_partitions(
    site: Site, argument: dict[str, Any]
) -> None:
    names = ("s", "s2", "s3", "s4")
    streams(site, *names)
    assert len(set(partitions(site, *names))) == 3
    client = site.client("n2")
    for number in range(6):
        for name in names:
            publish(client, f"{name} {number}", to=name, headers={"n": number}, priority=1)
    over(client, **argument)
    publish(client, "s4 6", "s 6", headers={"n": 6}, priority=1)
    wanted = [number for number in range(6) if "filter" not in argument or number % 2 == 0]
    found = all_of(site, "q", 4 * len(wanted) + 2)
    for name in names:
        assert of(found, name)[: len(wanted)] == [f"{name} {number}" for number in wanted]
    assert len(found) == 4 * len(wanted) + 2


def test_streams_of_one_partition_are_referred_to_and_a_message_of_two_comes_once(site: Site) -> None:
    streams(site, "s", "t2", "t3", "s4")
    client = site.client("n2")
    for name in ("s", "s4"):
        client.bind(name, "amq.fanout")
    assert len(set(partitions(site, "s", "s4"))) == 1
    for number in range(4):
        client.confirms(client.publish("", str(number).encode(), exchange="amq.fanout"))
        publish(client, f"{number} s", to="s")
        publish(client, f"{number} s4", to="s4")
    over(client)
    over(client, "ranked", priority_expression="1")
    wanted = [text for number in range(4) for text in (f"{number}", f"{number} s", f"{number} s4")]
    assert all_of(site, "q", 12) == wanted
    assert all_of(site, "ranked", 12) == wanted
    assert state_of(owner(site, "s")).copying == {}


def owner(site: Site, queue: str) -> PartitionOwner:
    """The owner of a queue."""
    return site.nodes[owner_of(site, queue)].broker.owners[partitions(site, queue)[0]]


def test_a_stream_that_is_declared_later_joins_and_one_that_is_deleted_leaves(site: Site) -> None:
    streams(site, "s")
    client = site.client("n1")
    over(client, point="1s")
    site.client("n2").declare("s2", queue_type="stream")
    write(client, 0, 5, "s2")
    check(all_of(site, "q", 5), 5, "s2")
    client.delete("s2")
    site.client("n2").declare("s2", queue_type="stream")
    write(client, 0, 5, "s2")
    check(all_of(site, "q", 5), 5, "s2")


def test_nothing_is_left_of_a_queue_that_is_deleted(site: Site) -> None:
    streams(site, "s", "s2")
    client = site.client("n1")
    write(client, 0, 5, "s2")
    over(client)
    check(all_of(site, "q", 5), 5, "s2")
    machine = machine_of(owner(site, "s2"))
    state = machine.queues[queue_id(site, "s2")]
    assert state.subscriptions is not None and len(list(state.subscriptions.feeds())) == 1
    assert not list(state.subscriptions.names())
    client.delete("q")
    site.until(lambda: state.subscriptions is None)
    write(client, 5, 7, "s2")
    assert client.depth("s2") == 7 and not machine.transfers.partitions()


def test_a_message_of_an_undecided_transaction_is_sent_with_its_commit(site: Site) -> None:
    client, stream, mend = undecided(site)
    site.client("n2").declare("s2", queue_type="stream")
    over(site.client("n2"), default_publish_target="s2")
    publish(client, "2", to="s")
    site.run(0.3)
    assert stream.withheld and client.depth("q") == 0
    mend()
    assert all_of(site, "q", 2) == ["1", "2"]


def test_a_transaction_over_several_streams_comes_once(site: Site) -> None:
    streams(site, "s", "s2")
    client = site.client("n3")
    over(client)
    write(client, 0, 3, "s2")
    writer = site.client("n1", transactional=True)
    for name in ("s", "s2"):
        writer.publish(name, f"{name} tx".encode())
    writer.commit()
    publish(client, "s2 3", to="s2")
    found = all_of(site, "q", 6)
    assert of(found, "s2") == ["s2 0", "s2 1", "s2 2", "s2 tx", "s2 3"]
    assert of(found, "s") == ["s tx"]


def test_nodes_that_start_again_go_on(site: Site) -> None:
    """With the places and the transfers of their logs; and transient messages are copied once, too."""
    streams(site, "s", "s2")
    client = site.client("n1")
    write(client, 0, 5, "s2", delivery_mode=1)
    over(client)
    write(client, 5, 8, "s2")
    site.until(lambda: client.depth("q") == 8)
    for node in site.nodes.values():
        node.stop(power=True)
    for node in site.nodes.values():
        node.start()
    site.until(lambda: all(node.ready for node in site.nodes.values()))
    client = site.client("n1")
    over(client)
    write(client, 8, 10, "s2")
    check(all_of(site, "q", 10), 10, "s2")


def test_a_full_queue_refuses_nothing_that_its_streams_have_taken(site: Site) -> None:
    streams(site, "s", "s2")
    client = site.client("n2")
    write(client, 0, 5, "s2")
    over(client, max_length=2, overflow="reject-publish")
    over(client, "newest", max_length=2)
    site.until(lambda: client.depth("q") == 5)
    write(client, 5, 6, "s2")
    site.until(lambda: client.depth("q") == 6)
    check(all_of(site, "q", 6), 6, "s2")
    assert all_of(site, "newest", 2) == ["s2 4", "s2 5"]


def test_no_such_queue_is_declared_before_all_nodes_know_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams(site, "s")
    formats = site.nodes["n1"].broker.formats
    monkeypatch.setattr(type(formats), "everywhere", property(lambda _: 41))
    with pytest.raises(ChannelClosedError, match=r"406 .*x-recovery-point beside .*upgrade all nodes first"):
        over(site.client("n1"))
    site.client("n1").declare("q", **PATTERN)


def test_policies_give_such_a_queue_no_other_point(site: Site) -> None:
    streams(site, "s", "s2")
    client = site.client("n1")
    write(client, 0, 3, "s", "s2")
    put(client, recovery_point="epoch")
    over(client, "now", "now")
    client.declare("none", **PATTERN)
    put(client, recovery_point="now")
    over(client, "epoch")
    write(client, 3, 4, "s", "s2")
    for name, count in (("now", 1), ("none", 1), ("epoch", 4)):
        found = all_of(site, name, 2 * count)
        assert sorted(found) == sorted(
            f"{one} {4 - back}" for one in ("s", "s2") for back in range(1, count + 1)
        )
