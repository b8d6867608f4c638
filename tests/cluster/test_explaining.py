"""Why a message is where it is, told from the logs of partitions (X8)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState
from cluster.config.formats import NOTES_IN_LOGS
from cluster.owner.whereabouts import whereabouts
from node.delivery.deeds import Deed, ReplayTarget
from node.queue.events import Happened
from node.session.commands import SettleMessages
from node.session.core import SessionCore
from node.session.ports import Identity
from node.session.publishing_session import none_in_use
from tests.cluster.kept_links import site
from tests.cluster.lives import chain, numbers, owner_of, replica, told
from tests.cluster.recorders import RecordedSubscriber
from tests.cluster.test_moving import TARGET, move, place
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement
from tests.inside import machine_of
from tests.site import Client, Delivery, Site

__all__ = ["site"]

DEAD = "dead"


def keeping(site: Site, *bodies: bytes, **arguments: Any) -> tuple[Client, list[int]]:
    """A client of a queue with a history, and the numbers of the messages that it has published."""
    client = site.client("n1")
    client.declare(QUEUE, history="7D", **arguments)
    site.run(0.1)
    client.confirms(client.publish(QUEUE, *bodies, delivery_mode=2))
    return client, numbers(site, f"{QUEUE}.history")


def got(client: Client, queue: str = QUEUE) -> Delivery:
    found = client.get(queue, no_ack=False)
    assert found is not None
    return found


def events(site: Site, number: int, name: str = "n3") -> list[str]:
    """The events of a message in the queue, as a node tells them."""
    site.run(0.3)
    return told(site, chain(site, name, QUEUE, number)[0], QUEUE)


@pytest.mark.requirement("X8.1", "X8.2", "X8.6")
def test_a_publish_and_a_lease(site: Site) -> None:
    client, [first, second] = keeping(site, b"a", b"b")
    delivery = got(client)
    client.confirms(client.publish(QUEUE, b"c"))
    site.run(0.3)
    [life] = chain(site, "n3", QUEUE, first)
    published, leased = life.events
    assert (published.happened, published.facts["exchange"], published.facts["routing_key"]) == (
        Happened.PUBLISHED, "", QUEUE,
    )  # fmt: skip
    state = site.nodes["n1"].broker.catalog.state
    names = {state.queues_by_id[one].name for one in published.facts["queues"]}
    assert names == {QUEUE, f"{QUEUE}.history"}
    front_end = state.nodes["n1"].front_end
    assert published.facts["by"] == leased.facts["to"] == front_end
    assert (leased.happened, leased.queue) == (Happened.LEASED, state.queues["/", QUEUE].id)
    assert published.entry < leased.entry
    assert 0 < published.time <= leased.time
    assert life.now[leased.queue] == {"place": "leased", "to": front_end}
    [other] = chain(site, "n2", QUEUE, second)
    assert other.now[leased.queue] == {"place": "ready", "ahead": 0}
    client.ack(delivery)
    assert events(site, first) == ["published", "leased", "settled"]


@pytest.mark.requirement("X8.2", "X8.3")
def test_each_lease_and_each_way_back(site: Site) -> None:
    client, [number] = keeping(site, b"a")
    client.nack(got(client), requeue=True)
    site.run(0.1)
    other = site.client("n2")
    got(other)
    other.close()
    site.run(0.1)
    client.ack(got(client))
    expected = ["published", "leased", "returned", "leased", "returned", "leased", "settled"]
    assert events(site, number) == expected
    [life] = chain(site, "n2", QUEUE, number)
    assert [one.facts["how"] for one in life.events if one.happened is Happened.RETURNED] == [
        "cancelled", "failed",
    ]  # fmt: skip
    nodes = {one.front_end: name for name, one in site.nodes["n1"].broker.catalog.state.nodes.items()}
    leased = [nodes[one.facts["to"]] for one in life.events if one.happened is Happened.LEASED]
    assert leased == ["n1", "n2", "n1"]


@pytest.mark.requirement("X8.3")
def test_a_lease_that_lapses(site: Site) -> None:
    client, [number] = keeping(site, b"a", lease_period=300)
    client.consume(QUEUE, "first", prefetch=1)
    site.until(lambda: client.deliveries)
    client.cancel("first")
    site.run(0.6)
    client.ack(got(client))
    assert events(site, number) == ["published", "leased", "returned", "leased", "settled"]
    [life] = chain(site, "n2", QUEUE, number)
    [returned] = [one for one in life.events if one.happened is Happened.RETURNED]
    assert (returned.facts["how"], returned.facts["by"]) == ("lapsed", 0)


@pytest.mark.requirement("X8.3")
def test_a_lease_of_a_lost_node(site: Site) -> None:
    client, [number] = keeping(site, b"a")
    other = site.client("n2")
    got(other)
    site.run(0.1)
    site.nodes["n2"].stop(power=True)
    site.until(lambda: client.depth(QUEUE) == 1)
    client.ack(got(client))
    assert events(site, number) == ["published", "leased", "returned", "leased", "settled"]


@pytest.mark.requirement("X8.4")
def test_an_expiry(site: Site) -> None:
    _, [number] = keeping(site, b"a", message_ttl=200)
    site.run(0.5)
    assert events(site, number) == ["published", "expired"]
    [life] = chain(site, "n2", QUEUE, number)
    set_, expired = life.events[-2:]
    assert set_.happened is Happened.EXPIRES
    assert set_.facts["at"] <= expired.time
    assert life.now[expired.queue] == {"place": "gone"}


@pytest.mark.requirement("X8.4", "X8.5")
def test_an_expired_dead_letter_is_followed_to_the_other_partition(site: Site) -> None:
    site.client("n2").declare(DEAD)
    _, [first, second] = keeping(
        site, b"a", b"b", message_ttl=200, dead_letter_exchange="", dead_letter_routing_key=DEAD
    )
    site.run(1.0)
    here, there = chain(site, "n3", QUEUE, second)
    assert told(site, here, QUEUE) == ["published", "expired", "leaving", "moved"]
    assert here.events[-1].facts["partition"] == there.partition != here.partition
    assert told(site, there, DEAD) == ["published"]
    assert there.number == numbers(site, DEAD)[1]
    dead = site.nodes["n1"].broker.catalog.state.queues["/", DEAD].id
    assert there.now[dead] == {"place": "ready", "ahead": 1}
    assert chain(site, "n3", QUEUE, first)[1].number == numbers(site, DEAD)[0]


@pytest.mark.requirement("X8.5")
def test_a_dead_letter_in_the_same_partition(site: Site) -> None:
    site.client("n1").declare(DEAD, history="7D")
    client, _ = keeping(site, b"a", b"b", dead_letter_exchange="", dead_letter_routing_key=DEAD)
    [first, second] = numbers(site, QUEUE)
    assert replica(site, "n1", DEAD) is replica(site, "n1", QUEUE)
    client.ack(got(client))
    client.reject(got(client), requeue=False)
    site.run(0.5)
    [here, there] = chain(site, "n3", QUEUE, second)
    assert told(site, here, QUEUE) == ["published", "leased", "rejected", "moved"]
    assert [there.number] == numbers(site, DEAD) == here.events[-1].facts["numbers"][:1]
    assert told(site, there, DEAD) == ["published"]
    assert len(chain(site, "n3", QUEUE, first)) == 1


@pytest.mark.requirement("X8.5")
@pytest.mark.parametrize(
    ("there", "arguments"), [("n1", {"history": "7D"}), ("n1", {}), ("n2", {"history": "7D"}), ("n2", {})]
)
def test_a_moved_message_is_followed(site: Site, there: str, arguments: dict[str, Any]) -> None:
    site.client(there).declare(TARGET, **arguments)
    client, [first, second, third] = keeping(site, b"a", b"b", b"c")
    assert move(site, filter="TRUE").answer
    site.run(0.5)
    lives = chain(site, "n3", QUEUE, second)
    assert [one.number for one in lives] == [second, numbers(site, TARGET)[1]]
    assert told(site, lives[0], QUEUE)[-1] == "moved"
    assert "published" in told(site, lives[1])
    assert [one.number for one in chain(site, "n2", QUEUE, third)][1:] == numbers(site, TARGET)[2:]
    client.ack(got(client, TARGET))
    site.run(0.3)
    assert told(site, chain(site, "n1", QUEUE, first)[1])[-1] == "settled"


@pytest.mark.requirement("X8.5")
def test_a_message_that_is_published_anew_is_followed_to_each_partition(site: Site) -> None:
    """The coordinator of the transaction leads on to the third partition."""
    client = site.client("n1")
    client.declare_exchange("again", "fanout")
    for node, queue in (("n2", TARGET), ("n3", DEAD)):
        site.client(node).declare(queue, history="7D")
        client.bind(queue, "again")
    _, [first, second] = keeping(site, b"a", b"b")
    replay = ReplayTarget("again", None)
    assert Settlement(site, "n3", Deed.REPLAY, filter="TRUE", target=replay).answer
    site.run(0.5)
    for at, number in ((0, first), (1, second)):
        here, *others = chain(site, "n2", QUEUE, number)
        assert told(site, here, QUEUE)[-1] == "moved"
        found = {(one.partition, one.number) for one in others}
        state = site.nodes["n1"].broker.catalog.state
        assert found == {
            (state.queues["/", queue].partition, numbers(site, queue)[at]) for queue in (TARGET, DEAD)
        }


@pytest.mark.requirement("X8.5")
def test_a_message_that_is_moved_on_and_on(site: Site) -> None:
    """A dead letter goes to a second partition, and from there to a third one."""
    site.client("n2").declare(DEAD)
    site.client("n3").declare(TARGET)
    client, [number] = keeping(site, b"a", dead_letter_exchange="", dead_letter_routing_key=DEAD)
    client.reject(got(client), requeue=False)
    site.until(lambda: client.depth(DEAD) == 1)
    answers: list[Any] = []
    core: Any = SessionCore(site.front_end("n1"), RecordedSubscriber(), none_in_use)
    core.enter(Identity("guest"), "/")
    command = SettleMessages(DEAD, Deed.MOVE, (), "TRUE", place(site, TARGET))
    site.nodes["n1"].input(lambda: core.carry_out(1, command, answers.append))
    site.until(lambda: answers)
    site.run(0.5)
    lives = chain(site, "n2", QUEUE, number)
    assert len({one.partition for one in lives}) == 3
    assert told(site, lives[1])[-1] == "moved"
    assert [lives[2].number] == numbers(site, TARGET)


@pytest.mark.requirement("X8.5")
def test_a_move_that_is_refused_is_none(site: Site) -> None:
    site.client("n2").declare(TARGET, max_length=1, overflow="reject-publish")
    other = site.client("n2")
    other.confirms(other.publish(TARGET, b"x"))
    _, [number] = keeping(site, b"a")
    move(site, filter="TRUE")
    assert set(events(site, number)) == {"published", "taken", "returned"}
    [life] = chain(site, "n3", QUEUE, number)
    assert life.now[site.nodes["n1"].broker.catalog.state.queues["/", QUEUE].id]["place"] == "ready"


@pytest.mark.requirement("X8.5")
def test_a_message_that_is_brought_back(site: Site) -> None:
    client, [number] = keeping(site, b"a")
    client.purge(QUEUE)
    assert Settlement(site, "n3", Deed.UNDO, filter="TRUE").answer
    client.ack(got(client))
    assert events(site, number) == ["published", "purged", "brought_back", "leased", "settled"]


@pytest.mark.requirement("X8.5")
def test_messages_that_a_full_queue_drops_and_clients_settle(site: Site) -> None:
    client, [first, second, third] = keeping(site, b"a", b"b", b"c", max_length=2)
    client.reject(got(client), requeue=False)
    assert [events(site, one)[-1] for one in (first, second, third)] == ["dropped", "rejected", "published"]


@pytest.mark.requirement("X8.1")
def test_transactions_over_partitions(site: Site) -> None:
    site.client("n2").declare(TARGET)
    _, [number] = keeping(site, b"a")
    client = site.client("n1", transactional=True)
    client.publish(QUEUE, b"b", delivery_mode=2)
    client.publish(TARGET, b"c", delivery_mode=2)
    client.ack(got(client))
    client.commit()
    newest = numbers(site, f"{QUEUE}.history")[-1]
    assert events(site, number)[-1] == "settled"
    assert events(site, newest)[0] == "published"
    assert chain(site, "n3", QUEUE, newest)[0].now


@pytest.mark.requirement("X8.2", "X8.6")
@pytest.mark.parametrize("power", [False, True])
def test_events_survive_a_lost_owner_and_are_told_by_the_next(site: Site, power: bool) -> None:
    client, [number, _] = keeping(site, b"a", b"b")
    client.nack(got(client), requeue=True)
    site.run(0.3)
    client.close()
    before = events(site, number)
    partition = replica(site, "n3", QUEUE).partition
    first = owner_of(site, partition)
    assert first is not None
    site.nodes[first].stop(power=power)
    site.until(lambda: owner_of(site, partition) not in (None, first))
    name = next(one for one, node in site.nodes.items() if node.up)
    assert events(site, number, name) == before == ["published", "leased", "returned"]
    client = site.client(name)
    site.run(4.0)
    client.ack(got(client))
    # The new owner cannot know that no client has the message.
    assert events(site, number, name) == [*before, "returned", "leased", "settled"]


@pytest.mark.requirement("X8.2")
def test_a_lease_whose_note_is_lost_with_its_owner(site: Site) -> None:
    """The client's node tells the next owner that the client has the message."""
    _, [number] = keeping(site, b"a")
    partition = replica(site, "n3", QUEUE).partition
    first = owner_of(site, partition)
    assert first is not None
    name = next(one for one in site.nodes if one != first)
    client = site.client(name)
    delivery = got(client)
    site.nodes[first].stop(power=True)
    site.until(lambda: owner_of(site, partition) not in (None, first))
    site.run(4.0)
    client.ack(delivery)
    assert events(site, number, name) == ["published", "held", "settled"]
    held = chain(site, name, QUEUE, number)[0].events[1]
    assert held.facts["to"] == site.nodes[name].broker.catalog.state.nodes[name].front_end


