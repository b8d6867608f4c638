"""The octets of messages between nodes, which nodes of other releases read: none of them may ever change."""

from __future__ import annotations

from array import array
from decimal import Decimal
from typing import Any, Final

import pytest

from cluster.peers.admission_messages import AdmissionAnswer, AdmissionQuestion, NodeRemoved
from cluster.peers.catalog_messages import (
    BarrierPassed,
    BarrierRequest,
    CatalogApplied,
    CommandProposal,
    LeasePing,
    LeasePong,
)
from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.inquiry_messages import InquiryAnswer, InquiryQuestion
from cluster.peers.link_messages import Delivery
from cluster.peers.membership_messages import ContactAges, PeerGreeting, VoteOffer
from cluster.peers.ownership_messages import Announcement
from cluster.peers.registry import FAMILIES
from cluster.peers.resource_messages import ClientCounts, ResourceShortage
from node.delivery.backlog import NO_BACKLOG
from node.message.run import Run
from replication.repair import HAS, HAS_PART, LACKS, EntryAnswer, EntryQuestion
from tests.operations.peer_messages import decode, encode

TERMS = ConsumerTerms(16, 1, 10, 2, True, False, -3, 4, 5)
FILTERED = ConsumerTerms(16, 1, 10, 2, True, False, -3, 4, 5, b"f")
BACKLOG = ConsumerTerms(16, 1, 10, 2, True, False, -3, 4, 5, b"f", b"", 300)
LOGGED = ConsumerTerms(16, 1, 10, 2, True, False, -3, 4, 5, b"", b"link", NO_BACKLOG, True)
LENGTHS = Run("x", "key", 3, True, 2, 21, 0, array("I", [4, 5]), 9, b"aaaabbbbb")
STRIDE = Run("", "q", 0, False, 1, 0, 3, None, 3, b"ccc")
SEVERAL, ONE = Delivery(16, 1, [(1, 2)], True, LENGTHS), Delivery(17, 2, [(8, 8)], False, STRIDE)
TOKEN = 3 << 32 | 1
UNDER_TOKEN = Delivery(17, 2, [(8, 8)], False, STRIDE, TOKEN)
UNDER_LEASE = Delivery(17, 2, [(8, 8)], False, STRIDE, TOKEN, 9)

