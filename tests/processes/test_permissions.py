"""Permissions, topic permissions and limits of users on real nodes, and the time of their effect
(A11, F5).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import amqp
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, ProbableAccessDeniedError

from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node, until

PASSWORD = "through the looking-glass"
DENIED = "ACCESS_REFUSED"


class Realm:
    """A virtual host with one user, for one test, changed over one node."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.vhost = f"v-{name}"
        self.user = f"u-{name}"
        self.admin = Management(cluster[0])
        self._change("PUT", path_of("vhosts", self.vhost), {})
        self._change("PUT", path_of("users", self.user), {"password": PASSWORD, "tags": ""})

    def _change(self, method: str, path: str, body: object = None) -> None:
        reply = self.admin.call(method, path, body)
        assert reply.status in (201, 204), reply

    def permit(self, configure: str = "", write: str = "", read: str = "", vhost: str = "") -> None:
        """Without a virtual host: in the test's own."""
        body = {"configure": configure, "write": write, "read": read}
        self._change("PUT", path_of("permissions", vhost or self.vhost, self.user), body)

    def permit_topics(self, exchange: str, write: str, read: str) -> None:
        body = {"exchange": exchange, "write": write, "read": read}
        self._change("PUT", path_of("topic-permissions", self.vhost, self.user), body)

    def limit(self, kind: str, limit: str, value: int) -> None:
        whose = self.vhost if kind == "vhost-limits" else self.user
        self._change("PUT", path_of(kind, whose, limit), {"value": value})

    def delete(self, kind: str) -> None:
        name = self.vhost if kind == "vhosts" else self.user
        self._change("DELETE", path_of(kind, name))

    def connect(self, place: int = 0, vhost: str = "") -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(self.user, PASSWORD)
        return self.cluster[place].connect(virtual_host=vhost or self.vhost, credentials=credentials)

    def end(self) -> None:
        self.admin.call("DELETE", path_of("vhosts", self.vhost))
        self.admin.call("DELETE", path_of("users", self.user))


@pytest.fixture
def realm(cluster: Cluster, name: str) -> Iterator[Realm]:
    realm = Realm(cluster, name.replace("[", "-").replace("]", ""))
    yield realm
    realm.end()


def refused(
    connection: pika.BlockingConnection, action: Callable[[BlockingChannel], object], code: int = 403
) -> str:
    """The text that an action's channel is closed with, in the middle of a connection that goes on."""
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as closed:
        action(channel)
        # Methods without an answer are refused before the next method with one.
        channel.basic_qos(prefetch_count=1)
    assert closed.value.reply_code == code
    assert connection.is_open
    return str(closed.value.reply_text)


@pytest.mark.requirement("F5.6")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_right_is_enforced_on_any_node(realm: Realm, place: int) -> None:
    realm.permit(configure="^own", write="^own|^amq.default$", read="^own")
    with realm.connect(place) as connection:
        channel = connection.channel()
        channel.queue_declare("own-q")
        channel.exchange_declare("own-x", "topic")
        channel.queue_bind("own-q", "own-x", "k")
        channel.basic_publish("own-x", "k", b"1")
        assert channel.basic_get("own-q", auto_ack=True)[2] == b"1"

        def text(what: str) -> str:
            return f"{DENIED} - {what} in vhost '{realm.vhost}' refused for user '{realm.user}'"

        for action, what in (
            (lambda c: c.queue_declare("other"), "configure access to queue 'other'"),
            (lambda c: c.exchange_declare("other"), "configure access to exchange 'other'"),
            (lambda c: c.queue_delete("other"), "configure access to queue 'other'"),
            (lambda c: c.queue_bind("own-q", "amq.topic", "k"), "read access to exchange 'amq.topic'"),
            (lambda c: c.exchange_bind("amq.topic", "own-x"), "write access to exchange 'amq.topic'"),
            (lambda c: c.basic_publish("amq.topic", "k", b"1"), "write access to exchange 'amq.topic'"),
            (lambda c: c.basic_publish("nowhere", "k", b"1"), "write access to exchange 'nowhere'"),
            (lambda c: c.basic_get("other"), "read access to queue 'other'"),
            (lambda c: c.basic_consume("other", lambda *_: None), "read access to queue 'other'"),
            (lambda c: c.queue_purge("other"), "read access to queue 'other'"),
            (
                lambda c: c.queue_declare("own-2", arguments={"x-dead-letter-exchange": "other"}),
                "write access to exchange 'other'",
            ),
            (
                lambda c: c.exchange_declare("own-2", arguments={"alternate-exchange": "other"}),
                "write access to exchange 'other'",
            ),
        ):  # fmt: skip
            assert refused(connection, action) == text(what)
        for action in (
            lambda c: c.queue_bind("own-q", "", "k"),
            lambda c: c.exchange_declare(""),
            lambda c: c.exchange_delete(""),
        ):
            told = refused(connection, action)
            assert told == f"{DENIED} - operation not permitted on the default exchange"