@pytest.mark.requirement("X8.6")
def test_a_node_without_a_replica_tells_the_same(site: Site) -> None:
    client = site.client("n1")
    client.declare(QUEUE, history="7D", quorum_initial_group_size=1)
    client.confirms(client.publish(QUEUE, b"a"))
    [number] = numbers(site, f"{QUEUE}.history")
    client.ack(got(client))
    partition = replica(site, "n1", QUEUE).partition
    assert partition not in site.nodes["n3"].broker.owners
    assert events(site, number, "n3") == events(site, number, "n1") == ["published", "leased", "settled"]


# -- retention ---------------------------------------------------------------------------------------------


def fill(client: Client, count: int) -> None:
    """Publish and settle so many messages, each in an entry of its own."""
    for number in range(count):
        client.confirms(client.publish(QUEUE, b"%d" % number * 500, delivery_mode=2))
        client.ack(got(client))


@pytest.mark.requirement("X8.6")
def test_the_log_keeps_whole_entries_as_long_as_the_history(site: Site) -> None:
    """Snapshots cut the log of a plain queue behind its messages."""
    client, [number] = keeping(site, b"a")
    client.nack(got(client), requeue=True)
    site.run(0.1)
    client.ack(got(client))
    fill(client, 400)
    site.run(1.0)
    for name, node in site.nodes.items():
        log = node.broker.host.groups[replica(site, name, QUEUE).partition].log
        assert log.first_index() > 100, "a snapshot has been taken"
    for name in site.nodes:
        assert events(site, number, name) == ["published", "leased", "returned", "leased", "settled"]


