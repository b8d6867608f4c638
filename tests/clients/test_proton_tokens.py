"""Access tokens: Qpid Proton with one as its password, and RabbitMQ's client with a new one in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import rabbitmq_amqp_python_client as rabbitmq
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, LinkDetached

from tests.clients.proton_links import WAIT_S
from tests.cluster.token_issuer import token
from tests.processes.nodes import Cluster, Node
from tests.processes.token_nodes import SKEW_S, take_tokens

pytestmark = pytest.mark.clients

RIGHTS = "quorate.configure:%2F/mine* quorate.write:%2F/mine* quorate.write:%2F/amq.* quorate.read:%2F/mine*"


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that takes tokens."""
    cluster = Cluster(tmp_path_factory.mktemp("tokens"), nodes=1)
    take_tokens(cluster[0])
    with cluster.running():
        yield cluster[0]


def shown(lasts: float = 600, **changes: Any) -> str:
    return token(**{"exp": int(time.time() + lasts), "scope": RIGHTS, **changes})


def by_token(node: Node, text: str) -> BlockingConnection:
    return BlockingConnection(
        f"amqp://{node.amqp}", timeout=WAIT_S, user="any name", password=text, allowed_mechs="PLAIN"
    )


@pytest.mark.requirement("F5.7")
def test_proton_logs_in_by_a_token(issued: Node) -> None:
    with issued.connect() as connection:
        connection.channel().queue_declare("mine-proton", durable=True)
        connection.channel().queue_declare("yours-proton", durable=True)
    client = by_token(issued, shown())
    client.create_sender("/queues/mine-proton").send(Message(body="by token"))
    receiver = client.create_receiver("/queues/mine-proton")
    assert receiver.receive(timeout=WAIT_S).body == "by token"
    receiver.accept()
    with pytest.raises(LinkDetached) as refused:
        client.create_receiver("/queues/yours-proton")
    assert refused.value.condition == "amqp:unauthorized-access"
    client.close()
    with pytest.raises(ConnectionException):
        by_token(issued, shown(-60))


@pytest.mark.requirement("F5.7")
def test_proton_is_told_that_its_token_has_expired(issued: Node) -> None:
    client = by_token(issued, shown(2))
    with pytest.raises(ConnectionException, match="the access token has expired"):
        client.wait(lambda: False, timeout=2 + SKEW_S + 5)


@pytest.mark.requirement("F5.7")
def test_rabbitmqs_client_renews_its_token(issued: Node) -> None:
    first = shown(3)
    options = rabbitmq.OAuth2Options(token=first)
    environment = rabbitmq.Environment(uri=f"amqp://{issued.amqp}/", oauth2_options=options)
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    management.declare_queue(rabbitmq.QuorumQueueSpecification(name="mine-renewed"))
    publisher = connection.publisher(rabbitmq.AddressHelper.queue_address("mine-renewed"))
    connection.refresh_token(shown(600))
    with pytest.raises(ConnectionException, match="the access token has expired"):
        by_token(issued, first).wait(lambda: False, timeout=3 + SKEW_S + 5)
    status = publisher.publish(rabbitmq.Message(body=b"on and on", inferred=True))
    assert status.remote_state == rabbitmq.OutcomeState.ACCEPTED
    assert management.purge_queue("mine-renewed") == 1
    connection.close()
    environment.close()
