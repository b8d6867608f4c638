"""Qpid Proton's engine speaks with a script of frames that our codec of AMQP 1.0 reads and writes."""

from __future__ import annotations

from typing import Any

import proton
import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.frames import Frame, FrameParser, ProtocolHeader, ProtocolId, frame_buffers
from node.wire.amqp10.sections import properties_of, scan_sections
from node.wire.amqp10.values import Described, ULong

pytestmark = pytest.mark.clients

MOST = 4096


class Peer:
    """Proton's connection, and the other end of its octets."""

    def __init__(self) -> None:
        self.connection = proton.Connection()
        self.connection.container = "proton"
        self.connection.hostname = "host"
        self.transport = proton.Transport()
        self.transport.bind(self.connection)
        self.parser = FrameParser(MOST)
        self.headers: list[int] = []

    def takes(self, *performatives: Composite, payload: tuple[bytes, ...] = ()) -> None:
        for one in performatives:
            self.push(b"".join(frame_buffers(0, one, payload, MOST)))

    def push(self, octets: bytes) -> None:
        self.transport.push(octets)
        assert self.transport.condition is None, self.transport.condition

    def sends(self) -> list[Frame]:
        """The frames that Proton sends now."""
        found: list[Any] = []
        while self.transport.pending() > 0:
            octets = self.transport.peek(self.transport.pending())
            self.transport.pop(len(octets))
            found += self.parser.receive(octets)
        assert self.parser.failure is None, self.parser.failure
        self.headers += [one.protocol_id for one in found if isinstance(one, ProtocolHeader)]
        return [one for one in found if isinstance(one, Frame)]

    def performatives(self) -> list[Composite | None]:
        return [frame.performative for frame in self.sends()]


def opened() -> tuple[Peer, Any]:
    """A connection of Proton with an open session, whose frames were looked at."""
    peer = Peer()
    peer.connection.open()
    session = peer.connection.session()
    session.open()
    opened, begun = peer.performatives()
    assert isinstance(opened, d.Open) and (opened.container_id, opened.hostname) == ("proton", "host")
    assert isinstance(begun, d.Begin) and begun.remote_channel is None
    assert peer.headers == [ProtocolId.AMQP]
    peer.push(ProtocolHeader(ProtocolId.AMQP).encode())
    peer.takes(
        d.Open(
            "quorate", max_frame_size=MOST, channel_max=9, offered_capabilities=("one",), properties={"p": 1}
        ),
        d.Begin(0, 100, 100, remote_channel=0),
    )
    assert peer.connection.remote_container == "quorate"
    assert peer.connection.remote_properties == {"p": 1}
    assert [str(one) for one in peer.connection.remote_offered_capabilities] == ["one"]
    return peer, session


def test_proton_sends_messages_and_is_told_of_their_outcomes() -> None:
    peer, session = opened()
    sender = session.sender("link")
    sender.target.address = "queue"
    sender.open()
    (attach,) = peer.performatives()
    assert isinstance(attach, d.Attach) and (attach.name, attach.role) == ("link", d.Role.SENDER)
    assert isinstance(attach.target, d.Target) and attach.target.address == "queue"
    peer.takes(
        d.Attach("link", 0, d.Role.RECEIVER, source=attach.source, target=attach.target),
        d.Flow(100, 0, 100, next_incoming_id=0, handle=0, delivery_count=0, link_credit=9),
    )
    assert sender.credit == 9 and sender.remote_target.address == "queue"
    messages = [proton.Message(id=str(number), body=b"x" * 3000 * number) for number in range(3)]
    deliveries = [sender.send(message) for message in messages]
    frames = peer.sends()
    transfers = [frame.performative for frame in frames if isinstance(frame.performative, d.Transfer)]
    assert len(transfers) == len(frames) > 3, "a message takes several frames"
    assert [one.delivery_id for one in transfers if not one.more] == [0, 1, 2]
    payload = b"".join(bytes(frame.payload) for frame in frames[-2:])
    assert properties_of(payload, scan_sections(payload, 0, len(payload))).message_id == "2"
    peer.takes(
        d.Disposition(d.Role.RECEIVER, 0, settled=True, state=d.Accepted()),
        d.Disposition(d.Role.RECEIVER, 1, state=d.Rejected(d.Error("amqp:not-allowed", "no", {"k": 1}))),
        d.Disposition(
            d.Role.RECEIVER, 2, state=d.Modified(delivery_failed=True, message_annotations={"a": 1})
        ),
    )
    assert [one.remote_state for one in deliveries] == [
        proton.Delivery.ACCEPTED, proton.Delivery.REJECTED, proton.Delivery.MODIFIED
    ]  # fmt: skip
    condition = deliveries[1].remote.condition
    assert (condition.name, condition.description, condition.info) == ("amqp:not-allowed", "no", {"k": 1})
    assert deliveries[2].remote.failed and not deliveries[2].remote.undeliverable


def test_proton_receives_a_message_in_frames_and_answers() -> None:
    peer, session = opened()
    receiver = session.receiver("link")
    receiver.source.address = "queue"
    receiver.open()
    receiver.flow(10)
    attach, flow = peer.performatives()
    assert isinstance(attach, d.Attach) and attach.role == d.Role.RECEIVER
    assert isinstance(attach.source, d.Source) and attach.source.address == "queue"
    assert isinstance(flow, d.Flow) and flow.link_credit == 10
    peer.takes(
        d.Attach(
            "link", 0, d.Role.SENDER, source=attach.source, target=attach.target, initial_delivery_count=0
        )
    )
    peer.sends()
    message = d.Properties(message_id="m").encode() + encode_amqp(
        Described(ULong(d.SectionCode.DATA), b"octets")
    )
    peer.takes(d.Transfer(0, 0, b"tag", 0, more=True), payload=(message[:20],))
    peer.takes(d.Transfer(0), payload=(message[20:30], message[30:]))
    delivery = receiver.current
    assert delivery.tag == "tag" and not delivery.partial
    found = proton.Message()
    found.decode(receiver.recv(1000))
    assert (found.id, found.body) == ("m", b"octets")
    delivery.update(proton.Delivery.RELEASED)
    delivery.settle()
    disposition = peer.performatives()[-1]
    assert (
        isinstance(disposition, d.Disposition) and disposition.settled and disposition.state == d.Released()
    )
    assert (disposition.role, disposition.first) == (d.Role.RECEIVER, 0)


def test_links_sessions_and_connections_end_on_both_sides() -> None:
    peer, session = opened()
    sender = session.sender("link")
    sender.open()
    peer.sends()
    peer.takes(
        d.Attach("link", 0, d.Role.RECEIVER, target=d.Target()),
        d.Detach(0, closed=True, error=d.Error("amqp:link:stolen")),
        d.End(d.Error("amqp:session:errant-link")),
        d.Close(d.Error("amqp:connection:forced", "bye")),
    )
    assert sender.remote_condition.name == "amqp:link:stolen"
    assert session.remote_condition.name == "amqp:session:errant-link"
    assert peer.connection.remote_condition.description == "bye"
    sender.close()
    session.close()
    peer.connection.condition = proton.Condition("x:why", "because", {"k": "v"})
    peer.connection.close()
    detach, end, close = peer.performatives()
    assert isinstance(detach, d.Detach) and detach.closed and end == d.End()
    assert isinstance(close, d.Close) and close.error is not None
    assert (close.error.condition, close.error.description) == ("x:why", "because")
    assert close.error.info is not None and dict(close.error.info) == {"k": "v"}