@pytest.mark.requirement("X8.6")
def test_what_retention_has_passed_is_told_to_be_gone(site: Site) -> None:
    client = site.client("n1")
    client.declare(QUEUE, history=2000)
    client.confirms(client.publish(QUEUE, b"a", delivery_mode=2))
    [number] = numbers(site, f"{QUEUE}.history")
    client.ack(got(client))
    fill(client, 600)
    site.run(2.0)
    chronicle = machine_of(replica(site, "n1", QUEUE)).chronicle
    assert chronicle.whole_from > 100
    [life] = chain(site, "n3", QUEUE, number)
    assert not life.known
    stream = site.nodes["n1"].broker.catalog.state.queues["/", f"{QUEUE}.history"].id
    oldest = life.oldest[stream]
    assert oldest is not None and oldest > number
    assert told(site, chain(site, "n3", QUEUE, oldest)[0], QUEUE) == ["published", "leased", "settled"]


@pytest.mark.requirement("X8.6")
def test_of_a_plain_queue_the_log_tells_what_it_has(site: Site) -> None:
    client = site.client("n1")
    client.declare(QUEUE)
    client.confirms(client.publish(QUEUE, b"a", b"b", delivery_mode=2))
    number, waiting = numbers(site, QUEUE)
    client.ack(got(client))
    site.run(0.2)
    assert events(site, number) == ["published", "settled"]
    behind = site.client("n2")
    for _ in range(300):
        client.confirms(client.publish(QUEUE, b"x" * 500, delivery_mode=2))
    site.run(1.0)
    [life] = chain(site, "n3", QUEUE, waiting)
    assert [str(one.happened) for one in life.events] == ["published", "unknown"]
    behind.close()


