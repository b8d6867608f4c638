"""A message of a peer that has another form than its kind ends that connection, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.catalog.membership.leader_balance import LeaderBalance
from cluster.catalog.membership.mover import Mover
from cluster.catalog.replica import Catalog
from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.link_messages import (
    RemoteFrontEnd,
    RemoteOwner,
    address,
    receive_for_front_end,
    receive_for_owner,
)
from cluster.peers.tags import VOTES
from cluster.process.scopes import FailureScope, Origin, scope_of
from replication.raft import (
    Entry,
    EntryKind,
    Membership,
    MessageError,
    decode_message,
    encode_message,
)
from replication.raft.messages import AppendRequest
from replication.repair import REPAIR_TAG, Repair
from replication.snapshots import ACKNOWLEDGED, CHUNK, Part
from tests.operations.peer_messages import spoilt
from tests.replication.hosts import PARTITION, HostedNode

ABSENT: Final = cast(Any, None)
RAFT, STREAM, REPAIR = (tag + PARTITION.to_bytes(4, "big") for tag in (b"R", b"S", REPAIR_TAG))

Parts = list[bytes]


def calls_to_an_owner() -> list[Parts]:
    sent: list[Parts] = []
    owner = RemoteOwner(PARTITION, lambda parts: sent.append([bytes(part) for part in parts]))
    terms = ConsumerTerms(16, 1, 10, 0, no_ack=False, exclusive=False, priority=0)
    owner.hello(7, 1, "n1", [terms], 0)
    owner.operations(7, 1, 1, b"")
    owner.held(7, 1, HeldLeases({1: [(1, 2)]}, {1: [(1, 2, 16)]}, {}, {}))
    owner.held(7, 1, HeldLeases({1: [(1, 2)]}, {}, {1: [(1, 2, 1 << 32)]}, {1: [(1, 2, 1 << 40)]}))
    owner.attach(7, 1, 1, terms)
    owner.detach(7, 1, 16)
    owner.credit(7, 1, [(16, 20)])
    owner.request(7, 1, 1, "count", [1])
    return sent


def calls_to_a_front_end() -> list[Parts]:
    sent: list[Parts] = []
    front_end = RemoteFrontEnd(PARTITION, 7, lambda parts: sent.append([bytes(part) for part in parts]))
    front_end.acknowledged(1, 2, [(1, [(0, 3)])])
    front_end.result(1, 1, 3, None)
    front_end.consumer_cancelled(1, 16)
    front_end.consumer_cancelled(1, 16, stolen=True)
    front_end.activity(1, 16, 2, 3)
    return sent


def read_part(parts: Sequence[bytes]) -> None:
    Part.decode(parts[1:])


class Anything:
    """Takes every call: a message that reaches it had the form of its kind."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return self._called

    def _called(self, *_: object) -> None:
        self.calls += 1


def receive_for_anything(receive: Callable[..., None]) -> Callable[[Parts], None]:
    def work(parts: Parts) -> None:
        address(parts)
        receive(Anything(), parts)

    return work


def repair_of(node: HostedNode) -> Repair:
    return node.host.repair


def catalog() -> Any:
    """As far as a message that is not for a leader of the catalog reaches."""
    made = cast(Any, object.__new__(Catalog))
    made._grantor = made._holder = Anything()
    made._front_end, made._awaited, made._append = 7, Anything(), Anything()._called
    made._grant = Anything()._called
    return made


MEMBERSHIP = Entry(1, 1, EntryKind.MEMBERSHIP, Membership(frozenset("ab")).encode())
APPEND = encode_message(AppendRequest("b", "a", 1, 0, 0, 0, [MEMBERSHIP]))
KINDS: Final[dict[str, tuple[list[Parts], Callable[[Parts], object]]]] = {
    "raft": ([[RAFT, *APPEND]], lambda parts: decode_message(parts[1:])),
    "stream": (
        [
            [STREAM, *Part(CHUNK, (1, 2, 3), 0, ((1, 1, 0),), [b"x"]).encode()],
            [STREAM, *Part(ACKNOWLEDGED, (1, 2, 3), 0).encode()],
        ],
        read_part,
    ),
    "repair": (
        [[REPAIR, msgpack.packb([1, 1, 1, 0])], [REPAIR, msgpack.packb([2, 1, 1, 1]), b"x"]],
        lambda parts: repair_of(HostedNode("a")).receive("b", parts, 0.0),
    ),
    "owner": (calls_to_an_owner(), receive_for_anything(receive_for_owner)),
    "front end": (calls_to_a_front_end(), receive_for_anything(receive_for_front_end)),
    "catalog": (
        [
            [b"C", msgpack.packb(plain)]
            for plain in ([1, b"x"], [2, [1.0, 1]], [3, 1.0], [4, 1], [5, [1, 2, 3]], [6, [7, 2]])
        ],
        lambda parts: catalog().receive("b", parts, 0.0),
    ),
    "votes": (
        [[VOTES, msgpack.packb([1, 2])]],
        lambda parts: Mover.receive(cast(Any, SimpleNamespace(_electors=set())), "b", parts, 0.0),
    ),
    "contacts": (
        [[b"H", msgpack.packb({"n1": 5})]],
        lambda parts: LeaderBalance.receive(
            cast(Any, SimpleNamespace(_contacts=Anything(), _member=SimpleNamespace(time=Anything()))),
            "b",
            parts,
            0.0,
        ),
    ),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_malformed_message_ends_that_connection_alone(kind: str, data: st.DataObject) -> None:
    good, receive = KINDS[kind]
    parts = data.draw(spoilt(good))
    try:
        receive(parts)
    except Exception as error:
        assert scope_of(error, Origin.PEER_MESSAGE) is FailureScope.PEER, (parts, repr(error))


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", KINDS)
def test_what_other_nodes_send_is_taken(kind: str) -> None:
    good, receive = KINDS[kind]
    for parts in good:
        receive(parts)


@pytest.mark.parametrize("envelope", [b"R", b"S", b"R\0\0\0", RAFT + b"\0"])
def test_a_message_shorter_or_longer_than_its_envelope_reaches_no_group(envelope: bytes) -> None:
    node = HostedNode("a")
    with pytest.raises(MessageError) as refused:
        node.host.receive("b", [envelope, *APPEND], 0.0)
    assert scope_of(refused.value, Origin.PEER_MESSAGE) is FailureScope.PEER


def test_a_membership_that_does_not_decode_gets_into_no_log() -> None:
    """It would be in force from the moment it is appended."""
    node = HostedNode("a")
    bad = Entry(1, 1, EntryKind.MEMBERSHIP, b"\xc1")
    with pytest.raises(MessageError):
        node.host.receive("b", [RAFT, *encode_message(AppendRequest("b", "a", 1, 0, 0, 0, [bad]))], 0.0)
    assert node.group.raft.last_index == 0
