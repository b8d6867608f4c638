"""A barrier of a queue with several owners goes to the consumers of all parts, when all before it is settled
in all parts (D11, D20).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from tests.cluster.test_domains import refused
from tests.cluster.test_several_owners import NAMES, Shared
from tests.site import ChannelClosedError, Client, Site

BARRIER = {"barrier": True}
EXPRESSION = "barrier = TRUE"
BEHIND = ("publish", "settlement")


def shared(owners: int = 2) -> Shared:
    """A queue with so many owners whose barriers have the header `barrier`."""
    return Shared(owners, barrier_expression=EXPRESSION)


def bodies(client: Client) -> list[bytes]:
    return [one.body for one in client.deliveries]


def settle_all(found: Shared, clients: Sequence[Client], wanted: int) -> None:
    """Have clients acknowledge what comes, one message at a time, until all have so many messages."""
    done = dict.fromkeys(clients, 0)
    for _ in range(200):
        for client in clients:
            if done[client] < len(client.deliveries):
                client.ack(client.deliveries[done[client]])
                done[client] += 1
        found.site.run(0.05)
        if all(len(client.deliveries) >= wanted and done[client] >= wanted for client in clients):
            return
    raise AssertionError([bodies(client) for client in clients])


def left(found: Shared) -> list[int]:
    """The numbers of messages in the logs of the parts, barriers included."""
    owners = [found.owner(number) for number in range(len(found.parts()))]
    parts = zip(owners, found.parts(), strict=True)
    return [-1 if owner is None else len(owner.queues[part.id].delivery.state.alive) for owner, part in parts]


@pytest.mark.requirement("D11.1", "D11.2", "D11.3", "D20.7")
@pytest.mark.parametrize("at", [0, 1])
def test_consumers_of_all_parts_get_a_barrier_when_all_before_it_is_settled(at: int) -> None:
    found = shared()
    first, second, _ = found.clients
    for client in (first, second):
        client.consume("q", prefetch=10)
    found.publish(first, b"1")
    found.publish(second, b"2")
    found.publish(found.clients[at], b"barrier", headers=BARRIER)
    found.publish(first, b"3")
    found.publish(second, b"4")
    found.site.run(0.5)
    assert [bodies(first), bodies(second)] == [[b"1"], [b"2"]]
    first.ack(first.deliveries[0])
    found.site.run(0.5)
    assert [bodies(first), bodies(second)] == [[b"1"], [b"2"]]
    second.ack(second.deliveries[0])
    found.site.run(0.5)
    assert [bodies(first), bodies(second)] == [[b"1", b"barrier", b"3"], [b"2", b"barrier", b"4"]]
    for client in (first, second):
        client.ack(client.deliveries[-1])
    found.site.until(lambda: left(found) == [0, 0])


@pytest.mark.requirement("D11.1", "D11.2", "D11.3", "D20.7")
@pytest.mark.parametrize("at", range(3))
def test_no_publisher_hears_of_a_barrier_before_each_part_has_it(at: int) -> None:
    found = shared(3)
    told: list[list[int]] = []
    client = found.clients[at]
    tags = client.publish("q", b"barrier", headers=BARRIER)

    def confirmed() -> bool:
        client.read()
        return bool(client.confirmed)

    assert tags
    found.site.until(lambda: left(found) != [0, 0, 0])
    told.append(left(found))
    assert sum(told[0]) == 1
    found.site.until(confirmed, step_s=0.0005)
    assert left(found) == [1, 1, 1]


@pytest.mark.requirement("D11.1", "D11.2", "D11.3", "D20.7")
def test_a_message_that_is_lent_holds_a_barrier_up_and_comes_before_it() -> None:
    """The borrower has the barrier before the messages that stand before it."""
    found = shared(3)
    first, second, third = found.clients
    found.publish(first, b"1", b"2", b"3")
    found.publish(third, b"barrier", headers=BARRIER)
    found.publish(first, b"4")
    found.publish(second, b"5")
    assert found.ready() == [4, 1, 0]
    second.consume("q", prefetch=1)
    found.site.run(0.5)
    assert bodies(second) == [b"1"]
    for number in range(3):
        assert bodies(second) == [b"1", b"2", b"3"][: number + 1]
        second.ack(second.deliveries[-1])
        found.site.run(0.3)
    assert bodies(second)[3:] == [b"barrier", b"5"]
    second.ack(second.deliveries[-1])
    found.site.run(0.3)
    assert bodies(second)[5:] == [b"4"]
    second.ack(second.deliveries[-1])
    found.site.until(lambda: left(found) == [0, 0, 0])


@pytest.mark.requirement("D11.1", "D11.2")
def test_barriers_of_several_publishers_come_in_one_order() -> None:
    found = shared(3)
    for client in found.clients:
        client.consume("q", prefetch=20)
    for number in range(2):
        for client in found.clients:
            client.publish("q", b"m", headers={})
            client.publish("q", b"%s-%d" % (client.node.name.encode(), number), headers=BARRIER)
    settle_all(found, found.clients, 8)
    seen = [[body for body in bodies(client) if body != b"m"] for client in found.clients]
    assert len(seen[0]) == len(set(seen[0])) == 6
    assert seen[1:] == seen[:1] * 2
    for name in NAMES:
        own = [body for body in seen[0] if body.startswith(name.encode())]
        assert own == sorted(own)
    found.site.until(lambda: left(found) == [0, 0, 0])


CASES = [(lost, behind, moment) for lost in NAMES[:2] for behind in BEHIND for moment in (0, 3, 6, 12)]
QUICK = (("n1", "settlement", 3), ("n2", "publish", 3))


@pytest.mark.requirement("D11.3", "D20.8")
@pytest.mark.parametrize(
    ("lost", "behind", "moment"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.seeds) for case in CASES if case not in QUICK)],
)
def test_each_consumer_gets_a_barrier_once_whichever_owner_is_killed(
    lost: str, behind: str, moment: int
) -> None:
    """The kill comes some milliseconds behind the publish of the barrier, or behind the last settlement
    before it. The node of the first part is lost, or that of another one.
    """
    found = shared(3)
    first, second, third = found.clients
    staying = [one for one in found.clients if one.node.name != lost]
    for client in staying:
        client.consume("q", prefetch=10)
        found.publish(client, b"before")
    other = second if lost == "n1" else first
    tags = other.publish("q", b"barrier", headers=BARRIER)
    if behind == "settlement":
        found.site.run(0.3)
    for client in staying if behind == "settlement" else ():
        client.ack(client.deliveries[0])
    found.site.run(0.001 * moment)
    found.site.nodes[lost].stop(power=True)
    for client in staying if behind == "publish" else ():
        client.ack(client.deliveries[0])
    found.site.until(lambda: found.owner(0) and found.owner(1), step_s=0.02)
    assert other.confirms(tags) == [True]
    found.publish(third, b"behind")
    found.site.until(lambda: sum(len(one.deliveries) for one in staying) == 5, step_s=0.02)
    assert [bodies(client)[:2] for client in staying] == [[b"before", b"barrier"]] * 2
    assert sorted(bodies(first) + bodies(second) + bodies(third))[-1] == b"behind"


@pytest.mark.requirement("D11.1", "D11.2")
def test_a_barrier_waits_for_a_consumer_of_any_part_and_outlasts_purges() -> None:
    found = shared()
    first, second, third = found.clients
    found.publish(first, b"1")
    found.publish(second, b"barrier", headers=BARRIER, expiration="100")
    found.publish(first, b"2")
    assert third.purge("q") == 2
    found.publish(second, b"3")
    found.site.run(3.0)
    assert found.clients[0].get("q") is None
    second.consume("q", prefetch=5)
    found.site.until(lambda: bodies(second) == [b"barrier", b"3"], step_s=0.05)


def test_a_barrier_is_not_delayed() -> None:
    found = shared()
    first, second, _ = found.clients
    second.consume("q", prefetch=5)
    found.publish(first, b"barrier", headers={**BARRIER, "x-delay": 60_000})
    found.publish(second, b"1", headers={"x-delay": 1})
    found.site.until(lambda: bodies(second) == [b"barrier", b"1"], step_s=0.05)


@pytest.mark.requirement("A19.3")
def test_a_transaction_over_partitions_publishes_no_barrier() -> None:
    """The part is a participant: the coordinator is the partition with the lowest number."""
    site = Site(*NAMES)
    client, sender = site.client("n1"), site.client("n2", transactional=True)
    client.declare("other")
    client.declare("q", owners=2, barrier_expression=EXPRESSION)
    client.consume("q", prefetch=5)
    sender.publish("other", b"1")
    sender.publish("q", b"barrier", headers=BARRIER)
    with pytest.raises(ChannelClosedError, match="partial tx completion"):
        sender.commit()
    sender.open_channel()
    sender.publish("q", b"2")
    sender.publish("q", b"barrier", headers=BARRIER)
    sender.commit()
    site.until(lambda: client.deliveries, step_s=0.02)
    client.ack(client.deliveries[0])
    site.until(lambda: len(client.deliveries) == 2, step_s=0.02)
    assert bodies(client) == [b"2", b"barrier"]
    assert client.depth("other") == 0


def test_no_queue_with_a_part_for_each_node_has_barriers() -> None:
    answer = refused(
        Site(*NAMES).client("n1"), "declare", "q", owners="each-node", barrier_expression=EXPRESSION
    )
    assert answer.startswith("406 PRECONDITION_FAILED - ")
    assert "the parts of nodes come and go" in answer


def test_no_queue_has_barriers_over_owners_before_all_nodes_know_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Site(*NAMES).client("n1")
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-barrier-expression beside x-owners", FORMAT_LEVEL + 1)
    answer = refused(client, "declare", "q", owners=2, barrier_expression=EXPRESSION)
    assert "upgrade all nodes first" in answer
    client.declare("q", barrier_expression=EXPRESSION)


def test_no_consumer_has_a_filter_beside_barriers_over_owners() -> None:
    client = shared().clients[1]
    answer = refused(client, "consume", "q", "c", arguments={"x-filter": "kind = 'new'"})
    assert answer.startswith("406 PRECONDITION_FAILED - ")
    assert "lends its oldest messages alone" in answer
    client.consume("q", prefetch=10)
    client.publish("q", b"1")
    client.site.until(lambda: client.deliveries)
