"""Messages of Qpid Proton keep every octet, sent on each node in turn and received on the next one."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.clients.proton_links import body_of, taken
from tests.clients.proton_messages import COMPOUND, EVERY_TYPE, message_with_everything

pytestmark = pytest.mark.clients


def behind_header(octets: bytes) -> bytes:
    """The sections behind the header, a short list."""
    assert octets[:4] == b"\0\x53\x70\xc0"
    return octets[5 + octets[4] :]


@pytest.mark.requirement("B9.1", "B9.2", "E10.1", "E10.2", "E10.3", "E10.4", "E10.5")
@pytest.mark.sentence("1.0/3.2-1", "1.0/3.2.3-1", "1.0/3.2.4-1")
def test_a_message_of_amqp_10_keeps_every_octet(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    everything = EVERY_TYPE | COMPOUND
    message = message_with_everything({"x-opt-all": everything, "other": "kept"}, EVERY_TYPE)
    message.first_acquirer = True
    client.create_sender(queue).send(message)
    back, octets = taken(other, queue)
    assert behind_header(octets) == behind_header(message.encode())
    assert 0 <= message.ttl - back.ttl < 60, "the ttl counts down"
    for name in ("durable", "priority", "first_acquirer", "delivery_count"):
        assert getattr(back, name) == getattr(message, name)
    assert (back.properties, back.body) == (EVERY_TYPE, everything)


@pytest.mark.requirement("B9.1")
@pytest.mark.parametrize(
    "body", [None, b"", b"octets", "text", 1.5, [b"a", 2], {"k": [1]}], ids=lambda one: type(one).__name__
)
def test_every_kind_of_body_stays_what_it_is(
    client: BlockingConnection, other: BlockingConnection, queue: str, body: Any
) -> None:
    sender = client.create_sender(queue)
    for inferred in (False, True):
        message = Message(body=body, inferred=inferred)
        sender.send(message)
        back, octets = taken(other, queue)
        assert octets == message.encode()
        assert body_of(back) == body
