"""The identity of a connection's client: the user-id of messages, and update-secret (A23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import PROTOCOL_HEADER
from node.wire.amqp091.methods import BASIC_PROPERTIES
from node.wire.amqp091.properties import check_properties, user_id_of
from tests.wire.client import Client, opened, publish

EXPIRATION = [name for name, _ in BASIC_PROPERTIES].index("expiration")
USER_ID = [name for name, _ in BASIC_PROPERTIES].index("user_id")


def user_id(name: str) -> bytes:
    """A property list of a user-id alone."""
    return (1 << (15 - USER_ID)).to_bytes(2, "big") + bytes((len(name.encode()),)) + name.encode()


def close_of(client: Client) -> m.ChannelClose:
    (close,) = client.methods()
    assert isinstance(close, m.ChannelClose)
    return close


def test_a_message_may_name_its_publisher() -> None:
    client = opened(1)
    effects = client.send(publish(1, b"x", properties=user_id("guest")) * 20)
    assert sum(effect.run.count for effect in effects if isinstance(effect, e.PublishEffect)) == 20
    assert client.methods() == []


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("body", [b"x", b"x" * 200_000])
def test_a_message_must_not_name_another_publisher(before: int, body: bytes) -> None:
    """On the path of single frames as well as among messages taken many at a time."""
    client = opened(1, 2)
    client.send(publish(1, b"y") * before + publish(1, body, properties=user_id("root")) + publish(1, b"z"))
    close = close_of(client)
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, 40)
    assert close.reply_text == (
        "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'"
    )
    taken = [effect.run.count for effect in client.effects if isinstance(effect, e.PublishEffect)]
    assert sum(taken) == before
    assert client.send(publish(2, b"x")), "the other channel goes on"


def test_an_impersonator_may() -> None:
    client = Client()
    client.send(PROTOCOL_HEADER, (0, m.ConnectionStartOk({}, "PLAIN", b"\0proxy\0p")))
    client.connection.authenticated("proxy", impersonates=True)
    client.send((0, m.ConnectionTuneOk()), (0, m.ConnectionOpen("/")))
    client.connection.opened()
    client.send((1, m.ChannelOpen()))
    client.output()
    client.send(publish(1, b"x", properties=user_id("root")))
    assert client.methods() == []


values = {
    "shortstr": st.binary(max_size=20).map(lambda octets: bytes((len(octets),)) + octets),
    "octet": st.binary(min_size=1, max_size=1),
    "timestamp": st.binary(min_size=8, max_size=8),
    "table": st.just(b"\0\0\0\0"),
}


@given(st.data())
def test_the_user_id_is_found_among_all_other_properties(data: st.DataObject) -> None:
    present = data.draw(st.lists(st.sampled_from(range(len(BASIC_PROPERTIES))), unique=True).map(sorted))
    drawn = {number: data.draw(values[BASIC_PROPERTIES[number][1]]) for number in present}
    if EXPIRATION in drawn:
        drawn[EXPIRATION] = b"\x0260"
    flags = sum(1 << (15 - number) for number in present)
    encoded = flags.to_bytes(2, "big") + b"".join(drawn.values())
    check_properties(encoded)
    assert user_id_of(encoded) == (drawn[USER_ID][1:] if USER_ID in drawn else None)


@pytest.mark.requirement("A23.7")
def test_a_new_secret_is_checked_while_the_channels_go_on() -> None:
    client = opened(1)
    client.send((0, m.ConnectionUpdateSecret(b"new", "rotation")))
    assert client.only(e.UpdateSecret).secret == b"new"
    assert "new" not in repr(client.only(e.UpdateSecret))
    assert client.send(publish(1, b"x"))
    assert client.methods() == []
    client.connection.secret_checked(True)
    assert client.methods() == [m.ConnectionUpdateSecretOk()]


@pytest.mark.requirement("A23.7")
def test_a_wrong_secret_ends_the_connection() -> None:
    client = opened(1)
    client.send((0, m.ConnectionUpdateSecret(b"new", "rotation")))
    client.connection.secret_checked(False)
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose)
    assert (close.reply_code, close.method_id) == (530, 70)
    assert close.reply_text == "NOT_ALLOWED - New secret was refused by one of the backends"
    client.connection.secret_checked(True)
    assert client.methods() == []
