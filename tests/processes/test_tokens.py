"""Log-ins by access tokens at real nodes: both protocols, HTTP, the end of a token, and a new one in time."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from node.wire.amqp10.messages import properties_of_head
from tests.cluster.token_issuer import jwk, token
from tests.processes.amqp10_client import Amqp10Client
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node, until
from tests.processes.test_client_logs import logged
from tests.processes.token_nodes import SKEW_S, take_tokens
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, octets_of, receiver, sender
from tests.wire.amqp10.test_management import request

ON_ITS_OWN = (
    "quorate.configure:%2F/mine* quorate.write:%2F/mine* quorate.write:%2F/amq.* quorate.read:%2F/mine*"
)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes that take tokens. No test of this module may have had one of them log a token."""
    cluster = Cluster(tmp_path_factory.mktemp("tokens"))
    for node in cluster.nodes:
        take_tokens(node)
    with cluster.running():
        yield cluster
        for node in cluster.nodes:
            log = node.local.log_file.read_text(encoding="utf-8")
            assert not [one for one in TOLD if one in log or one.split(".")[2] in log]


TOLD: list[str] = []
"""The tokens that the tests have shown to nodes."""


SOON_S = 8
"""Seconds that a token lasts whose end a test waits for. A declaration before that takes seconds where other
processes keep the disk busy.
"""


def shown(lasts: float = 600, scope: str = ON_ITS_OWN, **changes: Any) -> str:
    made = token(exp=int(time.time() + lasts), scope=scope, **changes)
    TOLD.append(made)
    return made


def connect(node: Node, text: str, user: str = "", **options: Any) -> pika.BlockingConnection:
    return node.connect(credentials=pika.PlainCredentials(user, text), **options)


@pytest.mark.requirement("F5.7")
def test_pika_works_with_what_its_token_grants(issued: Cluster) -> None:
    with connect(issued[1], shown(), "any name") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("mine", durable=True)
        channel.basic_publish("", "mine", b"one", mandatory=True)
        assert channel.basic_get("mine", auto_ack=True)[2] == b"one"
        with pytest.raises(ChannelClosedByBroker) as error:
            channel.queue_declare("yours", durable=True)
        assert error.value.reply_code == 403
        assert "configure access to queue 'yours' in vhost '/' refused for user 'alice'" in str(error.value)
        channel = connection.channel()
        channel.basic_publish("amq.topic", "k", b"a topic needs a key")
        with pytest.raises(ChannelClosedByBroker) as error:
            channel.queue_declare("mine", passive=True)
        assert "write access to topic 'k' in exchange topic 'amq.topic'" in str(error.value)


@pytest.mark.requirement("F5.7")
def test_tokens_that_do_not_count_let_no_client_in(issued: Cluster) -> None:
    for wrong in (shown(-60), shown(aud="other"), shown(iss="else"), shown()[:-6] + "AAAAAA"):
        with pytest.raises(ProbableAuthenticationError):
            connect(issued[0], wrong, "guest")
    with pytest.raises(ProbableAccessDeniedError):
        connect(issued[0], shown(scope="quorate.read:elsewhere/*"))
    until(
        lambda: "the token has expired" in str(logged(issued[0], "negotiation_failed")),
        "the reason is logged",
    )


@pytest.mark.requirement("F5.7")
def test_a_client_is_disconnected_when_its_token_ends(issued: Cluster) -> None:
    connection = connect(issued[2], shown(SOON_S))
    connection.channel().queue_declare("mine-ending", durable=True)
    began = time.monotonic()
    with pytest.raises(ConnectionClosedByBroker) as error:
        while time.monotonic() < began + 20:
            connection.process_data_events(1)
    assert error.value.reply_code == 320
    assert error.value.reply_text == "CONNECTION_FORCED - the access token has expired"
    assert time.monotonic() - began < SOON_S + SKEW_S + 2


@pytest.mark.requirement("F5.7", "A23.7")
def test_pika_brings_a_new_token_in_time(issued: Cluster) -> None:
    first = shown(SOON_S)
    connection, other = connect(issued[0], first), connect(issued[0], first)
    channel = connection.channel()
    channel.queue_declare("mine-kept", durable=True)
    got: list[bytes] = []
    channel.basic_consume("mine-kept", lambda *told: got.append(told[3]), auto_ack=True)
    connection.update_secret(shown(600, "quorate.write:%2F/amq.default"), "in time")
    began = time.monotonic()
    with pytest.raises(ConnectionClosedByBroker, match="the access token has expired"):
        while time.monotonic() < began + 20:
            other.process_data_events(0.5)
            connection.process_data_events(0.1)
    channel.basic_publish("", "mine-kept", b"after the end of the first")
    while not got and time.monotonic() < began + 30:
        connection.process_data_events(0.5)
    assert got == [b"after the end of the first"], "the consumer of before goes on"
    with pytest.raises(ChannelClosedByBroker, match="configure access"):
        channel.queue_declare("mine-other", durable=True)
    with pytest.raises(ConnectionClosedByBroker) as error:
        connection.update_secret(shown(sub="bob"), "of another user")
        connection.process_data_events(5)
    assert error.value.reply_code == 530