@pytest.mark.requirement("X8.6")
def test_a_number_that_no_message_has(site: Site) -> None:
    _, [number] = keeping(site, b"a")
    [life] = chain(site, "n2", QUEUE, number + (1 << 40))
    assert life.unborn


# -- the price, and the gate ---------------------------------------------------------------------------------


def test_nothing_waits_for_a_note(site: Site) -> None:
    """A delivery makes no entry; its note is in the next one."""
    client, _ = keeping(site, b"a", b"b")
    site.run(0.5)
    client.consume(QUEUE, prefetch=1)
    site.run(0.5)
    machine = machine_of(replica(site, "n1", QUEUE))
    before = machine.applied_index
    client.nack(client.deliveries[0], requeue=True)
    site.run(0.5)
    assert machine.applied_index == before + 1


def test_plain_queues_have_no_notes_and_no_digests(site: Site) -> None:
    keeping(site, b"a")
    client = site.client("n1")
    client.declare("plain")
    client.confirms(client.publish("plain", b"a"))
    client.ack(got(client, "plain"))
    site.run(0.3)
    plain = replica(site, "n1", "plain")
    assert plain is not replica(site, "n1", QUEUE)
    assert not machine_of(plain).chronicle.kept
    [life] = chain(site, "n2", "plain", 1 + (1 << 36))
    assert "leased" not in told(site, life)


