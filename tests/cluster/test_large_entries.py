"""Large entries are cut out of the log in slices, so that no node has them in memory as a whole (F8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.admin.api.log_answers import LOG_READ
from cluster.admin.api.responses import CutShortError
from cluster.owner.log_reading import BLOCK_OCTETS, NamedTake
from cluster.owner.log_slices import LARGE_OCTETS
from replication.journal import SLICE_OCTETS
from tests.cluster.kept_links import site
from tests.cluster.logs import LogReading
from tests.cluster.taking import Reader, TakeReading
from tests.cluster.test_log_reading import bodies, caught_up, publish_large
from tests.cluster.test_streams import STREAM, declared, publish
from tests.site import Site

__all__ = ["site"]

pytestmark = pytest.mark.requirement("F8.3")

LARGE = [bytes((65 + number,)) * (LARGE_OCTETS + number * 100_001) for number in range(2)]


class Noting:
    """Puts itself in front of what nodes answer. `told` has the answers; where `lost` is set, a node that has
    told a slice is not there any more.
    """

    def __init__(self, reading: LogReading, lost: bool = False, plain: bool = False) -> None:
        self.told: list[dict[str, Any]] = []
        for inquiry in reading.inquiries.values():
            inquiry.answer(LOG_READ, self._answerer(inquiry._answerers[LOG_READ], lost, plain))

    def _answerer(self, answers: Any, lost: bool, plain: bool) -> Any:
        async def read(argument: dict[str, Any]) -> Any:
            if plain:
                argument = {key: one for key, one in argument.items() if key != "within"}
            told = None if lost and argument["within"] else await answers(argument)
            self.told += [told] if told is not None and "blocks" in told else []
            return told

        return read


def stream_of(site: Site, sent: list[bytes]) -> LogReading:
    client = declared(site)
    for body in sent:
        if len(body) > 1000:
            publish_large(client, body)
        else:
            publish(client, body.decode())
    caught_up(site)
    return LogReading(site, STREAM)


def test_slices_are_the_blocks_that_a_whole_entry_has(site: Site) -> None:
    sent = [b"a", LARGE[0], b"b", b"c", LARGE[1]]
    reading = stream_of(site, sent)
    _, plan = reading.plan()
    noting = Noting(reading)
    blocks = reading.blocks(plan["first"], plan["end"])
    assert [row.body for row in reading.rows(plan["first"], plan["end"])] == sent
    assert max(len(one["blocks"]) for one in noting.told) <= SLICE_OCTETS
    assert sum(1 for one in noting.told if one.get("within")) > 2 * LARGE_OCTETS // SLICE_OCTETS
    Noting(reading, plain=True)
    whole = reading.blocks(plan["first"], plan["end"])
    assert [(one.first, one.payload) for one in blocks] == [(one.first, one.payload) for one in whole]
    second = blocks[2].first
    assert [row.body for row in reading.rows(second, plan["end"])] == sent[2:]


def test_entries_of_many_messages_are_cut_at_blocks(site: Site) -> None:
    """Runs that are larger than a block, and runs and messages that are smaller, in one entry."""
    client = declared(site)
    sent = [b"%04d" % number * 5_000 for number in range(70)]
    done = [client.publish(STREAM, *sent[:40]), client.publish(STREAM, sent[40], sent[41][:10])]
    client.publish("", b"to nothing" * 1000)
    done += [client.publish(STREAM, body) for body in sent[42:]]
    assert all(client.confirms(one) for one in done)
    caught_up(site)
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    assert any(octets > LARGE_OCTETS for *_, octets in plan["ranges"])
    noting = Noting(reading)
    rows = reading.rows(plan["first"], plan["end"])
    assert [row.body for row in rows] == [*sent[:41], sent[41][:10], *sent[42:]]
    assert max(len(one["blocks"]) for one in noting.told) <= BLOCK_OCTETS + 4096 and len(noting.told) > 4
    for at in (1, 39, 40, 55):
        found = reading.rows(rows[at].sequence, rows[at + 9].sequence)
        assert [row.body for row in found] == [row.body for row in rows[at : at + 9]]


def test_filters_look_at_large_messages(site: Site) -> None:
    client = declared(site)
    publish(client, "7", headers={"n": 7})
    for number, body in enumerate(LARGE):
        publish_large(client, body, headers={"n": number})
    publish(client, "8", headers={"n": 8})
    reading = LogReading(site, STREAM)
    _, plan = reading.plan()
    for taking, wanted in {"n = 1": LARGE[1:], "n < 1": LARGE[:1], "n > 8": []}.items():
        found = reading.rows(plan["first"], plan["end"], taking=taking)
        assert [row.body for row in found] == wanted
    assert bodies(reading.rows(plan["first"], plan["end"], taking="n > 6")) == ["7", "8"]


def test_takes_have_large_messages(site: Site) -> None:
    client = declared(site)
    client.declare("q")
    publish_large(client, LARGE[0], queue="q")
    reader = Reader(site, "q")
    asked = reader.take("n1", 1)
    site.run(1.0)
    [(first, last)] = reader.taken(asked)
    reading = TakeReading(site, "q", NamedTake(b"r", 1))
    noting = Noting(reading)
    assert [row.body for row in reading.rows(first, last + 1)] == [LARGE[0]]
    assert any(one.get("within") for one in noting.told)


@pytest.mark.parametrize("release", ["lost", "before"])
def test_no_other_node_goes_on_in_the_middle_of_a_block(site: Site, release: str) -> None:
    """The client finds its answer cut short, and asks again. Nodes of the release before answer whole."""
    reading = stream_of(site, [LARGE[0]])
    _, plan = reading.plan()
    noting = Noting(reading, lost=release == "lost", plain=release == "before")
    if release == "lost":
        with pytest.raises(CutShortError, match="does not go on"):
            reading.blocks(plan["first"], plan["end"])
        return
    assert [row.body for row in reading.rows(plan["first"], plan["end"])] == [LARGE[0]]
    assert len(noting.told[-1]["blocks"]) > LARGE_OCTETS


def test_readers_of_large_entries_let_others_in_between(site: Site) -> None:
    """A reader of small entries waits for a part of the work of others, and not for all of it."""
    reading = stream_of(site, [b"small", *LARGE])
    _, plan = reading.plan()
    first, end = plan["first"], plan["end"]
    nodes = reading.running[:1]

    async def read() -> list[str]:
        done = []

        async def whole(name: str, first: int) -> None:
            async for _ in reading.replicas(nodes).blocks(first, end):
                pass
            done.append(name)

        async def small() -> None:
            async for _ in reading.replicas(nodes).blocks(first, first + 1):
                pass
            done.append("small")

        await asyncio.gather(*(whole("large", first) for _ in range(4)), small())
        return done

    assert asyncio.run(read())[0] == "small"
