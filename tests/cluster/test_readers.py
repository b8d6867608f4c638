"""Retention of a stream waits for its readers up to their max lag, over failovers (F8)."""

from __future__ import annotations

import pytest

from cluster.admin.api.errors import ApiError
from cluster.config.formats import READERS_OF_STREAMS
from cluster.peers.reader_requests import BEGIN_GONE, NO_READER, POSITION_AHEAD, READERS_TOLD
from node.message.streams import FROM_NEXT, OffsetKind, StreamOffset
from node.queue.subscriptions import MaxLag
from node.wire.amqp091 import methods as m
from tests.cluster.kept_links import site
from tests.cluster.logs import LogReading, at
from tests.cluster.stream_readers import EARLIEST, Readers
from tests.cluster.test_leases import isolate
from tests.cluster.test_streams import STREAM, declared, publish, reading
from tests.inside import machine_of
from tests.site import Client, Site

__all__ = ["site"]

pytestmark = pytest.mark.requirement("F8.3")

PLENTY = MaxLag(messages=1_000_000)


def written(client: Client, count: int, begin: int = 0) -> list[str]:
    """Publish messages of ten octets."""
    names = [f"{number:010d}" for number in range(begin, begin + count)]
    publish(client, *names)
    return names


def left(site: Site) -> list[str]:
    return [row.body.decode() for row in LogReading(site, STREAM).all_rows()]


# -- retention ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"max_age": "2s"}, {"max_length_bytes": 50}])
def test_retention_waits_for_a_reader_and_follows_it(site: Site, limit: dict) -> None:
    client, readers = declared(site, **limit), Readers(site)
    assert readers.make(b"audit", PLENTY)[0] == READERS_TOLD
    names = written(client, 20)
    site.run(8.0)
    assert left(site) == names and readers.row(b"audit").messages == 20
    numbers = readers.numbers()
    assert readers.advance(b"audit", numbers[12])[0] == READERS_TOLD
    site.run(3.0)
    assert left(site) == names[12:]
    assert (readers.row(b"audit").messages, readers.row(b"audit").lost) == (8, 0)
    readers.forget(b"audit")
    site.run(3.0)
    assert left(site) == ([] if "max_age" in limit else names[-5:])


@pytest.mark.parametrize("limit", [{"max_age": "2s"}, {"max_length_bytes": 20}])
def test_retention_passes_a_reader_behind_its_max_lag_and_says_so(site: Site, limit: dict) -> None:
    client, readers = declared(site, **limit), Readers(site)
    client.declare("q")
    readers.make(b"slow", MaxLag(messages=6))
    readers.make(b"quick", PLENTY)
    names = written(client, 5)
    # The stream shares its numbers with another queue.
    client.confirms(client.publish("q", b"x"))
    names += written(client, 10, 5)
    site.run(5.0)
    told = site.nodes[readers.owner].broker.overtaken_readers
    assert left(site) == names and told.count == 0
    readers.advance(b"quick", readers.numbers()[-1] + 1)
    site.run(5.0)
    assert left(site) == names[-6:] and told.count == 1
    row = readers.row(b"slow")
    assert (row.lost, row.exact, row.messages) == (9, True, 6)
    names += written(client, 4, 15)
    readers.advance(b"quick", readers.numbers()[-1] + 1)
    site.run(5.0)
    assert left(site) == names[-6:] and told.count == 1
    assert readers.row(b"slow")[-2:] == (13, True)
    # A reader that has caught up may be passed again.
    readers.advance(b"slow", readers.numbers()[0])
    assert readers.row(b"slow")[-2:] == (0, True)
    written(client, 4, 19)
    readers.advance(b"quick", readers.numbers()[-1] + 1)
    site.run(5.0)
    assert told.count == 2 and readers.row(b"slow")[-2:] == (4, True)


