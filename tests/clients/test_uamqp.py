"""uamqp, the client in C of Azure's older SDKs, over TLS, which uamqp insists on: on each node in turn.

A sender of uamqp asks for receiver-settle-mode second, and never settles. So senders have to ask for first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pytest
import uamqp
from uamqp.authentication import SASLPlain
from uamqp.constants import ErrorCodes, MessageState, ReceiverSettleMode, SenderSettleMode

from tests.clients.proton_links import durable_queue, lasting_queue, left
from tests.processes.certificates import Authority
from tests.processes.nodes import Cluster, Node
from tests.processes.secured_nodes import free_port, secure

pytestmark = pytest.mark.clients

COUNT = 30
WAIT_MS = 20_000


class Secured(NamedTuple):
    cluster: Cluster
    ports: list[int]
    authority: str


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three nodes with TLS ports."""
    directory = tmp_path_factory.mktemp("uamqp")
    cluster, authority = Cluster(directory / "data"), Authority(directory)
    server = authority.issue("server", "a node", addresses=("127.0.0.1",))
    ports = [free_port() for _ in cluster.nodes]
    for node, port in zip(cluster.nodes, ports, strict=True):
        secure(node, authority, server, amqps=port)
    with cluster.running():
        yield Secured(cluster, ports, str(authority.certificate))


class Place:
    """A node, and a queue with a name of its own."""

    def __init__(self, secured: Secured, index: int, queue: str) -> None:
        self._secured, self._index, self.queue = secured, index, queue
        self.address = f"amqps://127.0.0.1:{secured.ports[index]}/queues/{queue}"

    @property
    def node(self) -> Node:
        return self._secured.cluster[self._index]

    def elsewhere(self) -> Place:
        return Place(self._secured, (self._index + 1) % 3, self.queue)

    def named(self, queue: str) -> Place:
        return Place(self._secured, self._index, queue)

    def login(self, password: str = "guest") -> SASLPlain:
        port = self._secured.ports[self._index]
        return SASLPlain("127.0.0.1", "guest", password, port=port, verify=self._secured.authority)

    def sender(self, **options: Any) -> uamqp.SendClient:
        first = ReceiverSettleMode.ReceiveAndDelete
        target = uamqp.Target(self.address)
        return uamqp.SendClient(target, auth=self.login(), receive_settle_mode=first, **options)

    def send(self, *messages: Any, **options: Any) -> list[Any]:
        """Send messages; returns their states."""
        with closing(self.sender(**options)) as client:
            for one in messages:
                client.queue_message(one)
            return list(client.send_all_messages())

    @contextmanager
    def receiver(self, password: str = "guest", **options: Any) -> Iterator[uamqp.ReceiveClient]:
        """A client that is closed in any case: one that the garbage collector closes ends the process."""
        source, login = uamqp.Source(self.address), self.login(password)
        client = uamqp.ReceiveClient(source, auth=login, prefetch=COUNT, auto_complete=False, **options)
        with closing(client):
            yield client


@pytest.fixture(params=[0, 1, 2], ids=["n1", "n2", "n3"])
def place(secured: Secured, request: pytest.FixtureRequest, name: str) -> Iterator[Place]:
    with durable_queue(secured.cluster[request.param], name):
        yield Place(secured, request.param, name)


def received(client: uamqp.ReceiveClient, count: int) -> list[Any]:
    """So many messages, which are not settled yet."""
    found: list[Any] = []
    while len(found) < count:
        batch = client.receive_message_batch(max_batch_size=count - len(found), timeout=WAIT_MS)
        assert batch, f"{len(found)} of {count} messages"
        found += batch
    return found


def body(message: Any) -> bytes:
    return b"".join(message.get_data())


BODIES = [b"%d" % number for number in range(COUNT)]


def sent(place: Place, *bodies: bytes, **options: Any) -> None:
    assert set(place.send(*map(uamqp.Message, bodies), **options)) == {MessageState.SendComplete}


def waiting(place: Place) -> int:
    return left(place.node, place.queue)


@pytest.mark.requirement("B5.3", "B5.4", "B5.7", "B5.10", "B6.1")
def test_messages_come_in_order_and_are_accepted(place: Place) -> None:
    sent(place, *BODIES)
    with place.elsewhere().receiver() as client:
        messages = received(client, COUNT)
        assert [body(one) for one in messages] == BODIES
        assert all(one.accept() for one in messages)
    assert waiting(place) == 0