def plain(text: str) -> d.SaslInit:
    return d.SaslInit("PLAIN", f"\0\0{text}".encode())


@pytest.mark.requirement("F5.7")
def test_clients_of_amqp_1_0_log_in_and_renew(issued: Cluster) -> None:
    client = Amqp10Client(issued[1], plain(shown(SOON_S, ON_ITS_OWN)))
    first_ends = time.time() + SOON_S
    client.send(sender(0, MANAGEMENT_ADDRESS, "pair"), receiver(1, MANAGEMENT_ADDRESS, "pair"))
    client.send(credit(10, handle=1))

    def ask(number: int, method: str, path: str, body: Any = None) -> str | None:
        octets = request(path, method, body, message_id=f"id-{number}")
        client.socket.sendall(octets_of(transfer(number, octets, settled=True)))
        found = properties_of_head(client.payload())
        return None if found is None else found.subject

    assert ask(0, "PUT", "/queues/mine10") == "201"
    assert ask(1, "PUT", "/queues/yours10") == "403"
    assert ask(2, "PUT", "/auth/tokens", shown(sub="bob").encode()) == "403"
    assert ask(3, "PUT", "/auth/tokens", shown(SOON_S + 2, "quorate.configure:%2F/yours10").encode()) == "204"
    assert ask(4, "PUT", "/queues/yours10") == "201"
    assert ask(5, "PUT", "/queues/mine10") == "403"
    began = time.monotonic()
    error = client.expect(d.Close).error
    assert error is not None and error.condition == AmqpCondition.UNAUTHORIZED_ACCESS
    assert error.description == "the access token has expired"
    assert time.time() > first_ends + SKEW_S + 0.5, "the new token lasts longer"
    assert time.monotonic() - began < SOON_S + 2 + SKEW_S + 2
    reasons = [one["reason"] for one in logged(issued[1], "token_refused")]
    assert reasons == ["user 'alice' - the new token is of user 'bob'"]


@pytest.mark.requirement("F5.7")
def test_the_http_api_takes_tokens(issued: Cluster) -> None:
    def call(text: str, method: str, *segments: str, body: Any = None) -> Any:
        bearer = {"Authorization": f"Bearer {text}"}
        return Management(issued[0], None).call(method, path_of(*segments), body, bearer)

    manages = shown(scope=f"{ON_ITS_OWN} quorate.tag:management")
    assert call(manages, "GET", "whoami").value == {"name": "alice", "tags": ["management"]}
    assert call(manages, "PUT", "queues", "/", "mine-http", body={}).status == 201
    reply = call(manages, "PUT", "queues", "/", "yours-http", body={})
    assert (reply.status, reply.value["reason"]) == (401, "Access refused.")
    assert call(manages, "GET", "users").status == 401
    assert call(shown(), "GET", "whoami").value["reason"] == "Not management user"
    assert call(shown(scope="quorate.tag:administrator"), "GET", "users").status == 200
    for wrong in (shown(-60), "nothing", ""):
        assert call(wrong, "GET", "whoami").status == 401
    assert Management(issued[0], "", manages).get("whoami")["name"] == "alice"
    assert Management(issued[0], None).call("GET", "/whoami").status == 401


@pytest.mark.requirement("F5.7", "F5.8")
def test_a_connection_is_listed_with_its_user_and_without_its_token(issued: Cluster) -> None:
    text = shown()
    with connect(issued[1], text, client_properties={"connection_name": "by token"}):
        api = Management(issued[0])
        rows = until(
            lambda: [one for one in api.get("connections") if one["user_provided_name"] == "by token"],
            "the connection is listed",
        )
        assert rows[0]["user"] == "alice"
        assert text not in json.dumps(rows) and text.split(".")[2] not in json.dumps(rows)


@pytest.mark.requirement("F5.7")
def test_keys_are_read_again(issued: Cluster) -> None:
    node = issued[2]
    path = node.local.file.parent / "jwks.json"
    by_new_key = shown(algorithm="EdDSA")
    with pytest.raises(AMQPConnectionError):
        connect(node, by_new_key)
    path.write_text(json.dumps({"keys": [jwk("ES256"), jwk("EdDSA")]}))
    node.send(signal.SIGHUP)
    until(lambda: logged(node, "token_keys_loaded"), "the keys are read again")
    connect(node, by_new_key).close()
    connect(node, shown()).close()