def test_a_max_lag_may_be_octets(site: Site) -> None:
    client, readers = declared(site, max_age="1s"), Readers(site)
    for begin in range(0, 40, 4):
        written(client, 4, begin)
    whole = readers.make(b"a", PLENTY)[1][0][4]
    assert whole > 400
    readers.make(b"a", MaxLag(octets=whole // 2))
    site.run(5.0)
    kept = readers.row(b"a")
    assert whole // 4 < kept.octets <= whole // 2 and 8 <= kept.messages < 40
    assert kept.messages == len(left(site))


def test_a_max_lag_may_be_seconds(site: Site) -> None:
    client, readers = declared(site, max_length_bytes=10), Readers(site)
    readers.make(b"a", MaxLag(milliseconds=5000))
    names = written(client, 3)
    site.run(3.0)
    names += written(client, 3, 3)
    assert left(site) == names
    site.run(3.5)
    assert left(site) == names[3:] and readers.row(b"a").lost == 3
    assert 3000 <= readers.row(b"a").milliseconds <= 4500
    site.run(3.5)
    assert left(site) == names[-1:]


def test_all_limits_of_a_max_lag_count(site: Site) -> None:
    client, readers = declared(site, max_length_bytes=10), Readers(site)
    readers.make(b"a", MaxLag(messages=4, milliseconds=3_600_000))
    names = written(client, 9)
    site.run(3.0)
    assert left(site) == names[-4:]


def test_no_removal_overtakes_a_reader_that_is_being_made(site: Site) -> None:
    """Retention removes messages in every turn while clients make readers of the oldest one."""
    client, readers = declared(site, max_length_bytes=50), Readers(site)
    asked = []
    for number in range(30):
        client.publish(STREAM, b"x" * 10)
        name = b"%d" % number
        asked.append(
            readers.ask(
                "n2", lambda port, to, take, name=name: port.make(to, name, EARLIEST, (99, 0, 0), take)
            )
        )
        site.run(0.003)
    site.run(2.0)
    assert all(one.answer == READERS_TOLD for one in asked)
    rows = readers.rows()
    assert len(rows) == 30 and all(row.lost == 0 for row in rows.values())
    assert min(row.place for row in rows.values()) + 1 >= readers.numbers()[0]


def test_retention_leaves_what_an_undecided_transaction_withholds_and_all_behind(site: Site) -> None:
    writer = site.client("n3", transactional=True)
    writer.declare("q")
    client, readers = declared(site, max_length_bytes=20), Readers(site)
    written(client, 3)
    writer.publish("q", b"1" * 10)
    writer.publish(STREAM, b"1" * 10)
    writer.send(m.TxCommit())
    site.until(lambda: readers.state().withheld, step_s=0.0002)
    withheld = readers.state().withheld.first
    mend = isolate(site, "n3")
    names = written(client, 5, 3)
    site.until(lambda: readers.state().alive.first == withheld)
    site.run(0.1)
    assert len(readers.state().alive) == 6 and withheld in readers.state().withheld
    mend()
    site.until(lambda: not readers.state().withheld)
    site.run(3.0)
    assert left(site) == names[-2:]


# -- positions ------------------------------------------------------------------------------------


def test_an_advance_is_idempotent_and_never_goes_back(site: Site) -> None:
    client, readers = declared(site), Readers(site)
    written(client, 10)
    numbers = readers.numbers()
    readers.make(b"a", PLENTY, at(numbers[2]))
    assert readers.row(b"a").place == numbers[2] - 1
    for node, position in (("n1", 5), ("n2", 5), ("n3", 3), ("n1", 2)):
        told = readers.advance(b"a", numbers[position], node)
        assert told[0] == READERS_TOLD and told[1][0][1] == numbers[5] - 1
    assert readers.advance(b"b", numbers[1]) == [NO_READER]
    end = numbers[-1] + 1
    assert readers.advance(b"a", end + 1) == [POSITION_AHEAD, end]
    assert readers.advance(b"a", end)[1][0][3:6] == [0, 0, 0]
    assert readers.forget(b"a") == [READERS_TOLD, []] and readers.forget(b"a") == [NO_READER]
    assert readers.rows() == {}


def test_a_reader_begins_where_it_says(site: Site) -> None:
    client, readers = declared(site, max_length_bytes=50), Readers(site)
    written(client, 3)
    site.run(3.0)
    written(client, 4, 3)
    site.run(1.0)
    numbers = readers.numbers()
    assert len(numbers) == 5
    begins = {
        b"earliest": (EARLIEST, 5),
        b"latest": (FROM_NEXT, 0),
        b"bookmark": (at(numbers[1]), 4),
        b"end": (at(numbers[-1] + 1), 0),
        b"age": (StreamOffset(OffsetKind.AGE, 2000), 4),
        b"long ago": (StreamOffset(OffsetKind.AGE, 3_600_000), 5),
    }
    for name, (begin, messages) in begins.items():
        assert readers.make(name, PLENTY, begin)[1][0][3] == messages, name
    assert readers.make(b"gone", PLENTY, at(numbers[0] - 1)) == [BEGIN_GONE, numbers[0]]
    assert readers.make(b"ahead", PLENTY, at(numbers[-1] + 2)) == [POSITION_AHEAD, numbers[-1] + 1]
    assert set(readers.rows()) == set(begins)


def test_a_subscription_of_amqp_is_the_same_reader(site: Site) -> None:
    client, readers = declared(site, max_age="1s"), Readers(site)
    readers.make(b"audit", PLENTY)
    names = written(client, 6)
    site.run(3.0)
    consumer = reading(site, "n2", "most-recent", **{"x-subscription": "audit"})
    site.until(lambda: len(consumer.deliveries) == 6)
    assert left(site) == names
    consumer.ack(consumer.deliveries[3], multiple=True)
    site.run(4.0)
    assert left(site) == names[4:] and readers.row(b"audit").messages == 2
    # A subscription without a max lag is told, and holds nothing.
    idle = reading(site, "n3", "first", **{"x-subscription": "idle"})
    site.until(lambda: len(idle.deliveries) == 2)
    idle.ack(idle.deliveries[0])
    site.run(1.0)
    assert readers.row(b"idle").max_lag is None
    readers.forget(b"audit")
    site.run(3.0)
    assert left(site) == []


def test_a_deleted_stream_takes_its_readers_along(site: Site) -> None:
    client, readers = declared(site), Readers(site)
    written(client, 3)
    readers.make(b"a", PLENTY)
    client.delete(STREAM)
    client.declare(STREAM, queue_type="stream")
    assert readers.rows() == {}


# -- failovers ------------------------------------------------------------------------------------


def restart(site: Site, name: str) -> None:
    site.nodes[name].start()
    site.until(lambda: site.nodes[name].ready)


def test_retention_waits_at_every_owner(site: Site) -> None:
    client, readers = declared(site, max_age="1s"), Readers(site)
    readers.make(b"a", PLENTY)
    names = written(client, 10)
    place = 0
    for round in range(3):
        former = readers.owner
        site.nodes[former].stop(power=round == 1)
        site.run(4.0)
        other = readers.owner
        assert readers.rows(other)[b"a"].lost == 0 and left(site) == names[place:]
        place += 3
        readers.advance(b"a", readers.numbers()[3], other)
        site.run(3.0)
        assert left(site) == names[place:] and readers.rows(other)[b"a"].messages == 10 - place
        restart(site, former)


@pytest.mark.parametrize("moment", ["asked", "logged"])
def test_the_owner_dies_around_an_advance(site: Site, moment: str) -> None:
    client, readers = declared(site), Readers(site)
    written(client, 10)
    numbers = readers.numbers()
    readers.make(b"a", PLENTY)
    owner = readers.owner
    other = next(name for name in site.nodes if name != owner)
    asked = readers.ask(other, lambda port, to, take: port.advance(to, b"a", numbers[7], take))
    if moment == "logged":
        place = numbers[7] - 1
        site.until(lambda: readers.state(owner).subscriptions.place(b"a") == place, step_s=0.0002)
    site.nodes[owner].stop(power=False)
    assert asked.answer == READERS_TOLD
    assert asked.told[0][1][0][1] == numbers[7] - 1
    assert readers.advance(b"a", numbers[4], other)[1][0][1] == numbers[7] - 1


def test_a_reader_is_passed_once_over_failovers_and_its_loss_stays_exact(site: Site) -> None:
    client, readers = declared(site, max_length_bytes=20), Readers(site)
    readers.make(b"a", MaxLag(messages=5))
    names = written(client, 12)
    site.run(3.0)
    assert readers.row(b"a")[-2:] == (7, True)
    alerts = sum(node.broker.overtaken_readers.count for node in site.nodes.values())
    former = readers.owner
    site.nodes[former].stop(power=False)
    site.run(3.0)
    client = site.client(readers.owner)
    names += written(client, 6, 12)
    site.run(3.0)
    row = readers.rows(readers.owner)[b"a"]
    assert (row.lost, row.exact, left(site)) == (13, True, names[-5:])
    assert alerts == 1
    assert not any(
        node.broker.overtaken_readers.count for node in site.nodes.values() if node.up and node.name != former
    )


def test_replicas_agree_and_snapshots_have_readers(site: Site) -> None:
    """Segments of the site are small: logs are cut off by snapshots, and a replica gets one."""
    client, readers = declared(site, max_length_bytes=30_000), Readers(site)
    client.declare("q")
    readers.make(b"a", MaxLag(messages=5))
    readers.make(b"b", PLENTY)
    owner = readers.owner
    late = next(name for name in site.nodes if name != owner)
    site.nodes[late].stop(power=False)
    for number in range(60):
        publish(client, f"{number}" * 500) if client.site.nodes["n1"].up else None
        client = site.client(owner)
        client.confirms(client.publish("q", b"x" * 5000))
        client.bodies("q")
        readers.advance(b"b", readers.numbers()[-1] + 1, owner)
    restart(site, late)
    site.run(5.0)
    states = [readers.state(name) for name in site.nodes]
    assert states[0].subscriptions.passed > 10
    assert len({one.encode(9) for one in states}) == 1
    assert readers.rows(owner)[b"a"].exact and readers.rows(owner)[b"a"].lost > 0


# -- exact numbers of lost messages ---------------------------------------------------------------


def test_a_plan_tells_how_many_messages_are_lost(site: Site) -> None:
    client = declared(site, max_length_bytes=100)
    client.declare("q")
    log = LogReading(site, STREAM)
    written(client, 10)
    _, plan = log.plan(rows=4)
    assert plan["counts"] == (0, 4)
    for number in range(20):
        client.confirms(client.publish("q", b"x"))
        written(client, 1, 10 + number)
    site.run(2.0)
    with pytest.raises(ApiError) as caught:
        log.plan(at(plan["end"]), first_count=4)
    assert caught.value.facts["lost"] == 16 == caught.value.facts["lost_at_most"]
    assert "16 messages" in caught.value.reason
    # Without the count of the position, or with another one, there is a bound alone.
    for wrong in (None, 20, 1 << 60):
        with pytest.raises(ApiError) as caught:
            log.plan(at(plan["end"]), first_count=wrong)
        assert caught.value.facts["lost"] is None and caught.value.facts["lost_at_most"] >= 16
    _, rest = log.plan()
    assert rest["counts"] == (20, 30)
    former, _ = log.plan()
    site.nodes[former].stop(power=False)
    site.run(3.0)
    client = site.client(Readers(site).owner)
    written(client, 5, 30)
    site.run(2.0)
    with pytest.raises(ApiError) as caught:
        LogReading(site, STREAM).plan(at(plan["end"]), first_count=4)
    assert caught.value.facts["lost"] == 21


def test_a_release_without_readers_gets_marks_alone(site: Site) -> None:
    node = site.nodes["n3"]
    node.stop(power=False)
    node.formats = READERS_OF_STREAMS - 1
    node.start()
    site.until(lambda: node.ready and site.nodes["n1"].broker.formats.everywhere < READERS_OF_STREAMS)
    client, readers = declared(site, max_length_bytes=50), Readers(site)
    assert not site.front_end("n1").readers.known
    written(client, 10)
    site.run(2.0)
    state = readers.state()
    assert len(state.alive) == 5 and state.mark and state.subscriptions is None
    _, plan = LogReading(site, STREAM).plan()
    assert plan["counts"] is None
    with pytest.raises(ApiError) as caught:
        LogReading(site, STREAM).plan(at(1), first_count=0)
    assert caught.value.facts["lost"] is None
    assert machine_of(site.nodes["n1"].broker.owners[readers.definition.partition]).snapshot()[0] < 9
