"""Blocks of the messages that a reader's filter takes (F8)."""

from __future__ import annotations

import pytest

from cluster.owner import log_reading
from cluster.owner.log_reading import LogStep, cut_blocks
from node.expressions.condition import encoded_condition
from node.expressions.selector import Selector
from node.queue.filtering import Looking
from node.wire.amqp10 import definitions as d
from tests.cluster.kept_links import site
from tests.cluster.links import LinkClient
from tests.cluster.logs import LogReading
from tests.cluster.test_log_reading import bodies
from tests.cluster.test_streams import STREAM, declared, publish
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import sender
from tests.wire.amqp10.sections import application, message

__all__ = ["site"]

pytestmark = pytest.mark.requirement("F8.3")


def together(client: Client, published: list[bytes]) -> None:
    """Publish messages in one run."""
    *_, last = [client.publish(STREAM, body) for body in published]
    client.confirms(last)


def taken(reading: LogReading, taking: str) -> list[str]:
    _, plan = reading.plan()
    return bodies(reading.rows(plan["first"], plan["end"], taking=taking))


def test_blocks_have_the_messages_that_a_filter_takes(site: Site) -> None:
    client = declared(site)
    for number in range(6):
        publish(client, f'{{"n": {number}}}', headers={"n": number})
    reading = LogReading(site, STREAM)
    assert taken(reading, "n > 3") == ['{"n": 4}', '{"n": 5}']
    assert taken(reading, "/n < 2") == ['{"n": 0}', '{"n": 1}']
    assert taken(reading, "n > 7") == []
    assert len(taken(reading, "")) == 6


def test_messages_of_both_protocols_are_looked_at(site: Site) -> None:
    client = declared(site)
    publish(client, "1", headers={"n": "7"})
    publish(client, "2", headers={"n": "8"})
    sent = message(d.Properties(message_id="m").encode(), application(n="7"))
    LinkClient(site, "n2", sender(0, STREAM)).send(transfer(0, sent))
    site.run(0.2)
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    assert len(reading.rows(plan["first"], plan["end"], taking="n = '7'")) == 2


def test_runs_are_cut_to_what_matches(site: Site) -> None:
    """Messages that were published alike are one run, of which a filter takes some."""
    client = declared(site)
    together(client, [b'{"n": %d}' % (number % 3) for number in range(9)])
    reading = LogReading(site, STREAM)
    whole = reading.all_rows()
    assert taken(reading, "/n = 1") == ['{"n": 1}'] * 3
    rows = reading.rows(whole[2].sequence, whole[7].sequence, taking="/n <> 1")
    assert [row.sequence for row in rows] == [whole[at].sequence for at in (2, 3, 5, 6)]
    assert rows[0] == whole[2]


@pytest.mark.interpreted
def test_steps_without_a_match_tell_how_far_the_reading_has_come(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is cut off goes on there, and does not wait in silence."""
    client = declared(site)
    for number in range(8):
        publish(client, str(number), headers={"n": number})
    monkeypatch.setattr(log_reading, "READ_ENTRIES", 2)
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    blocks = reading.blocks(plan["first"], plan["end"], taking="n = 5")
    assert [one.messages for one in blocks] == [0, 0, 1, 0]
    assert [one.next for one in blocks] == sorted({one.next for one in blocks})
    assert blocks[-1].next == plan["end"]


def test_a_filter_may_be_interrupted_in_a_large_entry(site: Site) -> None:
    """The event loop is free between two looks at a bounded number of messages."""
    client = declared(site)
    count = 2000
    together(client, [b'{"n": 1}'] * count)
    reading = LogReading(site, STREAM)
    owner, plan = reading.plan()
    broker = site.nodes[owner].broker
    definition = reading.definition
    machine = broker.owners[definition.partition].machine
    log = broker.host.groups[definition.partition].log
    step = log_reading.read_step(machine, log, definition.id, plan["first"], plan["end"])
    assert isinstance(step, LogStep)
    looking = Looking(Selector(encoded_condition("/n = 2")))
    pauses = list(cut_blocks(step, looking))
    assert pauses.count(None) * log_reading.STEPS_AT_ONCE > count * looking.message_steps / 2
