"""Plans of a stream's log, and blocks that any replica cuts out of it (F8)."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from time import thread_time
from typing import Any

import pytest
from pika import BasicProperties
from pika.frame import Body, Header

from cluster.admin.api.errors import ApiError
from cluster.admin.api.log_answers import LOG_READ
from cluster.admin.api.loop_share import LoopShare
from cluster.owner import log_reading
from node.expressions.condition import encoded_condition
from node.message.streams import FROM_NEXT, OffsetKind, StreamOffset
from node.queue.filtering import IDLE_S
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp10 import definitions as d
from tests.cluster.kept_links import site
from tests.cluster.links import LinkClient
from tests.cluster.lives import owner_of, replica
from tests.cluster.logs import LogReading, at
from tests.cluster.test_leases import isolate
from tests.cluster.test_streams import STREAM, declared, publish
from tests.inside import machine_of
from tests.site import CHANNEL, Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import sender
from tests.wire.amqp10.sections import application, message

__all__ = ["site"]

pytestmark = pytest.mark.requirement("F8.3")


def bodies(rows: list) -> list[str]:
    return [row.body.decode() for row in rows]


def numbers(site: Site) -> list[int]:
    return [row.sequence for row in LogReading(site, STREAM).all_rows()]


def entries(client: Client, *groups: str) -> None:
    """Publish messages, those of a group in one entry."""
    for group in groups:
        publish(client, *group.split())


def publish_large(client: Client, body: bytes, queue: str = STREAM, **properties: Any) -> None:
    """A message of many frames."""
    frames = [Body(CHANNEL, body[at : at + 100_000]).marshal() for at in range(0, len(body), 100_000)]
    header = Header(CHANNEL, len(body), BasicProperties(delivery_mode=2, **properties)).marshal()
    method = encode_method(CHANNEL, m.BasicPublish("", queue))
    before = set(client.confirmed)
    client.connection.send_octets(b"".join([method, header, *frames]))
    client._published += 1
    client.site.until(lambda: client.confirmed > before)


def caught_up(site: Site) -> None:
    owner = owner_of(site, LogReading(site, STREAM).definition.partition)
    index = machine_of(replica(site, str(owner), STREAM)).applied_index
    replicas = [machine_of(replica(site, name, STREAM)) for name in site.nodes]
    site.until(lambda: all(one.applied_index >= index for one in replicas))


def test_a_range_has_every_message_as_it_is_stored(site: Site) -> None:
    client = declared(site)
    client.declare_exchange("events", "topic")
    client.bind(STREAM, "events", "#")
    publish(client, "1", "2", headers={"n": 7}, message_id="m")
    client.confirms(client.publish("a.b", b"3", exchange="events"))
    client.confirms(client.publish(STREAM, b"", delivery_mode=1))
    rows = LogReading(site, STREAM).all_rows()
    assert bodies(rows) == ["1", "2", "3", ""]
    assert [row.routing_key for row in rows] == [STREAM, STREAM, "a.b", STREAM]
    assert [row.exchange for row in rows] == ["", "", "events", ""]
    assert (rows[0].headers, rows[0].properties["message_id"]) == ({"n": 7}, "m")
    assert [row.properties["delivery_mode"] for row in rows] == [2, 2, 2, 1]
    definition = LogReading(site, STREAM).definition
    assert [row.bookmark for row in rows] == [
        f"{definition.id & 0xFFFFFFFF:08x}{row.sequence:016x}" for row in rows
    ]
    assert [row.sequence for row in rows] == sorted({row.sequence for row in rows})
    assert all(row.time is not None for row in rows)


def test_messages_of_both_protocols_come_as_they_were_sent(site: Site) -> None:
    client = declared(site)
    publish(client, "1")
    sent = message(d.Properties(message_id="m").encode(), application(n="7"))
    LinkClient(site, "n2", sender(0, STREAM)).send(transfer(0, sent))
    site.run(0.2)
    first, second = LogReading(site, STREAM).all_rows()
    assert (first.body, second.raw) == (b"1", sent)
    assert (second.headers, second.properties["message_id"]) == ({"n": "7"}, "m")


def test_followers_are_read_first_and_the_owner_where_there_is_none(site: Site) -> None:
    client = declared(site)
    publish(client, *"123")
    caught_up(site)
    reading = LogReading(site, STREAM)
    owner, plan = reading.plan()
    [(first, end, rows, octets)] = plan["ranges"]
    assert rows == 3 and octets > 0
    for name in site.nodes:
        others = [one for one in site.nodes if one != name]
        assert bodies(reading.rows(first, end, name, *others)) == list("123")
    assert owner not in reading.asked and set(reading.asked) <= set(site.nodes)
    assert bodies(reading.rows(first, end, owner)) == list("123")
    assert reading.asked[-1] == owner


def test_other_queues_of_the_partition_are_left_out(site: Site) -> None:
    client = declared(site)
    client.declare("q")
    client.declare("other", queue_type="stream")
    for number in range(20):
        for queue in (STREAM, "q", "other"):
            client.publish(queue, b"%s %d" % (queue.encode(), number))
    site.run(1.0)
    assert bodies(LogReading(site, STREAM).all_rows()) == [f"s {number}" for number in range(20)]
    assert bodies(LogReading(site, "other").all_rows()) == [f"other {number}" for number in range(20)]


@pytest.mark.parametrize("range_octets", [1, 300, 1000, 1 << 30])
def test_ranges_are_cut_at_entries_and_divide_the_stream(site: Site, range_octets: int) -> None:
    client = declared(site)
    entries(client, *("a b c" for _ in range(12)))
    reading = LogReading(site, STREAM)
    _, plan = reading.plan(range_octets=range_octets)
    ranges = plan["ranges"]
    assert ranges[0][0] == plan["first"] and ranges[-1][1] == plan["end"] == plan["stable"]
    assert [one[1] for one in ranges[:-1]] == [one[0] for one in ranges[1:]]
    assert [one[2] for one in ranges] == [len(reading.rows(first, end)) for first, end, _, _ in ranges]
    assert sum(one[2] for one in ranges) == 36
    machine = machine_of(replica(site, "n1", STREAM))
    edges = [first for first, _, _, _ in ranges[1:]]
    assert all(machine.locate(first) != machine.locate(first - 1) for first in edges)
    assert all(octets <= max(range_octets, 1000) for *_, octets in ranges)
    assert len(ranges) == {1: 12, 1 << 30: 1}.get(range_octets, len(ranges))
    assert bodies(reading.all_rows(range_octets=range_octets)) == ["a", "b", "c"] * 12


def test_a_plan_ends_after_so_many_rows_or_octets(site: Site) -> None:
    client = declared(site)
    entries(client, *("a b c" for _ in range(5)))
    reading = LogReading(site, STREAM)
    whole = numbers(site)
    for rows in (1, 3, 4, 15, 100):
        _, plan = reading.plan(rows=rows, range_octets=400)
        assert sum(one[2] for one in plan["ranges"]) == min(rows, 15)
        assert [row.sequence for row in reading.all_rows(rows=rows)] == whole[:rows]
        _, rest = reading.plan(at(plan["end"]))
        assert sum(one[2] for one in rest["ranges"]) == 15 - min(rows, 15)
    _, plan = reading.plan()
    octets = plan["ranges"][0][3]
    _, half = reading.plan(octets=octets // 2)
    assert sum(one[3] for one in half["ranges"]) <= octets // 2
    assert 0 < sum(one[2] for one in half["ranges"]) < 15
    _, least = reading.plan(octets=1)
    assert [one[2] for one in least["ranges"]] == [3]


def test_a_plan_begins_and_ends_at_times_and_bookmarks(site: Site) -> None:
    client = declared(site)
    publish(client, "1", "2")
    site.run(3.0)
    publish(client, "3", "4")
    reading = LogReading(site, STREAM)
    rows = reading.all_rows()
    since = StreamOffset(OffsetKind.TIME, rows[2].time)
    assert bodies(reading.all_rows(first=since)) == ["3", "4"]
    assert bodies(reading.all_rows(end=since)) == ["1", "2"]
    assert bodies(reading.all_rows(first=at(rows[1].sequence), end=at(rows[3].sequence))) == ["2", "3"]
    assert bodies(reading.all_rows(first=StreamOffset(OffsetKind.AGE, 2000))) == ["3", "4"]
    assert reading.all_rows(first=FROM_NEXT) == []
    assert reading.all_rows(first=StreamOffset(OffsetKind.TIME, rows[3].time + 1)) == []


def test_no_replica_reads_beyond_an_undecided_transaction(site: Site) -> None:
    """The stable end is in front of the first message of the branch, until the transaction is decided."""
    writer = site.client("n3", transactional=True)
    writer.declare("q")
    client = declared(site)
    publish(client, "0")
    stream = machine_of(replica(site, "n1", STREAM)).queues[LogReading(site, STREAM).definition.id]
    for queue in ("q", STREAM):
        writer.publish(queue, b"1")
    writer.send(m.TxCommit())
    site.until(lambda: stream.withheld, step_s=0.0002)
    mend = isolate(site, "n3")
    publish(client, "2")
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    assert plan["stable"] == stream.withheld.first and bodies(reading.all_rows()) == ["0"]
    for beyond in (plan["end"] + 1, plan["end"] + 2):
        with pytest.raises(ApiError) as caught:
            reading.rows(plan["end"], beyond)
        assert (caught.value.status, caught.value.error) == (409, "not_applied")
    _, nothing = reading.plan(at(plan["end"]))
    assert nothing["ranges"] == [] and nothing["end"] == plan["end"]
    mend()
    site.until(lambda: not stream.withheld)
    site.run(0.5)
    assert bodies(LogReading(site, STREAM).all_rows()) == ["0", "1", "2"]


def test_retention_that_passes_an_undecided_transaction_leaves_its_messages(site: Site) -> None:
    writer = site.client("n3", transactional=True)
    writer.declare("q")
    client = declared(site, max_length_bytes=25)
    publish(client, "0" * 10)
    stream = machine_of(replica(site, "n1", STREAM)).queues[LogReading(site, STREAM).definition.id]
    for queue in ("q", STREAM):
        writer.publish(queue, b"1" * 10)
    writer.send(m.TxCommit())
    site.until(lambda: stream.withheld, step_s=0.0002)
    withheld = stream.withheld.first
    mend = isolate(site, "n3")
    publish(client, *(letter * 10 for letter in "2345"))
    site.until(lambda: stream.mark)
    assert withheld is not None and stream.mark < withheld and withheld in stream.alive
    mend()
    site.until(lambda: not stream.withheld)
    site.run(0.5)
    reading = LogReading(site, STREAM)
    rows = reading.all_rows()
    assert all(len(row.body) == 10 for row in rows) and bodies(rows)[-1] == "5" * 10
    with pytest.raises(ApiError) as caught:
        reading.plan(at(1))
    assert caught.value.status == 410


def test_a_replica_that_is_behind_is_not_read(site: Site) -> None:
    client = declared(site)
    publish(client, "1")
    caught_up(site)
    reading = LogReading(site, STREAM)
    owner, _ = reading.plan()
    late, other = (name for name in site.nodes if name != owner)
    isolate(site, late)
    client = site.client(owner)
    publish(client, "2")
    site.run(0.1)
    _, plan = reading.plan()
    with pytest.raises(ApiError) as caught:
        reading.blocks(plan["first"], plan["end"], late)
    assert (caught.value.status, caught.value.error) == (409, "not_applied")
    assert bodies(reading.rows(plan["first"], plan["end"], late, other, owner)) == ["1", "2"]
    assert set(reading.asked) == {other}


def test_positions_that_retention_passed_are_gone(site: Site) -> None:
    client = declared(site, max_length_bytes=40)
    publish(client, *(f"{number:010d}" for number in range(10)))
    site.run(1.0)
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    kept = reading.rows(plan["first"], plan["end"])
    assert bodies(kept) == [f"{number:010d}" for number in range(6, 10)]
    for refused in (lambda: reading.plan(at(1)), lambda: reading.blocks(1, plan["end"])):
        with pytest.raises(ApiError) as caught:
            refused()
        assert (caught.value.status, caught.value.error) == (410, "gone")
        facts = {"oldest": kept[0].bookmark, "lost": None, "lost_at_most": 6}
        assert caught.value.facts == facts and kept[0].bookmark in caught.value.reason
    with pytest.raises(ApiError) as caught:
        reading.plan(at(plan["end"] + 1000))
    assert caught.value.status == 400 and "behind the end" in str(caught.value.reason)


def test_a_reader_that_has_everything_is_not_refused_when_all_is_passed(site: Site) -> None:
    """Other queues of the partition take numbers meanwhile, the owner is lost, and snapshots are taken."""
    client = declared(site, max_age="1s")
    client.declare("q")
    reading = LogReading(site, STREAM)
    _, begun = reading.plan()
    client.confirms(client.publish("q", b"x"))
    _, empty = reading.plan(at(begun["end"]))
    assert empty["ranges"] == []
    publish(client, "1", "2")
    _, plan = reading.plan(at(begun["end"]))
    assert sum(one[2] for one in plan["ranges"]) == 2
    site.until(lambda: client.depth(STREAM) == 0)
    for _ in range(40):
        client.confirms(client.publish("q", b"x" * 5000))
    isolate(site, reading.plan()[0])
    site.run(3.0)
    alive = [name for name in site.nodes if owner_of(site, reading.definition.partition) == name]
    client = site.client(alive[0])
    client.confirms(client.publish("q", b"x"))
    publish(client, "3")
    reading = LogReading(site, STREAM)
    assert bodies(reading.all_rows(first=at(plan["end"]))) == ["3"]
    for position in (begun["end"], plan["end"] - 1):
        with pytest.raises(ApiError) as caught:
            reading.plan(at(position))
        assert caught.value.status == 410


def test_an_empty_stream_has_an_empty_plan(site: Site) -> None:
    declared(site)
    _, plan = LogReading(site, STREAM).plan()
    assert plan["ranges"] == [] and plan["first"] == plan["end"] and plan["oldest"] is None


def test_large_entries_come_in_several_blocks(site: Site) -> None:
    client = declared(site)
    sent = [b"%d" % number * 30_000 for number in range(30)]
    assert all(client.confirms(client.publish(STREAM, *sent)))
    huge = b"x" * (3 * log_reading.BLOCK_OCTETS)
    publish(client, "a")
    publish_large(client, huge)
    publish(client, "b")
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    blocks = reading.blocks(plan["first"], plan["end"])
    assert len(blocks) > 5
    assert [one.next for one in blocks[:-1]] == [one.first for one in blocks[1:]]
    assert blocks[-1].next == plan["end"]
    small = [len(one.payload) for one in blocks if one.messages > 1]
    assert max(small) <= log_reading.BLOCK_OCTETS + 4096
    assert [row.body for row in reading.all_rows()] == [*sent, b"a", huge, b"b"]
    again = blocks[len(blocks) // 2]
    assert reading.blocks(again.first, plan["end"])[0].first == again.first


def test_every_replica_cuts_the_same_messages_from_copies_and_after_snapshots(site: Site) -> None:
    """Segments of the site are small: entries are copied forward, and reduced to their live messages."""
    client = declared(site, max_length_bytes=200_000)
    client.declare("q")
    for number in range(60):
        client.publish("q", b"y" * 2000)
        client.publish(STREAM, *(b"%04d" % (3 * number + one) + b"x" * 2000 for one in range(3)))
        site.run(0.05)
    client.purge("q")
    site.run(2.0)
    caught_up(site)
    reading = LogReading(site, STREAM)
    _, plan = reading.plan(range_octets=20_000)
    assert len(plan["ranges"]) > 5
    for name in site.nodes:
        rows = [row for one in plan["ranges"] for row in reading.rows(one[0], one[1], name)]
        found = [int(row.body[:4]) for row in rows]
        assert found == list(range(found[0], 180)) and 80 < len(found) < 101


def test_a_client_that_has_confirms_reads_its_messages_at_any_node(site: Site) -> None:
    client = declared(site)
    for number in range(20):
        publish(client, str(number))
        assert bodies(LogReading(site, STREAM).all_rows())[-1] == str(number)


def test_an_owner_that_is_deposed_makes_no_plan(site: Site) -> None:
    client = declared(site)
    publish(client, "1")
    caught_up(site)
    reading = LogReading(site, STREAM)
    owner, _ = reading.plan()
    isolate(site, owner)
    with pytest.raises(ApiError) as caught:
        reading.plan(nodes=[owner])
    assert caught.value.status == 503
    site.until(lambda: owner_of(site, reading.definition.partition) not in (owner, None))


def test_reading_leaves_the_cache_of_the_journal_to_others(site: Site) -> None:
    """Consumers that read what is new find their entries in memory, also beside a reader of a long past."""
    client = declared(site)
    sent = [str(number) * 2500 for number in range(10, 60)]
    for body in sent:
        publish(client, body)
    caught_up(site)

    def held() -> list[list[int]]:
        return [list(node.journal._cache._data) for node in site.nodes.values()]

    before = held()
    reading = LogReading(site, STREAM)
    _, plan = reading.plan(rows=30)
    for name in site.nodes:
        assert bodies(reading.rows(plan["first"], plan["end"], name)) == sent[:30]
    assert held() == before and all(before) and len(before[0]) < len(sent)


@pytest.mark.parametrize("busy", [True, False])
def test_all_readers_of_a_node_together_have_a_quarter_of_its_time(site: Site, busy: bool) -> None:
    """Of plans, entries of any size and filters: a busy node rests three times as long as it has worked, and
    an idle one not at all.
    """
    client = declared(site)
    for number in range(20):
        publish(client, *("x" * 1000 for _ in range(20)), headers={"n": number})
    publish_large(client, b"y" * (2 << 20))
    caught_up(site)
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    name = reading.running[0]
    rested = worked = 0.0

    async def pause(seconds: float) -> None:
        nonlocal rested
        rested += seconds or busy * IDLE_S
        await asyncio.sleep(0)

    answers = reading.answers[name]
    answers._share = LoopShare(pause, lambda: thread_time() + rested)

    @types.coroutine
    def answered(argument: Any) -> Generator[Any, None, Any]:
        """The node's answer. The node's steps are counted, in processor time, and the reader's are not."""
        nonlocal worked
        steps = answers.read(argument)
        while True:
            began = thread_time()
            try:
                waited = steps.send(None)
            except StopIteration as end:
                return end.value
            finally:
                worked += thread_time() - began
            yield waited

    reading.inquiries[name].answer(LOG_READ, answered)

    async def read(filter: bytes) -> None:
        async for _ in reading.replicas([name]).blocks(plan["first"], plan["end"], filter):
            pass

    async def read_all() -> None:
        await asyncio.gather(*(read(encoded_condition("n = 3") if odd else b"") for odd in (0, 1, 0, 1)))

    asyncio.run(read_all())
    assert rested > 0.5 * 3 * worked if busy else rested == 0
