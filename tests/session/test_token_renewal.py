"""Clients that have logged in by an access token: the end of the token, and a new one in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from node.refusal import EntryRefusedError
from node.session.logins import CertifiedLogin, Login, PasswordLogin, TokenLogin
from node.session.permissions import IMPERSONATOR, Right, Scope
from node.session.ports import Identity, VhostConnection
from node.session.subscriber import Subscriber
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from tests.session.answering import Connected
from tests.session.attached import Client, NodeBroker
from tests.session.test_amqp10_management import parsed
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.test_management import request
from tests.wire.client import publish


class Grants:
    """Rights that are told by their name, and that enter every virtual host."""

    def __init__(self, name: str) -> None:
        self.name = name

    def enters(self, vhost: str) -> bool:
        return True

    def allows(self, vhost: str, right: Right, name: str) -> bool:
        return True

    def allows_every(self, vhost: str, right: Right) -> bool:
        return True

    def allows_topic(self, vhost: str, right: Right, exchange: str, key: str) -> bool:
        return True

    def let_go(self) -> None:
        """Nothing is remembered."""


def alice(rights: str, lasts: float = 60.0, **changes: Any) -> Identity:
    return Identity(**{"user": "alice", "rights": Grants(rights), "lasts": lasts, **changes})


TOKENS = {
    "first": alice("of the first"),
    "second": alice("of the second", 120.0),
    "of bob": Identity("bob", rights=Grants("of bob"), lasts=120.0),
    "stronger": alice("of the stronger", tags=(IMPERSONATOR,)),
    "for nowhere": alice("for nowhere"),
}


class TokenBroker(NodeBroker):
    """Lets clients in by tokens, of which `at_first` is the one of the log-in, or empty for a password."""

    def __init__(self, at_first: str = "first") -> None:
        super().__init__()
        self.scopes: list[Scope] = []
        """The scopes of the checks of queues."""
        self._at_first = at_first

    def authenticate(self, login: Login, remote: str, answer: Callable[[Identity | None, str], None]) -> None:
        if isinstance(login, TokenLogin):
            found = TOKENS.get(login.token)
            answer(found, "" if found else "the token has expired")
        elif self._at_first and isinstance(login, PasswordLogin):
            answer(TOKENS[self._at_first], "")
        else:
            assert isinstance(login, PasswordLogin | CertifiedLogin)
            answer(Identity("guest"), "")

    def enter(self, subscriber: Subscriber, identity: Identity, vhost: str) -> VhostConnection:
        entered = super().enter(subscriber, identity, vhost)
        return VhostConnection(Scope(identity.user, vhost, identity.rights), entered.holder)

    def change_rights(self, holder: int, identity: Identity) -> Scope:
        assert holder in self.holders and isinstance(identity.rights, Grants)
        if identity.rights.name == "for nowhere":
            raise EntryRefusedError("access to vhost '/' refused for user 'alice'")
        return Scope(identity.user, "/", identity.rights)

    def check_queue(self, scope: Scope, right: Right, name: str) -> None:
        self.scopes.append(scope)


def rights_of(broker: TokenBroker) -> str:
    """The name of the rights by which the latest check was decided."""
    rights = broker.scopes[-1].rights
    return rights.name if isinstance(rights, Grants) else "of the catalog"


class Timed:
    """Sets the clock of a session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def set(self, now: float) -> None:
        self._session._clock = lambda: now
        self._session.tick()


# -- AMQP 0-9-1 -----------------------------------------------------------------------------------


class OldClient(Connected):
    broker: TokenBroker

    def __init__(self, at_first: str = "first") -> None:
        super().__init__(TokenBroker(at_first))
        self.output()

    def methods(self) -> list[Any]:
        return [method for kind, _, method in self.output() if kind == 1]

    def declares(self) -> str:
        """Declare a queue; returns the rights that it took."""
        self.send(encode_method(1, m.QueueDeclare("q", durable=True)))
        assert [type(one) for one in self.methods()] == [m.QueueDeclareOk]
        return rights_of(self.broker)

    def renew(self, secret: str) -> list[Any]:
        self.send(encode_method(0, m.ConnectionUpdateSecret(secret.encode(), "in time")))
        return self.methods()


@pytest.mark.interpreted
@pytest.mark.requirement("F5.7")
def test_a_connection_is_closed_when_its_token_expires() -> None:
    client = OldClient()
    clock = Timed(client.session)
    clock.set(60.9)
    assert client.methods() == []
    clock.set(61.0)
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - the access token has expired")
    client.send(encode_method(0, m.ConnectionCloseOk()))
    client.output()
    assert client.socket.closing and client.session.closed and not client.broker.holders


@pytest.mark.interpreted
@pytest.mark.requirement("F5.7", "A23.7")
def test_a_new_token_in_time_gives_the_connection_its_rights_and_its_end() -> None:
    client = OldClient()
    clock = Timed(client.session)
    assert client.declares() == "of the first"
    clock.set(31.0)
    client.send(publish(1, b"x"))
    assert client.renew("second") == [m.ConnectionUpdateSecretOk()]
    assert client.declares() == "of the second"
    clock.set(150.0)
    assert client.methods() == []
    clock.set(151.0)
    assert isinstance(client.methods()[0], m.ConnectionClose)
    assert len(client.broker.published) == 1