SAID: Final[list[tuple[Any, str]]] = [
    (
        ("hello", (7, 1, "n1", [TERMS], 3)),
        "4c010000010200000000000000070000000000000001 93a26e31919910010a02c3c2fd040503",
    ),
    (("operations", (7, 1, 9, b"batch")), "4c020000010200000000000000070000000000000001 09 6261746368"),
    (
        ("held", (7, 1, HeldLeases({1: [(1, 2)]}, {1: [(1, 2, 16)]}, {}, {}))),
        "4c030000010200000000000000070000000000000001 92919201919201029192019193010210",
    ),
    (
        ("held", (7, 1, HeldLeases({1: [(1, 2)]}, {}, {1: [(1, 2, TOKEN)]}, {}))),
        "4c030000010200000000000000070000000000000001 93919201919201029091920191930102cf0000000300000001",
    ),
    (
        ("held", (7, 1, HeldLeases({1: [(1, 2)]}, {}, {1: [(1, 2, TOKEN)]}, {1: [(1, 2, 9)]}))),
        "4c030000010200000000000000070000000000000001 "
        "94919201919201029091920191930102cf00000003000000019192019193010209",
    ),
    (("attach", (7, 1, 4, TERMS)), "4c040000010200000000000000070000000000000001 92049910010a02c3c2fd0405"),
    (
        ("attach", (7, 1, 4, FILTERED)),
        "4c040000010200000000000000070000000000000001 92049a10010a02c3c2fd0405c40166",
    ),
    (
        ("attach", (7, 1, 4, BACKLOG)),
        "4c040000010200000000000000070000000000000001 92049c10010a02c3c2fd0405c40166c400cd012c",
    ),
    (
        ("attach", (7, 1, 4, LOGGED)),
        "4c040000010200000000000000070000000000000001 92049d10010a02c3c2fd0405c400c4046c696e6bffc3",
    ),
    (("detach", (7, 1, 16)), "4c050000010200000000000000070000000000000001 10"),
    (("credit", (7, 1, [(16, 20)])), "4c060000010200000000000000070000000000000001 91921014"),
    (
        ("request", (7, 1, 5, "count", [1])),
        "4c070000010200000000000000070000000000000001 9305a5636f756e749101",
    ),
    (("acknowledged", (1, 2)), "4f010000010200000000000000070000000000000001 02"),
    (
        ("acknowledged", (1, 2, [(1, [(0, 3)])])),
        "4f010000010200000000000000070000000000000001 920291920191920003",
    ),
    (
        ("delivered", (1, [SEVERAL, ONE])),
        "4f020000010200000000000000070000000000000001 929d100191920102c3a178a36b657903c3021500c40"
        "80400000005000000099d110291920808c2a0a17100c2010003c003 616161616262626262 636363",
    ),
    (
        ("delivered", (1, [UNDER_TOKEN])),
        "4f020000010200000000000000070000000000000001 "
        "919e110291920808c2a0a17100c2010003c003cf0000000300000001 636363",
    ),
    (
        ("delivered", (1, [UNDER_LEASE])),
        "4f020000010200000000000000070000000000000001 "
        "919f110291920808c2a0a17100c2010003c003cf000000030000000109 636363",
    ),
    (("result", (1, 2, [404, "x"], None)), "4f030000010200000000000000070000000000000001 930292cd0194a178c0"),
    (
        ("result", (1, 2, 3, SEVERAL)),
        "4f030000010200000000000000070000000000000001 9302039d100191920102c3a178a36b657903c302150"
        "0c408040000000500000009 616161616262626262",
    ),
    (("consumer_cancelled", (1, 16)), "4f040000010200000000000000070000000000000001 10"),
    (("consumer_cancelled", (1, 16, True)), "4f040000010200000000000000070000000000000001 9210c3"),
    (("activity", (1, 16, 2, 3)), "4f060000010200000000000000070000000000000001 93100203"),
    (
        ("lease_ends_changed", (1, 2, [(8, 8)], 9)),
        "4f070000010200000000000000070000000000000001 93029192080809",
    ),
    (("resync", ()), "4f050000010200000000000000070000000000000000 c0"),
    (Announcement([(1, 2), (3, 4)], 99, 1), "41 92920102920304 63 01"),
    (CommandProposal(b"command"), "43 9201c407636f6d6d616e64"),
    (LeasePing(1.5, 7, 77), "43 920292cb3ff800000000000007 4d"),
    (LeasePong(1.5, 77), "43 9203cb3ff8000000000000 4d"),
    (LeasePong(1.5), "43 9203cb3ff8000000000000"),
    (CatalogApplied(7), "43 920407"),
    (BarrierRequest(7, 77, 3), "43 920593074d03"),
    (BarrierPassed(77, 3), "43 9206924d03"),
    (VoteOffer([1, 2]), "56 920102"),
    (ContactAges({"n1": 5, "n2": 0}), "48 82a26e3105a26e3200"),
    (ClientCounts({"/": 1}, {"a\udcff": (1, 3)}), "55 9281a12f0181a261ff920103"),
    (ResourceShortage(frozenset({"memory", "disk"})), "57 92a46469736ba66d656d6f7279"),
    (InquiryQuestion(3, "queues", {"a": Decimal("1.5")}), "51 93010392a671756575657381a161c70301312e35"),
    (InquiryAnswer(3, ["n1", None]), "51 93020392a26e31c0"),
    (
        PeerGreeting("h:1", "k", [("n1", "h:1", "k"), ("n2", "h:2", None)]),
        "4d 93a3683a31a16b9293a26e31a3683a31a16b93a26e32a3683a32c0",
    ),
    (AdmissionQuestion(), "4a"),
    (AdmissionAnswer(True), "4a 656d707479"),
    (AdmissionAnswer(False), "4a 65737461626c6973686564"),
    (NodeRemoved(), "4a 72656d6f766564"),
    (EntryQuestion(7, 3, True), "4400000102 9401070301"),
    (EntryAnswer(7, 3, LACKS), "4400000102 9402070300"),
    (EntryAnswer(7, 3, HAS, b"data"), "4400000102 9402070301 64617461"),
    (EntryAnswer(7, 3, HAS_PART), "4400000102 9402070302"),
]
"""Messages, and their parts in hexadecimal."""


def _named(message: Any) -> str:
    """By the kind of message: its values may print in another order in another process."""
    return message[0] if isinstance(message, tuple) else type(message).__name__


@pytest.mark.parametrize(("message", "octets"), SAID, ids=[_named(message) for message, _ in SAID])
def test_the_octets_are_those_of_every_release(message: Any, octets: str) -> None:
    (family,) = (one for one in FAMILIES if one.tag == bytes.fromhex(octets[:2]))
    assert [part.hex() for part in encode(family, message)] == octets.split()
    assert decode(family, [bytes.fromhex(part) for part in octets.split()]) == message


def test_an_announcement_of_an_older_release_says_less() -> None:
    parts = Announcement([(1, 2)], 99, 1).encode()
    assert Announcement.decode(parts[:3]) == Announcement([(1, 2)], 99, 0)
    assert Announcement.decode(parts[:2]) == Announcement([(1, 2)], 0, 0)
