"""A barrier goes to all consumers at once, when every message before it is settled (D11)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from node.delivery.deeds import Became, Deed
from node.delivery.settlements import BARRIERS_AT_ONCE
from node.wire.amqp10 import definitions as d
from tests.cluster.kept_links import owner, site
from tests.cluster.links import LinkClient
from tests.cluster.test_browsing import bodies, look_at
from tests.cluster.test_entitlements import entitle
from tests.cluster.test_leases import isolate
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement
from tests.inside import machine_of, state_of
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.performatives import credit, receiver

__all__ = ["site"]

MODES = pytest.mark.parametrize("mode", [2, 1])
DEPTH = pytest.mark.requirement("D12.5")
BARRIER = "barrier = TRUE"


def declared(site: Site, **arguments: Any) -> Client:
    client = site.client("n1")
    client.declare(QUEUE, **{"barrier_expression": BARRIER} | arguments)
    return client


def publish(client: Client, *names: str, mode: int = 2, **properties: Any) -> None:
    """Publish messages. Those whose names begin with a bar are barriers."""
    for name in names:
        headers = {"barrier": name.startswith("|"), "name": name}
        tags = client.publish(QUEUE, name.encode(), headers=headers, delivery_mode=mode, **properties)
        assert client.confirms(tags) == [True]


def consuming(site: Site, *names: str, prefetch: int = 10, **options: Any) -> list[Client]:
    """Consumers on nodes."""
    found = [site.client(name) for name in names]
    for one in found:
        one.consume(QUEUE, prefetch=prefetch, **options)
    site.run(0.2)
    return found


def got(client: Client) -> list[str]:
    return [one.body.decode() for one in client.deliveries]


def all_got(taking: list[Client]) -> list[str]:
    return [name for one in taking for name in got(one)]


def left(site: Site) -> bool:
    """Whether no replica of an owner has any message."""
    owners = [one for node in site.nodes.values() if node.ready for one in node.broker.owners.values()]
    return not any(state.alive for one in owners if one.active for state in machine_of(one).queues.values())


def settle(client: Client, *names: str) -> None:
    for one in list(client.deliveries):
        if one.body.decode() in names:
            client.ack(one)


@pytest.mark.requirement("D11.1", "D11.2", "D11.3", "D11.5")
@MODES
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_barrier_comes_to_all_consumers_when_all_before_it_is_settled(
    site: Site, mode: int, kind: str
) -> None:
    client = declared(site, queue_type=kind)
    taking = consuming(site, "n1", "n2", "n3", "n3")
    publish(client, "1", "2", "|", "3", "4", mode=mode)
    site.run(0.3)
    assert sorted(all_got(taking)) == ["1", "2"]
    for one in taking:
        settle(one, "1")
    site.run(0.3)
    assert sorted(all_got(taking)) == ["1", "2"]
    for one in taking:
        settle(one, "2")
    site.until(lambda: all("|" in got(one) for one in taking))
    site.until(lambda: len(all_got(taking)) == 4 + len(taking))
    for one in taking:
        # Nothing later has come before the barrier.
        names = got(one)
        assert names.count("|") == 1 and not {"3", "4"} & set(names[: names.index("|")])
        settle(one, "3", "4")
    site.until(lambda: left(site))
    site.run(0.2)
    # Acknowledging the barrier is no error, and nothing comes again.
    for one in taking:
        settle(one, "|")
        one.close()
    site.run(0.3)
    assert client.bodies(QUEUE) == []


@pytest.mark.requirement("D11.4")
def test_a_barrier_takes_no_room_of_a_consumer(site: Site) -> None:
    client = declared(site)
    (one,) = consuming(site, "n2", prefetch=2)
    publish(client, "|1", "a", "b", "c")
    site.run(0.3)
    assert got(one) == ["|1", "a", "b"]
    settle(one, "|1")
    site.run(0.2)
    assert got(one) == ["|1", "a", "b"]
    settle(one, "a")
    site.until(lambda: got(one) == ["|1", "a", "b", "c"])


@pytest.mark.requirement("D11.4")
def test_a_consumer_without_room_gets_a_barrier(site: Site) -> None:
    client = declared(site)
    client.declare("other")
    one = site.client("n2")
    one.consume("other", prefetch=1)
    client.confirms(client.publish("other", b"busy"))
    one.consume(QUEUE, prefetch=1)
    site.until(lambda: got(one) == ["busy"])
    publish(client, "|", "1")
    site.until(lambda: "|" in got(one))


@pytest.mark.requirement("D11.6")
@pytest.mark.parametrize("by_permission", [False, True])
def test_a_filter_of_a_consumer_holds_for_barriers(site: Site, by_permission: bool) -> None:
    client = declared(site)
    (every,) = consuming(site, "n2")
    if by_permission:
        # The consumer that there is keeps the filter with which it has begun.
        entitle(site, read_filter="name <> '|'")
    filters = {} if by_permission else {"arguments": {"x-filter": "name <> '|'"}}
    (numbers,) = consuming(site, "n3", **filters)
    publish(client, "1", "2", "|", "3")
    site.until(lambda: len(got(every)) + len(got(numbers)) == 2)
    site.run(0.2)
    for one in (every, numbers):
        settle(one, "1", "2")
    site.until(lambda: "|" in got(every))
    site.until(lambda: "3" in got(every) + got(numbers))
    assert "|" not in got(numbers)


@pytest.mark.requirement("D11.1")
@pytest.mark.parametrize("way", ["requeued", "lost", "backoff"])
def test_a_message_that_comes_back_is_before_the_barrier(site: Site, way: str) -> None:
    backoff = {"redelivery_backoff": {"initial": 400}} if way == "backoff" else {}
    client = declared(site, **backoff)
    one, other = consuming(site, "n2", "n3", prefetch=1)
    publish(client, "1", "|", "2")
    site.until(lambda: got(one) + got(other) == ["1"])
    has, waits = (one, other) if got(one) else (other, one)
    if way == "lost":
        has.disconnect()
    else:
        has.nack(has.deliveries[0], requeue=True)
    site.run(0.25)
    assert "|" not in got(one) + got(other)
    site.until(lambda: (got(waits) + got(has)).count("1") == 2)
    again = waits if "1" in got(waits) else has
    again.ack(again.deliveries[-1])
    site.until(lambda: "|" in got(waits))


def test_a_delayed_message_is_not_before_the_barrier(site: Site) -> None:
    client = declared(site)
    (one,) = consuming(site, "n2")
    client.confirms(client.publish(QUEUE, b"late", headers={"x-delay": 500, "name": "late"}))
    publish(client, "|", "1")
    site.until(lambda: got(one) == ["|", "1"])
    site.until(lambda: got(one) == ["|", "1", "late"])


def test_a_delayed_barrier_is_in_the_queue_when_it_is_due(site: Site) -> None:
    client = declared(site)
    (one,) = consuming(site, "n2")
    headers = {"x-delay": 300, "barrier": True, "name": "|"}
    client.confirms(client.publish(QUEUE, b"|", headers=headers))
    publish(client, "1")
    site.until(lambda: got(one) == ["1"])
    site.until(lambda: got(one) == ["1", "|"])


def test_a_barrier_waits_for_a_consumer(site: Site) -> None:
    client = declared(site)
    publish(client, "|", "1")
    assert client.get(QUEUE) is None
    assert bodies(look_at(client, QUEUE)) == [b"|", b"1"]
    (one,) = consuming(site, "n3")
    site.until(lambda: got(one) == ["|", "1"])


def test_barriers_one_behind_the_other(site: Site) -> None:
    client = declared(site)
    one, other = consuming(site, "n2", "n3")
    publish(client, "|1", "|2", "a", "|3", "|4")
    site.until(lambda: "a" in got(one) + got(other))
    site.run(0.2)
    for taking in (one, other):
        assert [name for name in got(taking) if name != "a"] == ["|1", "|2"]
        settle(taking, "a")
    site.until(lambda: all(got(taking)[-2:] == ["|3", "|4"] for taking in (one, other)))
    site.until(lambda: client.depth(QUEUE) == 0)


def test_many_barriers_in_a_row_come_in_their_order(site: Site) -> None:
    client = declared(site)
    taking = consuming(site, "n1", "n2", "n3")
    names = [f"|{number}" for number in range(3 * BARRIERS_AT_ONCE)]
    for name in names:
        client.publish(QUEUE, name.encode(), headers={"barrier": True}, delivery_mode=2)
    site.until(lambda: all(len(got(one)) == len(names) for one in taking))
    assert all(got(one) == names for one in taking)
    site.until(lambda: left(site))


@pytest.mark.parametrize("way", ["purged", "acknowledged", "expired"])
def test_a_barrier_that_leaves_otherwise_holds_up_nothing(site: Site, way: str) -> None:
    client = declared(site)
    (one,) = consuming(site, "n2", prefetch=1)
    publish(client, "1")
    publish(client, "|", **({"expiration": "150"} if way == "expired" else {}))
    site.until(lambda: got(one) == ["1"])
    if way == "purged":
        assert client.purge(QUEUE) == 1
    elif way == "acknowledged":
        assert Settlement(site, "n3", Deed.ACKNOWLEDGE, filter="name = '|'").answer.counts == {
            Became.SETTLED: 1
        }
    else:
        site.until(lambda: client.depth(QUEUE) == 0)
    publish(client, "2")
    settle(one, "1")
    site.until(lambda: got(one) == ["1", "2"])


@pytest.mark.requirement("D11.3", "D11.5")
@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("prefetch", [1, 10])
@pytest.mark.parametrize("moment_s", [0.0, 0.002, 0.004, 0.006, 0.01, 0.02, 0.2])
def test_each_consumer_gets_a_barrier_once_when_the_owner_dies(
    site: Site, power: bool, moment_s: float, prefetch: int
) -> None:
    client = declared(site)
    first = owner(site)
    others = [name for name in site.nodes if name != first]
    taking = consuming(site, *others, others[0], prefetch=prefetch)
    publish(client, "1", "|", "2", "3")
    site.until(lambda: all_got(taking) == ["1"])
    for one in taking:
        settle(one, "1")
    site.run(moment_s)
    site.nodes[first].stop(power=power)
    site.until(lambda: all("|" in got(one) for one in taking))
    site.until(lambda: {"2", "3"} <= set(all_got(taking)))
    site.run(1.0)
    for one in taking:
        names = got(one)
        assert names.count("|") == 1 and not {"2", "3"} & set(names[: names.index("|")])
        settle(one, "2", "3")
    beside = site.client(others[1])
    site.until(lambda: left(site))
    # The barrier has taken no room for good, and has given none.
    publish(beside, *(f"more {number}" for number in range(3 * prefetch + 1)))
    site.run(0.5)
    for one in taking:
        assert len([name for name in got(one) if name.startswith("more")]) == prefetch


@pytest.mark.requirement("D11.3")
def test_nothing_overtakes_a_released_barrier_while_a_new_owner_waits_for_a_front_end(site: Site) -> None:
    """The owner dies when the others have the release of the barrier, and before it sends the barrier. The
    new owner waits for the front end of the dead node, which had a consumer.
    """
    client = declared(site)
    first = owner(site)
    others = [name for name in site.nodes if name != first]
    taking, beside = consuming(site, *others, first), site.client(others[0])
    publish(client, "1", "|", "2")
    site.until(lambda: all_got(taking) == ["1"])
    partition = site.front_end(first).queue("/", QUEUE, 0).partition
    logs = [node.broker.host.groups[partition].raft for node in site.nodes.values()]
    releasing = state_of(site.nodes[first].broker.owners[partition]).barriers.releasing
    for one in taking:
        settle(one, "1")
    site.until(lambda: releasing and len({log.last_index for log in logs}) == 1, step_s=0.0001)
    site.network.cut([(first, name) for name in others])
    site.nodes[first].stop(power=True)
    publish(beside, "3")
    site.until(lambda: {"2", "3"} <= set(all_got(taking)))
    for one in taking[:2]:
        assert got(one).count("|") == 1 and not {"2", "3"} & set(got(one)[: got(one).index("|")])


@pytest.mark.requirement("D11.3")
def test_a_consumer_whose_node_is_cut_off_gets_the_barrier_when_it_is_back(site: Site) -> None:
    client = declared(site)
    first = owner(site)
    away, near = [name for name in site.nodes if name != first]
    far, close = consuming(site, away, near)
    mend = isolate(site, away)
    publish(client, "|")
    site.until(lambda: got(close) == ["|"])
    mend()
    site.until(lambda: client.depth(QUEUE) == 0)
    site.run(0.5)
    assert got(far) in ([], ["|"])
    publish(client, "|2")
    site.until(lambda: got(far)[-1:] == ["|2"] and got(close)[-1:] == ["|2"])


@pytest.mark.requirement("D11.3", "D11.4")
@pytest.mark.parametrize("presettled", [False, True])
def test_a_link_of_amqp_1_0_gets_a_barrier_with_its_next_credit(site: Site, presettled: bool) -> None:
    client = declared(site)
    mode = d.SenderSettleMode.SETTLED if presettled else d.SenderSettleMode.UNSETTLED
    link = LinkClient(site, "n2", receiver(0, QUEUE, snd_settle_mode=mode))
    (other,) = consuming(site, "n3")
    publish(client, "|")
    site.until(lambda: got(other) == ["|"])
    publish(client, "1", "2", "3")
    site.until(lambda: got(other) == ["|", "1", "2", "3"])
    assert link.payloads == []
    other.close()
    link.send(credit(2))
    site.until(lambda: len(link.payloads) == 2)
    assert link.payloads[0].endswith(b"|") and link.payloads[1].endswith(b"1")
    link.send(d.Disposition(d.Role.RECEIVER, 0, 1, settled=True, state=d.Accepted()))
    link.send(credit(2, delivery_count=2))
    site.until(lambda: len(link.payloads) == 4)
    assert [one[-1:] for one in link.payloads] == [b"|", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"max_priority": 5}, "x-max-priority"),
        ({"priority_expression": "/n"}, "x-priority-expression"),
        ({"group_by": "key"}, "x-group-by"),
        ({"semantics": "at-most-once"}, "at-most-once"),
        pytest.param(
            {"target_queue_depth": 3}, "x-target-queue-depth", marks=pytest.mark.requirement("D12.5")
        ),
        ({"barrier_expression": "kind = "}, "column"),
        ({"barrier_expression": 7}, "unacceptable_type"),
    ],
)
def test_a_wrong_declaration_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=reason) as refused:
        declared(site, **arguments)
    assert refused.value.code == 406


def test_no_queue_has_barriers_before_all_nodes_know_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-barrier-expression", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first"):
        declared(site)
