"""SASL responses: what they say, and that what is none of them is refused without being shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.models import NodeConfig
from cluster.gateway.client_limits import session_limits
from node.session.amqp091 import protocol as amqp091
from node.session.amqp091.amqplain import parse_response
from node.session.amqp10 import protocol as amqp10
from node.session.logins import AnonymousLogin, CertifiedLogin, MalformedResponseError, PasswordLogin
from node.wire.amqp091.fields import encode_table

LENGTH = 4


def amqplain(**fields: str | bytes | int) -> bytes:
    return encode_table(dict(fields))[LENGTH:]


@pytest.mark.parametrize(
    ("mechanism", "response", "login"),
    [
        ("PLAIN", b"\0alice\0secret", PasswordLogin("alice", "secret")),
        ("PLAIN", b"root\0alice\0secret", PasswordLogin("alice", "secret")),
        ("PLAIN", b"\0alice\0", PasswordLogin("alice", "")),
        ("PLAIN", "\0zoë\0ß".encode(), PasswordLogin("zoë", "ß")),
        ("AMQPLAIN", amqplain(LOGIN="alice", PASSWORD="secret"), PasswordLogin("alice", "secret")),
        ("AMQPLAIN", amqplain(LOGIN=b"alice", PASSWORD=b"\xff"), PasswordLogin("alice", "\udcff")),
        ("EXTERNAL", b"", CertifiedLogin("client.example")),
        ("EXTERNAL", b"somebody else", CertifiedLogin("client.example")),
        ("ANONYMOUS", b"", AnonymousLogin()),
        ("ANONYMOUS", b"trace@client.example", AnonymousLogin()),
        ("ANONYMOUS", b"x" * 1020, AnonymousLogin()),
    ],
)
def test_what_a_response_says(mechanism: str, response: bytes, login: object) -> None:
    assert parse_response(mechanism, response, "client.example") == login
    assert "secret" not in repr(login)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"secret"),
        ("PLAIN", b"\0alice\0sec\0ret"),
        ("AMQPLAIN", b"secret"),
        ("AMQPLAIN", b"\x05LOGIN"),
        ("AMQPLAIN", amqplain(LOGIN="alice")),
        ("AMQPLAIN", amqplain(LOGIN="alice", PASSWORD=5)),
        ("EXTERNAL", b"alice"),
        ("ANONYMOUS", b"secret" * 200),
        ("SCRAM", b"secret"),
    ],
)
def test_what_is_no_response_is_refused(mechanism: str, response: bytes) -> None:
    with pytest.raises(MalformedResponseError) as refusal:
        parse_response(mechanism, response, "")
    assert "secret" not in str(refusal.value)


@pytest.mark.requirement("B2.2")
@pytest.mark.parametrize("anonymous", [False, True])
def test_anonymous_is_offered_where_the_configuration_has_a_user_for_it(anonymous: bool) -> None:
    """In both protocols, and behind PLAIN: some clients take the first mechanism that they know."""
    settings = session_limits(config_of(anonymous_user="looker" if anonymous else ""))
    offered = amqp10.connection_limits(settings, "n1", {}).mechanisms
    assert offered == (("PLAIN", "ANONYMOUS") if anonymous else ("PLAIN",))
    assert amqp091.connection_limits(settings, {}).mechanisms == (*offered, "AMQPLAIN")


def config_of(**cluster: object) -> NodeConfig:
    node = {"amqp": "127.0.0.1:5672", "http": "127.0.0.1:15672", "peers": "127.0.0.1:25672"}
    tables = {"name": "n1", "data_dir": "d", "cluster": {"nodes": {"n1": node}, **cluster}}
    return NodeConfig.model_validate(tables)


@given(st.sampled_from(["PLAIN", "AMQPLAIN", "EXTERNAL"]), st.binary(max_size=64))
def test_any_octets_are_a_login_or_refused(mechanism: str, response: bytes) -> None:
    try:
        login = parse_response(mechanism, response, "")
    except MalformedResponseError:
        return
    assert isinstance(login, PasswordLogin)
    login.user.encode()