@pytest.mark.requirement("A11.3")
def test_permissions_in_one_virtual_host_count_in_no_other(realm: Realm) -> None:
    other = f"{realm.vhost}-other"
    realm.admin.call("PUT", path_of("vhosts", other), {})
    realm.permit(configure=".*", write=".*", read=".*")
    realm.permit(configure="^mine", write=".*", read=".*", vhost=other)
    with realm.connect(1) as here, realm.connect(1, vhost=other) as there:
        here.channel().queue_declare("theirs")
        there.channel().queue_declare("mine")
        told = refused(there, lambda c: c.queue_declare("theirs"))
        assert told.startswith(f"{DENIED} - configure access to queue 'theirs' in vhost '{other}'")
    realm.admin.call("DELETE", path_of("vhosts", other))


@pytest.mark.requirement("F5.6")
def test_a_change_counts_from_the_next_operation_on_without_a_new_connection(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    with realm.connect(1) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"before")
        realm.permit(configure=".*", write="", read="q")
        assert "amq.default" in refused(connection, lambda c: c.basic_publish("", "q", b"after"))
        assert "configure" not in refused(connection, lambda c: c.queue_bind("q", "amq.direct", "k"))
        realm.permit(configure=".*", write="default", read="q")
        again = connection.channel()
        again.confirm_delivery()
        again.basic_publish("", "q", b"again")
        assert [again.basic_get("q", auto_ack=True)[2] for _ in range(2)] == [b"before", b"again"]


