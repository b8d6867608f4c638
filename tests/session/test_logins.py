"""SASL responses: what they say, and that what is none of them is refused without being shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.session.amqp091.amqplain import parse_response
from node.session.logins import CertifiedLogin, MalformedResponseError, PasswordLogin
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
        ("SCRAM", b"secret"),
    ],
)
def test_what_is_no_response_is_refused(mechanism: str, response: bytes) -> None:
    with pytest.raises(MalformedResponseError) as refusal:
        parse_response(mechanism, response, "")
    assert "secret" not in str(refusal.value)


@given(st.sampled_from(["PLAIN", "AMQPLAIN", "EXTERNAL"]), st.binary(max_size=64))
def test_any_octets_are_a_login_or_refused(mechanism: str, response: bytes) -> None:
    try:
        login = parse_response(mechanism, response, "")
    except MalformedResponseError:
        return
    assert isinstance(login, PasswordLogin)
    login.user.encode()
