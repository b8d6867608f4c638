"""Views over queues with several owners: the rows of all parts, merged, from any node (D15, D20)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.owner.context import FedByView, Feeding, PastNews
from node.refusal import NotFoundError, PreconditionFailedError
from node.session.view_port import (
    UNKNOWN_VERSION,
    ViewVersion,
    followed,
    version_of,
    version_of_parts,
)
from tests.cluster.test_fed_streams import Told
from tests.cluster.test_fed_streams import row as of
from tests.cluster.test_several_owners import NAMES, Shared
from tests.cluster.test_streams import STREAM
from tests.cluster.test_view_links import Follower, row
from tests.cluster.test_views import Reading, order, read, rows
from tests.site import Site
from tests.wire.amqp10.view_rows import told_row

VIEW = {
    "name": "v",
    "queue": "q",
    "filter": "",
    "group_by": ["/c"],
    "fields": {"c": "/c", "n": "COUNT(*)", "sum": "SUM(/p)", "avg": "AVG(/p)", "most": "MAX(/p)"},
}


def define(site: Site, **terms: Any) -> None:
    site.submit("n1", "put_view", {"vhost": "/", "view": {**VIEW, **terms}, "parts": True})


@pytest.fixture
def shared() -> Shared:
    found = Shared()
    define(found.site)
    return found


@pytest.mark.requirement("D15.2", "D20.7")
def test_rows_are_those_of_all_parts_from_any_node(shared: Shared) -> None:
    for number, client in enumerate(shared.clients):
        shared.publish(client, order("a", number), order(f"b{number}", 0.5))
    wanted = [["a", 3, 3, 1.0, 2], *([f"b{number}", 1, 0.5, 0.5, 0.5] for number in range(3))]
    assert shared.ready() == [2, 2, 2]
    for node in NAMES:
        assert rows(shared.site, node) == wanted
    assert read(shared.site, "n2").fields == list(VIEW["fields"])
    shared.publish(shared.clients[0], b"no JSON")
    assert rows(shared.site, "n3") == [*wanted, [None, 1, None, None, None]]
    shared.clients[1].purge("q")
    assert rows(shared.site, "n1") == []


@pytest.mark.requirement("D15.2", "D20.7")
def test_a_view_without_groups_has_one_row(shared: Shared) -> None:
    define(shared.site, name="all", group_by=[], fields={"n": "COUNT(*)", "avg": "AVG(/p)"}, filter="/p < 9")
    assert rows(shared.site, "n2", "all") == [[0, None]]
    for number, client in enumerate(shared.clients):
        shared.publish(client, *[order("a", number + 8)] * (number + 1))
    assert rows(shared.site, "n2", "all") == [[1, 8.0]]


@pytest.mark.requirement("D15.2", "D20.7")
def test_leased_and_lent_messages_are_in_no_row_twice(shared: Shared) -> None:
    first, _, third = shared.clients
    shared.publish(first, *(order("a", number) for number in range(20)))
    third.consume("q", prefetch=5)
    shared.site.until(lambda: len(third.deliveries) == 5)
    assert sum(row[1] for row in rows(shared.site, "n2")) == 15
    third.ack(third.deliveries[-1], multiple=True)
    shared.site.until(lambda: len(third.deliveries) == 10)
    assert sum(row[1] for row in rows(shared.site, "n2")) == 10
    third.close()
    shared.site.until(lambda: sum(shared.ready()) == 15)
    assert sum(row[1] for row in rows(shared.site, "n1")) == 15


@pytest.mark.requirement("D15.2", "D20.8")
def test_messages_on_their_way_between_two_owners_are_what_the_rows_lack(shared: Shared) -> None:
    first, _, third = shared.clients
    shared.publish(first, *(order("a", 1) for _ in range(10)))
    third.declare("q", owners=3)
    mend = shared.site.network.cut([("n1", "n3")])
    third.consume("q", prefetch=1000)
    shared.site.until(lambda: shared.under_way(0))
    third.connection.drop()
    for _ in range(3):
        answer = Reading(shared.site, "n2").answer
        assert (answer.rows, answer.behind, answer.complete) == ([], 10, False)
    mend()
    shared.site.until(lambda: sum(shared.ready()) == 10)
    assert rows(shared.site, "n2") == [["a", 10, 10, 1.0, 1]]


@pytest.mark.requirement("D15.2", "D20.8")
@pytest.mark.parametrize("late", ["n1", "n3"])
def test_rows_of_several_moments_are_not_told_as_those_of_one(shared: Shared, late: str) -> None:
    """Messages are lent between the answers of two owners: they are in no part, or in two."""
    first, _, third = shared.clients
    shared.publish(first, *(order("a", 1) for _ in range(10)))
    rows(shared.site, "n2")
    mend = shared.site.network.cut([("n2", late)])
    reading = Reading(shared.site, "n2")
    shared.site.run(0.02)
    third.consume("q", prefetch=1000)
    shared.site.until(lambda: shared.under_way(0), step_s=0.0002)
    third.connection.drop()
    shared.site.until(lambda: shared.ready() == [0, 0, 10] and not shared.under_way(0))
    shared.site.run(0.02)
    assert not reading.answers
    mend()
    assert not reading.answer.at_once
    assert sum(row[1] for row in reading.answer.rows) == (0 if late == "n1" else 20)
    assert rows(shared.site, "n2") == [["a", 10, 10, 1.0, 1]]


@pytest.mark.requirement("D15.2", "D20.8")
@pytest.mark.parametrize("part", [0, 1])
def test_the_rows_stay_when_the_owner_of_a_part_is_killed(shared: Shared, part: int) -> None:
    for client in shared.clients:
        shared.publish(client, *(order("a", number) for number in range(10)))
    before = read(shared.site, "n3").version
    shared.site.nodes[NAMES[part]].stop(power=True)
    shared.site.until(lambda: shared.owner(part) is not None)
    found = read(shared.site, "n3")
    assert found.rows == [["a", 30, 135, 4.5, 9]]
    assert found.version > before and found.version.of_parts[2] == before.of_parts[2]
    shared.publish(shared.clients[2], order("b", 1))
    assert len(rows(shared.site, "n3")) == 2


@pytest.mark.requirement("D15.2", "D20.7")
def test_an_answer_waits_for_other_rows_of_any_part(shared: Shared) -> None:
    known = read(shared.site, "n1").version
    assert len(known.of_parts) == 3
    for client in shared.clients:
        waits = [Reading(shared.site, "n1", known=known, wait_ms=20_000) for _ in range(3)]
        shared.site.run(3.0)
        assert not any(one.answers for one in waits)
        shared.publish(client, order("a", 1))
        shared.site.until(lambda: all(one.answers for one in waits))  # noqa: B023
        known = read(shared.site, "n1").version
        assert all(UNKNOWN_VERSION < one.answer.version <= known for one in waits)
    waits = [Reading(shared.site, "n1", known=known, wait_ms=2000)]
    shared.site.run(1.0)
    assert not waits[0].answers
    shared.site.run(2.0)
    assert waits[0].answers and waits[0].answer.version == known and waits[0].answer.rows
    stale = known._replace(parts=known.parts[:2])
    assert Reading(shared.site, "n1", known=stale, wait_ms=20_000).answer.rows


@pytest.mark.requirement("D15.2", "D20.7")
def test_few_questions_wait_at_an_owner_whose_part_rests(shared: Shared) -> None:
    known = read(shared.site, "n1").version
    for number in range(30):
        readings = [Reading(shared.site, "n1", known=known, wait_ms=20_000) for _ in range(4)]
        shared.publish(shared.clients[0], order("a", number))
        shared.site.until(lambda: all(one.answers for one in readings))  # noqa: B023
        known = readings[0].answer.version
    assert len(watches_of(shared)) <= 3
    shared.site.run(1.0)
    assert not watches_of(shared)


def watches_of(shared: Shared) -> Any:
    views: Any = shared.site.front_end("n1").views
    return views._watches._waiting


@pytest.mark.requirement("D15.2", "D20.7")
def test_a_view_that_changes_is_merged_by_its_new_terms(shared: Shared) -> None:
    shared.publish(shared.clients[0], order("a", 1))
    define(shared.site, fields={"n": "COUNT(*)"}, group_by=[])
    first = Reading(shared.site, "n2").answer
    assert first.awaited or first.rows == [[1]]
    assert rows(shared.site, "n2") == [[1]]
    shared.site.submit("n1", "delete_view", {"vhost": "/", "name": "v"})
    with pytest.raises(NotFoundError):
        read(shared.site, "n2")


@pytest.mark.requirement("D15.2", "D20.7")
def test_queues_with_parts_of_nodes_take_no_views_and_old_commands_stay_refused() -> None:
    shared = Shared()
    shared.clients[0].declare("each", owners="each-node")
    catalog = shared.site.nodes["n1"].broker.catalog
    answers: list[Any] = []
    for arguments in ({"view": {**VIEW, "queue": "each"}, "parts": True}, {"view": VIEW}):
        catalog.submit("put_view", {"vhost": "/", **arguments}, lambda _, refusal: answers.append(refusal))
        shared.site.nodes["n1"].wanted()
        shared.site.run(0.5)
    assert [type(one) for one in answers] == [PreconditionFailedError] * 2
    assert "parts come and go" in str(answers[0])


MESSAGES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.fixed_dictionaries(
            {"c": st.sampled_from(["a", "b", 1, 1.0, True, None])},
            optional={"p": st.sampled_from([1, 2, -3, 0.25, 0.1, 1e308, "x", True])},
        ),
    ),
    max_size=12,
)


@pytest.mark.requirement("D15.2", "D20.7")
def test_merged_rows_equal_a_recount_of_one_queue(shared: Shared) -> None:
    site, client = shared.site, shared.clients[0]
    client.declare("one")
    site.submit("n1", "put_view", {"vhost": "/", "view": {**VIEW, "name": "w", "queue": "one"}})

    @settings(max_examples=25, deadline=None)
    @given(MESSAGES)
    def recount(messages: list[tuple[int, dict[str, Any]]]) -> None:
        for name in ("q", "one"):
            client.purge(name)
        for place, message in messages:
            shared.publish(shared.clients[place], json.dumps(message).encode())
            client.confirms(client.publish("one", json.dumps(message).encode()))
        merged, whole = read(site, "n2"), read(site, "n2", "w")
        assert sorted(map(repr, merged.rows)) == sorted(map(repr, whole.rows))

    recount()


def test_versions_of_parts_are_one_text() -> None:
    version = version_of_parts([(2, 7), (1, 9)])
    assert (version.term, version.number, str(version)) == (3, 16, "2.7-1.9")
    assert followed(str(version), "1.5") == (version, 1500)
    assert version_of(version.numbers) == version
    assert followed("3.4", "") == (ViewVersion(3, 4), 0)
    for wrong in ("-", "1.2-", "1-2", "1.2-3.x", "-1.2", "-".join(["1.2"] * 17)):
        with pytest.raises(ValueError, match=r".*"):
            followed(wrong, "")


@pytest.mark.requirement("D15.2", "D20.8")
def test_a_link_follows_the_rows_of_all_parts_over_lost_owners(shared: Shared) -> None:
    define(shared.site, fields={"c": "/c", "n": "COUNT(*)", "sum": "SUM(/p)"})
    for client in shared.clients:
        shared.publish(client, order("a", 2))
    follower = Follower(shared.site, "n3")
    follower.knows(row("a", 3, 6))
    shared.publish(shared.clients[1], order("b", 0.5))
    follower.knows(row("a", 3, 6), row("b", 1, 0.5))
    shared.site.nodes["n2"].stop(power=True)
    shared.site.until(lambda: shared.owner(1) is not None)
    shared.publish(shared.clients[0], order("b", 1))
    follower.knows(row("a", 3, 6), row("b", 2, 1.5))
    # No row has shrunk while the new owner counted.
    told = [told_row(one).row for one in follower.payloads]
    assert [one["sum"] for one in told if one and one["c"] == "b"] == [0.5, 1.5] and None not in told
    assert not follower.ends()
    taker = shared.clients[2]
    taker.consume("q")
    shared.site.until(lambda: len(taker.deliveries) == 5)
    follower.knows()


GROUPS = {"name": "w", "fields": {"c": "/c", "n": "COUNT(*)", "sum": "SUM(/p)"}}


@pytest.mark.requirement("D15.2", "D20.7")
@pytest.mark.interpreted
def test_a_stream_has_the_changes_of_all_parts(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many rows the stream has none, and the log of events says so."""
    news = list[PastNews]()
    for node in shared.site.nodes.values():
        node.past_changed = news.append
    define(shared.site, **GROUPS)
    first, second, _ = shared.clients
    first.declare(STREAM, queue_type="stream", view="w")
    first.declare("all", underlying_topic=STREAM, recovery_point="epoch")
    told = Told(shared.site, "n2")
    for price, client in enumerate(shared.clients, 1):
        shared.publish(client, order("a", price))
    told.knows(of("a", 3, 6))
    monkeypatch.setattr("cluster.gateway.views_of_parts.MOST_ROWS", 2)
    shared.publish(second, *(order(customer, 1) for customer in "bcd"))
    shared.site.until(lambda: news)
    told.take()
    monkeypatch.undo()
    told.knows(of("a", 3, 6), *(of(customer, 1, 1) for customer in "bcd"))
    assert [one.feeding for one in news if isinstance(one, FedByView)] == [
        Feeding.TOO_MANY_ROWS,
        Feeding.FED,
    ]
    second.purge("q")
    told.knows()
