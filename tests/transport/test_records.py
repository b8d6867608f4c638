"""The cipher between two nodes of this release, and with a node of the release before."""

from __future__ import annotations

import pytest

from replication.transport import CurveKeys
from replication.transport.zmtp.curve import ClientMechanism, ServerMechanism
from replication.transport.zmtp.frames import MORE, ProtocolError
from replication.transport.zmtp.records import OFFER, BoxRecords, GcmRecords, agreed

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
