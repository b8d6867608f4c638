"""Links that the node attaches to the containers which its configuration names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from node.refusal import AccessRefusedError, EntryRefusedError, NotFoundError, Refusal
from node.session.amqp10.containers import links_for
from node.session.amqp10.session import ConnectionSession
from node.session.container_links import ContainerLink
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.frames import FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from tests.session.answering import Socket
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.peer import error_in, transfer
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, credit, receiver, sender, settled
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

SENDS = ContainerLink("out", "billing-*", "/", True, "/queues/q", "inbox")
TAKES = ContainerLink("in", "billing-*", "/", False, "/queues/r", "outbox")
MINE = ConnectionLimits().channel_max


class NamedContainer(Client):
    """A client whose container has an id."""

    def __init__(
        self, broker: NodeBroker, container: str, *links: ContainerLink, behind: Sequence[Any] = ()
    ) -> None:
        """Sends what is `behind` in the piece with Open."""
        self.broker = broker
        self.socket = Socket()
        port: Any = broker
        self.session = ConnectionSession(port, self.socket, ConnectionLimits(), lambda: 1.0, links)
        self._parser = FrameParser(LARGE)
        self.frames = []
        self.send(SASL_HEADER, PLAIN)
        self.opening = self.send(AMQP_HEADER, d.Open(container, max_frame_size=LARGE), *behind)

    def begin(self) -> list[Any]:
        """Begin the node's session too."""
        return self.send(begin(remote_channel=MINE))


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("a", ["a"], ["", "b", "aa", "A"]),
        ("*", ["", "a"], []),
        ("a*", ["a", "ab"], ["ba", ""]),
        ("*a", ["a", "ba"], ["ab"]),
        ("ab*ba", ["abba", "ab-ba"], ["aba", "ab"]),
        ("a?[b]", ["a?[b]"], ["axb"]),
    ],
)
def test_containers_are_named_by_patterns(pattern: str, taken: list[str], left: list[str]) -> None:
    link = ContainerLink("out", pattern, "/", True, "/queues/q", "inbox")
    assert all([one.name for one in links_for([link], name, "/")] == ["out"] for name in taken)
    assert not any(links_for([link], name, "/") for name in left)
    assert not any(links_for([link], name, "other") for name in taken)


@pytest.mark.requirement("B4.3", "B4.4")
def test_only_containers_that_are_named_get_a_session_of_the_node() -> None:
    broker = NodeBroker()
    assert [type(one) for one in NamedContainer(broker, "sales", SENDS).opening] == [d.Open]
    assert [type(one) for one in NamedContainer(broker, "billing-1", SENDS).opening] == [d.Open, d.Begin]


@pytest.mark.requirement("B4.3")
def test_the_messages_of_a_queue_go_to_the_container() -> None:
    broker = NodeBroker()
    client = NamedContainer(broker, "billing-1", SENDS)
    (attach,) = client.begin()
    assert (attach.name, attach.target.address) == ("out", "inbox")
    client.send(receiver(5, "/queues/q", "out"), credit(10, handle=5))
    (consumer,) = broker.consumed
    assert broker.consumed[consumer] == "q"
    client.session.deliver(consumer, run_of(message(), message()), broker.lease(consumer, 2), False, consumer)
    assert [one.delivery_id for one in client.reads()] == [0, 1]
    client.send(settled(0, 1, d.Accepted()))
    assert not broker.leased
    (view,) = client.session.session_views()
    assert (view.number, [one.name for one in view.links]) == (MINE, ["out"])
    client.send(d.Close())
    assert not broker.consumed


@pytest.mark.requirement("B4.4")
def test_the_messages_of_the_container_go_to_a_queue() -> None:
    broker = NodeBroker()
    client = NamedContainer(broker, "billing-1", TAKES)
    (attach,) = client.begin()
    assert (attach.name, attach.source.address) == ("in", "outbox")
    (flow,) = client.send(sender(5, "/queues/r", "in"))
    assert flow.link_credit == ConnectionLimits().link_credit
    (told,) = client.send(transfer(0, handle=5))
    assert told.state == d.Accepted()
    assert [(run.exchange, run.routing_key) for run in broker.published] == [("", "r")]


@pytest.mark.requirement("B4.3", "B4.4")
@pytest.mark.parametrize(
    ("link", "answer", "name", "refusal", "condition"),
    [
        (SENDS, receiver(5, "q", "out"), "queue q", NotFoundError("no queue"), AmqpCondition.NOT_FOUND),
        (
            SENDS, receiver(5, "q", "out"), "consume", AccessRefusedError("no right"),
            AmqpCondition.UNAUTHORIZED_ACCESS,
        ),
        (
            TAKES, sender(5, "r", "in"), "route r", AccessRefusedError("no right"),
            AmqpCondition.UNAUTHORIZED_ACCESS,
        ),
    ],
)  # fmt: skip
def test_a_link_needs_the_rights_of_a_link_of_the_client(
    link: ContainerLink, answer: d.Attach, name: str, refusal: Refusal, condition: AmqpCondition
) -> None:
    broker = NodeBroker()
    broker.refusals[name] = refusal
    client = NamedContainer(broker, "billing-1", link)
    client.begin()
    (detach,) = client.send(answer)
    assert error_in(detach, d.Detach).condition == condition
    assert client.socket.events == ["offered_link_ended"]
    assert client.send(d.Detach(5, True)) == [] and client.socket.events == ["offered_link_ended"]


@pytest.mark.requirement("B4.3")
def test_a_refused_link_is_not_attached_again_on_the_connection() -> None:
    broker = NodeBroker()
    client = NamedContainer(broker, "billing-1", SENDS)
    client.begin()
    refusal = receiver(5, "q", "out", target=None)
    assert client.send(refusal, d.Detach(5, True)) == [d.Detach(0, True)]
    client.session.tick()
    assert client.reads() == [] and not broker.consumed
    assert client.socket.events == ["offered_link_ended"]


def test_a_user_with_too_many_channels_keeps_the_connection_without_the_links() -> None:
    class Full(NodeBroker):
        def channel_opened(self, user: str) -> None:
            raise EntryRefusedError("too many channels")

    client = NamedContainer(Full(), "billing-1", SENDS, TAKES)
    assert [type(one) for one in client.opening] == [d.Open]
    assert client.socket.events == ["offered_link_ended"] * 2


def test_a_connection_that_is_closed_in_the_piece_that_opens_it_gets_no_session() -> None:
    client = NamedContainer(NodeBroker(), "billing-1", SENDS, behind=(d.Close(),))
    assert [type(one) for one in client.opening] == [d.Open, d.Close]


def test_a_link_of_the_node_is_not_redirected() -> None:
    class Elsewhere(NodeBroker):
        def owner_elsewhere(self, vhost: str, name: str, holder: int) -> tuple[str, int] | None:
            return "other", 5672

    broker = Elsewhere()
    client = NamedContainer(broker, "billing-1", SENDS)
    client.begin()
    assert client.send(receiver(5, "q", "out")) == [] and list(broker.consumed.values()) == ["q"]
    refused = client.send(receiver(6, "q", "own"))
    assert error_in(refused[1], d.Detach).condition == "amqp:link:redirect"