def test_a_queue_with_a_history_comes_beside_no_plain_queue(site: Site) -> None:
    for number in range(12):
        site.client("n1").declare(f"plain {number}")
        site.client("n1").declare(f"kept {number}", history="7D")
    state = site.nodes["n2"].broker.catalog.state
    kept = {one.partition for one in state.queues.values() if one.name.startswith("kept")}
    assert kept.isdisjoint(one.partition for one in state.queues.values() if one.name.startswith("plain"))
    assert len(kept) > 1
    restored = CatalogState(Observer())
    restored.restore(state.snapshot())
    assert {one.id for one in restored.partitions.values() if one.apart} == kept


def test_no_notes_before_all_nodes_read_them(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    formats = type(site.nodes["n1"].broker.formats)
    with monkeypatch.context() as earlier:
        earlier.setattr(formats, "everywhere", property(lambda _: NOTES_IN_LOGS - 1))
        client, [number] = keeping(site, b"a")
        client.nack(got(client), requeue=True)
        site.run(1.5)
        assert not machine_of(replica(site, "n2", QUEUE)).chronicle.kept
    site.run(1.5)
    assert all(machine_of(replica(site, name, QUEUE)).chronicle.kept for name in site.nodes)
    client.ack(got(client))
    assert events(site, number) == ["published", "returned", "leased", "settled"]


def test_the_place_of_each_message(site: Site) -> None:
    client, _ = keeping(site, b"a", b"b", b"c", b"d", redelivery_backoff={"initial": 60_000})
    site.run(0.2)
    queue = site.nodes["n1"].broker.catalog.state.queues["/", QUEUE].id
    owner = replica(site, "n1", QUEUE)
    there = numbers(site, QUEUE)
    client.ack(got(client))
    client.nack(got(client), requeue=True)
    got(client)
    site.run(0.3)
    places = [whereabouts(owner.queues[queue], number)["place"] for number in there]
    assert places == ["gone", "resting", "leased", "ready"]
