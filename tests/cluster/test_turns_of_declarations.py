"""Declarations of one turn are one entry of the catalog's log, and no answer to a declaration waits for a
timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from cluster.broker.broker import Broker
from cluster.catalog.recent_requests import RECENT_REQUESTS
from cluster.catalog.replica import CATALOG, COMMANDS_UNDER_WAY
from node.wire.amqp091 import methods as m
from tests.simulation.node import SimulatedNode
from tests.site import Site

NODES = ("n1", "n2", "n3")
TICKS_S = 0.06
"""Several ticks of a node, and less than any other timer of a cluster at rest."""


@pytest.fixture
def site() -> Site:
    """A cluster at rest, all of whose nodes have leases."""
    site = Site(*NODES)
    site.until(lambda: all(len(node.broker.connected) == 2 for node in site.nodes.values()))
    site.run(0.5)
    return site


def leader_of(site: Site) -> str:
    return next(node.name for node in site.nodes.values() if node.broker.catalog.leads)


def follower_of(site: Site) -> str:
    return next(name for name in NODES if name != leader_of(site))


def log_length(site: Site) -> int:
    return site.nodes[leader_of(site)].broker.host.groups[CATALOG].raft.last_index


def answers_to(site: Site, name: str, commands: int) -> list[object]:
    """Have one turn of a node submit so many declarations of exchanges. Returns the list of the answers."""
    node, answers = site.nodes[name], list[object]()

    def submit() -> None:
        for number in range(commands):
            exchange = {"name": f"e{number}", "kind": "direct"}
            node.broker.catalog.submit(
                "declare_exchange",
                {"vhost": "/", "exchange": exchange},
                lambda _, refusal: answers.append(refusal),
            )

    node.input(submit)
    return answers


@contextmanager
def no_ticks() -> Iterator[None]:
    """Nodes handle messages and finished writes, and no timer of theirs runs any more."""
    with mock.patch.object(SimulatedNode, "_tick", lambda self: None):
        yield


@pytest.mark.parametrize("leads", [True, False])
def test_the_commands_of_a_turn_are_one_entry(site: Site, leads: bool) -> None:
    name = leader_of(site) if leads else follower_of(site)
    before = log_length(site)
    answers = answers_to(site, name, 40)
    site.until(lambda: len(answers) == 40)
    assert answers == [None] * 40
    assert log_length(site) == before + 1
    for node in site.nodes.values():
        assert node.broker.catalog.state.vhost("/").exchanges.get("e39").name == "e39"


def test_the_commands_of_a_turn_ask_once_what_every_node_sees(site: Site) -> None:
    node, asked = site.nodes[follower_of(site)], list[int]()
    awaited = node.broker.catalog._awaited
    intact = awaited.asked

    def counted(question: int, now: float) -> int:
        asked.append(question)
        return intact(question, now)

    with mock.patch.object(awaited, "asked", counted):
        answers = answers_to(site, node.name, 40)
        site.until(lambda: len(answers) == 40)
    assert len(asked) == 1


def test_a_cluster_with_a_node_of_the_last_release_gets_an_entry_for_each_command(site: Site) -> None:
    name = follower_of(site)
    for node in site.nodes.values():
        node.broker.catalog.state.members.formats["n3"] = 0
    before = log_length(site)
    answers = answers_to(site, name, 5)
    site.until(lambda: len(answers) == 5)
    assert log_length(site) == before + 5


def test_no_more_commands_are_under_way_than_the_catalog_remembers(site: Site) -> None:
    """A command that comes twice is carried out once, however many commands follow it."""
    assert COMMANDS_UNDER_WAY < RECENT_REQUESTS
    node, most = site.nodes[follower_of(site)], 0

    def look(_: SimulatedNode) -> None:
        nonlocal most
        most = max(most, len(node.broker.catalog._pending))

    node.after_turn = look
    answers = answers_to(site, node.name, 2 * RECENT_REQUESTS)
    site.until(lambda: len(answers) == 2 * RECENT_REQUESTS)
    assert answers == [None] * 2 * RECENT_REQUESTS
    assert most == COMMANDS_UNDER_WAY
    assert node.broker.catalog.unanswered == 0


@pytest.mark.requirement("A16.3")
@pytest.mark.parametrize("leads", [True, False])
def test_an_answer_waits_for_no_timer(site: Site, leads: bool) -> None:
    """The first declaration founds a partition, whose owner is elected."""
    client = site.client(leader_of(site) if leads else follower_of(site))
    site.run(TICKS_S)
    with no_ticks():
        site.run(TICKS_S)
        for queue in ("first", "second"):
            assert client.declare(queue).message_count == 0
            client.bind(queue, "amq.topic", "key.*")
    for node in site.nodes.values():
        assert node.broker.catalog.state.vhost("/").exchanges.route("amq.topic", "key.a") == {
            "first",
            "second",
        }


def test_a_new_queue_is_in_its_owners_log_before_the_answer(site: Site) -> None:
    """Later owners of the queue have the queue, also those whose catalog is behind."""
    client = site.client(follower_of(site))
    for number in range(12):
        client.declare(f"q{number}")
        queue = client.node.broker.catalog.state.queue("/", f"q{number}")
        holders = [
            node.name
            for node in site.nodes.values()
            if queue.id in node.broker.owners[queue.partition].queues
        ]
        assert len(holders) == 1


def test_counts_of_a_queue_that_the_client_created_need_no_majority(site: Site) -> None:
    client = site.client(follower_of(site))
    asked = list[int]()
    intact = Broker.confirm_leading

    def counted(self: Broker, partition: int, number: int) -> bool:
        asked.append(partition)
        return intact(self, partition, number)

    with mock.patch.object(Broker, "confirm_leading", counted):
        client.declare("q")
        assert asked == []
        client.declare("q")
        assert len(asked) == 1


def test_a_declaration_that_finds_anothers_queue_tells_its_messages(site: Site) -> None:
    """Both clients declare before either has an answer: only one of them has created the queue."""
    first, second = site.client("n1"), site.client("n2")
    publisher = site.client("n3")
    for client in (first, second):
        client.send(m.QueueDeclare("q", durable=True))
    counts = [client.answer(m.QueueDeclareOk).message_count for client in (first, second)]
    assert counts == [0, 0]
    assert publisher.confirms(publisher.publish("q", b"one")) == [True]
    assert first.declare("q").message_count == 1