@pytest.mark.requirement("B5.14", "B5.15")
def test_a_message_larger_than_a_frame(place: Place) -> None:
    """uamqp cuts messages into frames that the node takes, and encodes none larger than uamqp takes."""
    large = bytes(range(256)) * 2000
    sent(place, large, max_frame_size=131_072)
    with place.receiver() as client:
        (message,) = received(client, 1)
        assert body(message) == large and message.accept()


@pytest.mark.requirement("B6.5", "B6.7")
def test_released_and_modified_messages_come_again(place: Place) -> None:
    sent(place, b"x")
    with place.receiver() as client:
        (message,) = received(client, 1)
        assert message.release()
        (message,) = received(client, 1)
        assert not message.header or message.header.delivery_count in (None, 0)
        assert message.modify(True, False)
        (message,) = received(client, 1)
        assert message.header.delivery_count == 1
        assert message.accept()
    assert waiting(place) == 0


@pytest.mark.requirement("B6.3")
def test_a_rejected_message_is_gone(place: Place) -> None:
    sent(place, b"bad")
    with place.receiver() as client:
        (message,) = received(client, 1)
        assert message.reject(condition="amqp:internal-error", description="unreadable")
    assert waiting(place) == 0


@pytest.mark.requirement("B5.1", "B5.2")
def test_presettled_messages_are_gone_when_they_are_sent(place: Place) -> None:
    assert len(place.send(uamqp.Message(b"x"), send_settle_mode=SenderSettleMode.Settled)) == 1
    mode = ReceiverSettleMode.ReceiveAndDelete
    with place.receiver(receive_settle_mode=mode, send_settle_mode=SenderSettleMode.Settled) as client:
        (message,) = received(client, 1)
        assert body(message) == b"x"
    assert waiting(place) == 0


def test_every_section_comes_back(place: Place) -> None:
    properties = uamqp.message.MessageProperties(
        message_id="m-1", correlation_id="c-1", subject="s", reply_to="r", content_type="text/plain"
    )
    header = uamqp.message.MessageHeader()
    header.durable, header.priority = True, 7
    message = uamqp.Message(
        b"x",
        properties=properties,
        application_properties={b"colour": b"red", b"count": 3},
        annotations={b"x-opt-mine": 5},
        header=header,
    )
    assert place.send(message) == [MessageState.SendComplete]
    with place.elsewhere().receiver() as client:
        (found,) = received(client, 1)
        assert (found.properties.message_id, found.properties.correlation_id) == (b"m-1", b"c-1")
        assert (found.properties.subject, found.properties.content_type) == (b"s", b"text/plain")
        assert found.application_properties == {b"colour": b"red", b"count": 3}
        assert found.annotations[b"x-opt-mine"] == 5
        assert (found.header.durable, found.header.priority) == (True, 7)
        found.accept()


@pytest.mark.requirement("B4.5")
def test_a_queue_that_is_not_there_is_told(place: Place) -> None:
    absent = place.named("absent")
    with pytest.raises(uamqp.errors.AMQPError) as refused, absent.receiver() as client:
        client.receive_message_batch(timeout=WAIT_MS)
    assert refused.value.condition is ErrorCodes.NotFound


@pytest.mark.requirement("B2.1")
def test_a_wrong_password_is_refused(place: Place) -> None:
    with pytest.raises(uamqp.errors.AMQPConnectionError), place.receiver("wrong") as client:
        client.receive_message_batch(timeout=WAIT_MS)


@pytest.mark.requirement("F2.1")
def test_the_owner_killed_in_the_middle(secured: Secured, name: str) -> None:
    """The client's nodes live."""
    owner = lasting_queue(secured.cluster, name)
    sending, taking = (
        Place(secured, secured.cluster.nodes.index(node), name) for node in secured.cluster.others(owner)
    )
    with taking.receiver() as client:
        sent(sending, *BODIES)
        early = received(client, COUNT)
        owner.kill()
        later = [b"later " + body for body in BODIES]
        sent(sending, *later)
        messages = early + received(client, COUNT)
        assert [body(one) for one in messages] == BODIES + later
        assert all(one.accept() for one in messages)
    assert waiting(sending) == 0
    owner.start()
    owner.wait_ready()
