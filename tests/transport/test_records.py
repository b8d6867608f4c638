"""The cipher between two nodes of this release, and with a node of the release before."""

from __future__ import annotations

import pytest

from replication.transport import CurveKeys
from replication.transport.zmtp.curve import ClientMechanism, ServerMechanism
from replication.transport.zmtp.frames import MORE, ProtocolError
from replication.transport.zmtp.records import OFFER, BoxRecords, GcmRecords, agreed
from replication.transport.zmtp.scratch import Scratch

CLIENT, SERVER = CurveKeys.generate(), CurveKeys.generate()
SHARED = bytes(range(32))
TOLD = {name.lower(): value for name, value in OFFER.items()}


def shaken() -> tuple[ClientMechanism, ServerMechanism]:
    """Both sides of a connection after their handshake."""
    client = ClientMechanism(CLIENT, SERVER.public)
    server = ServerMechanism(SERVER, {CLIENT.public: "n1"}.get)
    said = client.begin()
    while said is not None:
        reply = server.answer(said)
        assert reply is not None
        said = client.answer(reply)
    assert client.ready and server.ready
    return client, server


@pytest.mark.interpreted
@pytest.mark.parametrize("offers", [{}, OFFER])
def test_both_sides_use_what_both_know(monkeypatch: pytest.MonkeyPatch, offers: dict[bytes, bytes]) -> None:
    """With nothing to offer a side is a node of the release before."""
    monkeypatch.setattr("replication.transport.zmtp.curve.OFFER", offers)
    client, server = shaken()
    for one, other in ((client, server), (server, client)):
        for payload in (b"", b"hello", bytes(100_000)):
            assert other.unwrap(memoryview(b"".join(one.wrap(MORE, payload)))) == (MORE, payload)
    assert {type(one._records) for one in (client, server)} == {GcmRecords if offers else BoxRecords}


@pytest.mark.parametrize("told", [{}, {b"x-records": b"ROT13"}, TOLD])
def test_an_offer_that_is_not_known_is_as_none(told: dict[bytes, bytes]) -> None:
    assert isinstance(agreed(told, SHARED, False), GcmRecords if told is TOLD else BoxRecords)


@pytest.mark.parametrize("kind", [BoxRecords, GcmRecords])
def test_a_record_is_opened_by_the_other_side_under_its_number_alone(
    kind: type[BoxRecords] | type[GcmRecords],
) -> None:
    client, server = kind(SHARED, False), kind(SHARED, True)
    number = (7).to_bytes(8, "big")
    sealed = b"".join(client.seal(number, 1, b"secret"))
    assert b"secret" not in sealed
    assert server.open(number, memoryview(sealed)) == (1, b"secret")
    other = (8).to_bytes(8, "big")
    for side, under, octets in ((server, other, sealed), (client, number, sealed), (server, number, b"")):
        with pytest.raises(ProtocolError):
            side.open(under, octets)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(ProtocolError):
            server.open(number, changed)


@pytest.mark.parametrize("size", [0, 30, 1000])
def test_records_in_a_scratch_are_those_of_their_own_memory(size: int) -> None:
    """A scratch without room changes nothing."""
    number, payload = (7).to_bytes(8, "big"), b"secret" * 5
    sealing, opening = Scratch(size), Scratch(size)
    _, box = GcmRecords(SHARED, False).seal(number, 1, payload, sealing)
    sealed = b"".join(GcmRecords(SHARED, False).seal(number, 1, payload))
    assert sealed[1:] == box
    assert isinstance(box, memoryview) == (size == 1000)
    server = GcmRecords(SHARED, True)
    flags, octets = server.open(number, sealed, opening)
    assert (flags, octets) == (1, payload)
    assert isinstance(octets, memoryview) == (size >= len(payload))
    for octet in range(len(sealed)):
        opening.reset()
        with pytest.raises(ProtocolError):
            server.open(number, sealed[:octet], opening)


def test_a_scratch_hands_out_room_until_it_is_reset() -> None:
    scratch = Scratch(10)
    first, second = scratch.take(6), scratch.take(4)
    assert first is not None and second is not None
    first[:], second[:] = b"abcdef", b"ghij"
    assert bytes(first) == b"abcdef"
    assert scratch.take(1) is None
    assert scratch.take(0) is not None
    scratch.reset()
    again = scratch.take(10)
    assert again is not None and bytes(again) == b"abcdefghij"