def test_topic_permissions_bound_the_keys_of_topic_exchanges(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    realm.permit_topics("amq.topic", r"^{username}\.", r"^{vhost}\.")
    with realm.connect(2) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.queue_bind("q", "amq.topic", f"{realm.vhost}.#")
        channel.basic_publish("amq.topic", f"{realm.user}.a", b"1")
        channel.basic_publish("amq.direct", "anything", b"1")
        text = refused(connection, lambda c: c.basic_publish("amq.topic", "other.a", b"1"))
        assert text.startswith(
            f"{DENIED} - write access to topic 'other.a' in exchange topic 'amq.topic' in vhost "
        )
        text = refused(connection, lambda c: c.queue_bind("q", "amq.topic", "#"))
        assert text.startswith(f"{DENIED} - read access to topic '#' in exchange topic 'amq.topic'")


def test_a_message_names_no_other_user(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    with realm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"1", pika.BasicProperties(user_id=realm.user))
        assert channel.basic_get("q", auto_ack=True)[1].user_id == realm.user
        forged = pika.BasicProperties(user_id="guest")
        text = refused(connection, lambda c: c.basic_publish("", "q", b"1", forged), 406)
        assert text == (
            f"PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was '{realm.user}'"
        )


def closed(connection: pika.BlockingConnection) -> tuple[int, str]:
    """How the broker closes the connection."""
    with pytest.raises(ConnectionClosedByBroker) as error:
        while True:
            connection.process_data_events(5)
    return error.value.reply_code, str(error.value.reply_text)


@pytest.mark.requirement("F5.4")
@pytest.mark.parametrize("kind", ["vhosts", "users"])
def test_what_is_deleted_takes_its_connections_along(realm: Realm, kind: str) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    connections = [realm.connect(place) for place in range(3)]
    connections[0].channel().queue_declare("q", durable=True)
    connections[1].channel().queue_declare("", exclusive=True)
    realm.delete(kind)
    name = realm.vhost if kind == "vhosts" else realm.user
    text = f"CONNECTION_FORCED - {kind[:-1]} '{name}' is deleted"
    assert [closed(one) for one in connections] == [(320, text)] * 3
    for place in range(3):
        with pytest.raises((pika.exceptions.AMQPConnectionError, ConnectionClosedByBroker)):
            realm.connect(place)


def refusal(realm: Realm, place: int) -> str:
    """The reply text for a client whose connection is refused."""
    with pytest.raises(ProbableAccessDeniedError) as error:
        realm.connect(place)
    return str(error.value)


def may_connect(realm: Realm, place: int) -> bool:
    try:
        realm.connect(place).close()
    except ProbableAccessDeniedError:
        return False
    return True


@pytest.mark.requirement("F6.3")
def test_limits_count_the_connections_of_all_nodes(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    for kind, text in (
        ("vhost-limits", "access to vhost '{v}' refused for user '{u}': connection limit (2) is reached"),
        ("user-limits", "connection refused for user '{u}': user connection limit (2) is reached"),
    ):
        realm.limit(kind, "max-connections", 2)
        with realm.connect(0), realm.connect(1):
            until(lambda: not may_connect(realm, 2), "the third node knows of the others' connections")
            told = '(530) "NOT_ALLOWED - ' + text.format(v=realm.vhost, u=realm.user)
            assert told in refusal(realm, 2)
        until(lambda: may_connect(realm, 2), "there is room again")
        realm.limit(kind, "max-connections", -1)


@pytest.mark.requirement("F6.4")
def test_a_user_opens_no_more_channels_than_the_limit(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    realm.limit("user-limits", "max-channels", 3)
    connection = realm.connect()
    for _ in range(3):
        connection.channel()
    with pytest.raises(ConnectionClosedByBroker) as error:
        connection.channel()
        connection.process_data_events(5)
    assert error.value.reply_code == 530
    assert error.value.reply_text == (
        f"NOT_ALLOWED - number of channels opened for user '{realm.user}' has reached the maximum allowed "
        "user limit of 3"
    )


@pytest.mark.requirement("A23.7")
def test_a_new_secret_is_taken_and_proves_nothing(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    connection = realm.connect()
    for secret in (PASSWORD, "any other"):
        connection.update_secret(secret, "rotation")
        connection.channel().queue_declare("q")
    assert realm.connect().is_open, "the password is the old one"


@pytest.mark.requirement("F5.4")
def test_the_older_mechanism_logs_in_as_well(realm: Realm) -> None:
    realm.permit(configure=".*", write=".*", read=".*")
    node: Node = realm.cluster[0]
    connection = amqp.Connection(
        host=str(node.amqp), userid=realm.user, password=PASSWORD, virtual_host=realm.vhost,
        login_method="AMQPLAIN",
    )  # fmt: skip
    connection.connect()
    with contextlib.closing(connection):
        connection.channel().queue_declare("q")
    wrong = amqp.Connection(
        host=str(node.amqp), userid=realm.user, password="wrong", virtual_host=realm.vhost,
        login_method="AMQPLAIN",
    )  # fmt: skip
    with pytest.raises(amqp.exceptions.AccessRefused) as error:
        wrong.connect()
    assert "Login was refused using authentication mechanism AMQPLAIN" in str(error.value)
