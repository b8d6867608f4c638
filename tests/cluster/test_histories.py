"""Queues that keep their messages when these have left (queue argument x-history)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS
from node.delivery.deeds import Became
from tests.cluster.kept_links import site
from tests.cluster.test_settling_by_bookmark import QUEUE
from tests.cluster.test_streams import OFFSET, got
from tests.cluster.test_topics import publish, taken
from tests.cluster.test_undoing import back
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

HISTORY = f"{QUEUE}.history"


def keeping(site: Site, history: Any = "7D", **arguments: Any) -> Client:
    client = site.client("n1")
    client.declare(QUEUE, history=history, **arguments)
    return client


def read(site: Site, queue: str) -> list[str]:
    """All messages that a reader on another node gets."""
    reader = site.client("n2")
    reader.consume(queue, prefetch=100, arguments={OFFSET: "first"})
    site.run(0.1)
    return got(reader)


def names(site: Site) -> set[str]:
    return {name for _, name in site.nodes["n3"].broker.catalog.state.queues}


@pytest.mark.requirement("X4.5")
@pytest.mark.parametrize("mode", [2, 1])
def test_messages_come_back_to_a_queue_with_a_history(site: Site, mode: int) -> None:
    client = keeping(site)
    publish(client, *"abc", to=QUEUE, delivery_mode=mode)
    assert taken(site.client("n2"), QUEUE) == [*"abc"]
    assert back(site) == {Became.SETTLED: 3}
    site.nodes["n1"].stop(power=True)
    assert taken(site.client("n2"), QUEUE) == [*"abc"]
    assert back(site) == {Became.SETTLED: 3}


@pytest.mark.requirement("D17.1")
def test_the_history_is_read_as_a_stream(site: Site) -> None:
    client = keeping(site, max_priority=5)
    publish(client, *"abc", to=QUEUE)
    assert len(taken(client, QUEUE)) == 3
    for queue in (QUEUE, HISTORY):
        assert read(site, queue) == [*"abc"]


@pytest.mark.requirement("X6.1")
def test_a_new_queue_has_the_history_of_another_one(site: Site) -> None:
    client = keeping(site)
    publish(client, *"abc", to=QUEUE)
    assert len(taken(client, QUEUE)) == 3
    client.declare("new", underlying_topic=HISTORY, recovery_point="epoch")
    assert taken(client, "new") == [*"abc"]


@pytest.mark.parametrize(("history", "kept"), [("10s", 0), (4, 2)])
def test_a_history_ends_by_age_or_by_octets(site: Site, history: Any, kept: int) -> None:
    client = keeping(site, history)
    publish(client, "aa", "bb", "cc", "dd", to=QUEUE)
    site.run(12.0 if history == "10s" else 0.2)
    assert client.depth(HISTORY) == kept
    assert taken(client, QUEUE) == ["aa", "bb", "cc", "dd"]
    assert back(site) == ({Became.SETTLED: kept} if kept else {})


def test_a_history_goes_with_its_queue(site: Site) -> None:
    client = keeping(site)
    client.declare(QUEUE, history="7D")
    assert names(site) == {QUEUE, HISTORY}
    with pytest.raises(ChannelClosedError, match=r"406 .*goes with that queue"):
        client.delete(HISTORY)
    client = site.client("n2")
    with pytest.raises(ChannelClosedError, match=r"406 .*'x-history'"):
        client.declare(QUEUE, history="8D")
    site.client("n2").delete(QUEUE)
    assert names(site) == set()
    site.client("n1").declare(HISTORY)
    with pytest.raises(ChannelClosedError, match=f"406 .*there is a queue '{HISTORY}'"):
        site.client("n1").declare(QUEUE, history="7D")
    assert names(site) == {HISTORY}


def test_an_unused_queue_takes_its_history_along(site: Site) -> None:
    keeping(site, expires=500)
    site.until(lambda: names(site) == set())


def test_the_history_of_an_imported_queue_may_come_first(site: Site) -> None:
    client = site.client("n1")
    client.declare(HISTORY, queue_type="stream", max_age="7D", history_of=QUEUE)
    publish(client, "a", to=HISTORY)
    client.declare(QUEUE, history="7D")
    assert names(site) == {QUEUE, HISTORY}
    publish(client, "b", to=QUEUE)
    assert taken(client, QUEUE) == ["b"]
    assert read(site, HISTORY) == ["a", "b"]
    client.delete(QUEUE)
    assert names(site) == set()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"history": "x"}, "invalid arg 'x-history'"),
        ({"history": 0}, "invalid arg 'x-history'"),
        ({"history": True}, "invalid arg 'x-history'"),
        ({"history": "7D", "queue_type": "classic"}, "invalid arg 'x-history' for queue of type classic"),
        ({"history": "7D", "queue_type": "stream"}, "invalid arg 'x-history'"),
        ({"history": "7D", "underlying_topic": "s"}, "both x-history and x-underlying-topic"),
        ({"history": "7D", "exclusive": True}, "invalid property 'exclusive-owner'"),
        ({"history": "7D", "durable": False}, "invalid property 'non-durable'"),
    ],
)
def test_a_wrong_declaration_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=f"406 .*{reason}"):
        site.client("n1").declare(QUEUE, **arguments)
    assert names(site) == set()


def test_a_name_without_room_is_refused(site: Site) -> None:
    with pytest.raises(ChannelClosedError, match=r"406 .*no stream keeps a history under this name"):
        site.client("n1").declare("q" * 250, history="7D")


def test_a_virtual_host_counts_the_history(site: Site) -> None:
    site.submit("n1", "set_vhost_limit", {"vhost": "/", "limit": "max-queues", "value": 1})
    with pytest.raises(ChannelClosedError, match=r"406 .*queue limit"):
        site.client("n1").declare(QUEUE, history="7D")
    assert names(site) == set()


def test_no_queue_has_a_history_before_all_nodes_know_histories(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats = site.nodes["n1"].broker.formats
    level = ARGUMENT_LEVELS["x-history"] - 1
    monkeypatch.setattr(type(formats), "everywhere", property(lambda _: level))
    with pytest.raises(ChannelClosedError, match=r"406 .*x-history; upgrade all nodes first"):
        site.client("n1").declare(QUEUE, history="7D")
