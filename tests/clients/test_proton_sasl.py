"""Log-ins by ANONYMOUS: of Qpid Proton's blocking client, and of pika with credentials of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pika.credentials
import pytest
from pika.exceptions import ChannelClosedByBroker
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, LinkDetached

from tests.clients.proton_links import WAIT_S, durable_queue
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node

pytestmark = pytest.mark.clients

USER = "passer-by"


@pytest.fixture(scope="module")
def open_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node whose anonymous clients come in as a user without a password, who may only use `open-…`."""
    cluster = Cluster(tmp_path_factory.mktemp("open"), {"anonymous_user": USER}, nodes=1)
    with cluster.running():
        management = Management(cluster[0])
        assert management.call("PUT", f"/users/{USER}", {"password_hash": "", "tags": ""}).status == 201
        rights = {"configure": "", "write": "^(open-.*|amq.default)$", "read": "^open-"}
        assert management.call("PUT", f"/permissions/%2F/{USER}", rights).status == 201
        yield cluster


def anonymous(node: Node) -> BlockingConnection:
    return BlockingConnection(f"amqp://{node.amqp}", timeout=WAIT_S, allowed_mechs="ANONYMOUS")


@pytest.mark.requirement("B2.2")
def test_an_anonymous_client_comes_in_as_the_configured_user(open_cluster: Cluster) -> None:
    node = open_cluster[0]
    with durable_queue(node, "open-door") as queue, durable_queue(node, "closed-door") as other:
        connection = anonymous(node)
        shown = [(row["user"], row["auth_mechanism"]) for row in Management(node).get("connections")]
        assert (USER, "ANONYMOUS") in shown
        connection.create_sender(queue).send(Message(body="no name"))
        receiver = connection.create_receiver(queue)
        assert receiver.receive(timeout=WAIT_S).body == "no name"
        receiver.accept()
        with pytest.raises(LinkDetached) as refused:
            connection.create_receiver(other)
        assert refused.value.condition == "amqp:unauthorized-access"
        connection.close()


class Anonymous:
    """Credentials of pika that have no name."""

    TYPE = "ANONYMOUS"
    erase_on_connect = False

    def response_for(self, start: pika.spec.Connection.Start) -> tuple[str, bytes]:
        assert b"ANONYMOUS" in start.mechanisms.split()
        return "ANONYMOUS", b"pika"

    def erase_credentials(self) -> None:
        """There is nothing to erase."""


def test_an_anonymous_client_of_amqp_0_9_1_is_the_same_user(
    open_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid = [*pika.credentials.VALID_TYPES, Anonymous]
    monkeypatch.setattr(pika.credentials, "VALID_TYPES", valid)
    node = open_cluster[0]
    connection = node.connect(credentials=Anonymous())
    shown = [(row["user"], row["auth_mechanism"]) for row in Management(node).get("connections")]
    assert (USER, "ANONYMOUS") in shown
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_declare("open-new")
    connection.close()


def test_a_node_whose_configuration_names_no_user_takes_no_anonymous_client(node: Node) -> None:
    with pytest.raises(ConnectionException, match="Authentication failed"):
        anonymous(node)