@pytest.mark.requirement("F5.7", "F5.8")
@pytest.mark.parametrize("secret", ["of bob", "stronger", "for nowhere", "no such token", "\udcff"])
def test_a_token_that_is_refused_closes_a_connection_of_amqp_0_9_1(secret: str) -> None:
    client = OldClient()
    client.send(encode_method(0, m.ConnectionUpdateSecret(secret.encode("utf-8", "surrogateescape"), "late")))
    (close,) = client.methods()
    assert (close.reply_code, close.reply_text) == (
        530,
        "NOT_ALLOWED - New secret was refused by one of the backends",
    )
    assert client.socket.logged[0][0] == "token_refused"
    assert secret not in repr(client.socket.logged)


@pytest.mark.interpreted
@pytest.mark.requirement("A23.7")
def test_a_client_with_a_password_has_no_end_and_its_secrets_mean_nothing() -> None:
    client = OldClient("")
    clock = Timed(client.session)
    assert client.renew("no such token") == [m.ConnectionUpdateSecretOk()]
    assert client.declares() == "of the catalog"
    clock.set(1e9)
    assert client.methods() == []


# -- AMQP 1.0 -------------------------------------------------------------------------------------


class NewClient(Client):
    broker: TokenBroker

    def __init__(self, at_first: str = "first") -> None:
        super().__init__(TokenBroker(at_first))
        self.send(sender(0, MANAGEMENT_ADDRESS, "pair"), receiver(1, MANAGEMENT_ADDRESS, "pair"))
        self.send(credit(100, handle=1))
        self._asked = 0

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the body of the response."""
        self._asked += 1
        before = len(self.frames)
        self.send(transfer(self._asked, request(path, method, body, message_id="id"), settled=True))
        (told,) = [parsed(bytes(one.payload)) for one in self.frames[before:] if len(one.payload)]
        return told[1:]


@pytest.mark.interpreted
@pytest.mark.requirement("F5.7")
def test_a_connection_of_amqp_1_0_is_closed_when_its_token_expires() -> None:
    client = NewClient()
    clock = Timed(client.session)
    clock.set(60.9)
    assert client.reads() == []
    clock.set(61.0)
    (close,) = client.reads()
    assert isinstance(close, d.Close) and close.error is not None
    assert close.error.condition == AmqpCondition.UNAUTHORIZED_ACCESS
    assert close.error.description == "the access token has expired"


@pytest.mark.interpreted
@pytest.mark.requirement("F5.7")
def test_a_new_token_comes_to_the_management() -> None:
    client = NewClient()
    clock = Timed(client.session)
    client.send(sender(2, "/queues/q", "before"))
    assert client.ask("PUT", "/queues/q")[0] == 201 and rights_of(client.broker) == "of the first"
    clock.set(31.0)
    assert client.ask("PUT", "/auth/tokens", b"second") == (204, None)
    assert client.ask("PUT", "/queues/q")[0] == 200 and rights_of(client.broker) == "of the second"
    clock.set(150.0)
    assert client.reads() == []
    client.send(transfer(4, handle=2))
    assert len(client.broker.published) == 1, "the link goes on"
    clock.set(151.0)
    assert isinstance(client.reads()[-1], d.Close)


@pytest.mark.interpreted
@pytest.mark.requirement("F5.7", "F5.8")
@pytest.mark.parametrize("token", [b"of bob", b"stronger", b"for nowhere", b"no such token", b"\xff"])
def test_after_a_token_that_is_refused_the_one_before_counts_on(token: bytes) -> None:
    client = NewClient()
    clock = Timed(client.session)
    status, text = client.ask("PUT", "/auth/tokens", token)
    assert status == 403 and "the one before counts on" in text
    assert client.socket.events == ["token_refused"]
    assert client.ask("PUT", "/queues/q")[0] == 201 and rights_of(client.broker) == "of the first"
    clock.set(61.0)
    assert isinstance(client.reads()[-1], d.Close)


@pytest.mark.requirement("F5.7")
def test_requests_for_tokens_that_are_none() -> None:
    client = NewClient("")
    assert client.ask("PUT", "/auth/tokens", b"second")[0] == 403
    assert client.socket.events == ["token_refused"]
    for body in (None, "second", {"token": b"second"}):
        assert client.ask("PUT", "/auth/tokens", body) == (400, "the body is no binary with a token")
    assert client.ask("GET", "/auth/tokens")[0] == 405
    assert client.ask("PUT", "/auth/other", b"second")[0] == 404


def test_refused_tokens_come_no_faster_than_a_peers_pace() -> None:
    client = NewClient()
    octets = request("/auth/tokens", "PUT", b"no such token", message_id="id")
    for number in range(1, 1000):
        client.send(transfer(number, octets, settled=True))
        if client.session.connection.waits:
            break
    assert client.session.connection.waits and number < 500
    assert len(client.socket.events) == number


def test_a_token_that_expires_in_the_negotiation_closes_the_connection_once_it_is_open() -> None:
    TOKENS["brief"] = alice("brief", 0.0)
    old, new = OldClient("brief"), Client(TokenBroker("brief"))
    old.session.tick()
    new.session.tick()
    assert isinstance(old.methods()[0], m.ConnectionClose)
    assert isinstance(new.reads()[-1], d.Close)
