"""Every message that one node sends to another: the table from which docs/peers.md is made, and the tests of
all messages.

A message is a list of parts. The first octet of the first part is the tag, which names the family; within a
family a code, or the number of parts, names the message. Replication defines messages of its own, which this
table lists as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.peers import tags
from cluster.peers.admission_messages import (
    AdmissionAnswer,
    AdmissionQuestion,
    NodeRemoved,
    decode_admission,
)
from cluster.peers.catalog_messages import (
    BarrierPassed,
    BarrierRequest,
    CatalogApplied,
    CommandProposal,
    LeasePing,
    LeasePong,
    decode_catalog_message,
)
from cluster.peers.inquiry_messages import InquiryAnswer, InquiryQuestion, decode_inquiry
from cluster.peers.link_messages import FrontEndPort, OwnerPort
from cluster.peers.membership_messages import ContactAges, PeerGreeting, VoteOffer
from cluster.peers.ownership_messages import Announcement
from cluster.peers.resource_messages import ClientCounts, ResourceShortage
from replication import repair
from replication.forms import RAFT_TAG, SNAPSHOT_TAG, addressed
from replication.raft import decode_message
from replication.raft import messages as raft
from replication.repair import REPAIR_TAG, EntryAnswer, EntryQuestion
from replication.snapshots import Part


@dataclass(frozen=True, slots=True)
class MessageKind:
    """One message of a family.

    `form` is the class whose fields the message carries, or the method of a port that the message calls.
    `since` is the lowest format level (docs/decisions/0020) of a node to which the message may be sent.
    """

    name: str
    form: Any
    sender: str
    receiver: str
    says: str
    since: int = 0


@dataclass(frozen=True, slots=True)
class MessageFamily:
    """The messages of one tag.

    `decode` takes the parts of a message, and raises MessageError for a malformed one. It is None for calls,
    which `cluster.peers.link_messages` carries out.
    """

    name: str
    tag: bytes
    decode: Callable[[Sequence[bytes]], object] | None
    kinds: tuple[MessageKind, ...]


def _decode_raft(parts: Sequence[bytes]) -> raft.Message:
    addressed(parts)
    return decode_message(parts[1:])


def _decode_stream(parts: Sequence[bytes]) -> Part:
    addressed(parts)
    return Part.decode(parts[1:])


def _decode_repair(parts: Sequence[bytes]) -> EntryQuestion | EntryAnswer:
    return repair.decode_repair(parts)[1]


LEADER, FOLLOWER, CANDIDATE, REPLICA = "leader", "follower", "candidate", "replica"

_RAFT: Final = MessageFamily("Raft", RAFT_TAG, _decode_raft, (
    MessageKind(
        "pre-vote request", raft.PreVoteRequest, CANDIDATE, REPLICA,
        "Would you vote for me? `in_every_majority` is told since 1.",
    ),
    MessageKind("pre-vote response", raft.PreVoteResponse, REPLICA, CANDIDATE, "Whether it would."),
    MessageKind(
        "vote request", raft.VoteRequest, CANDIDATE, REPLICA,
        "Vote for me. `in_every_majority` is told since 1.",
    ),
    MessageKind("vote response", raft.VoteResponse, REPLICA, CANDIDATE, "Whether it does."),
    MessageKind(
        "append request", raft.AppendRequest, LEADER, FOLLOWER,
        "Entries that follow the one named, and how far the log is committed.",
    ),
    MessageKind(
        "append response", raft.AppendResponse, FOLLOWER, LEADER,
        "The log is durable up to `index`, and equal to the leader's.",
    ),
    MessageKind(
        "append rejection", raft.AppendRejection, FOLLOWER, LEADER,
        "The logs differ at `index`, and where they may match.",
    ),
    MessageKind("heartbeat request", raft.HeartbeatRequest, LEADER, FOLLOWER, "The sender leads this term."),
    MessageKind("heartbeat response", raft.HeartbeatResponse, FOLLOWER, LEADER, "The receiver leads it."),
    MessageKind("commit notice", raft.CommitNotice, LEADER, FOLLOWER, "Entry `index` is committed."),
    MessageKind(
        "snapshot request", raft.SnapshotRequest, LEADER, FOLLOWER,
        "A snapshot takes the log's place. It travels as the last part of a snapshot stream.",
    ),
    MessageKind(
        "read index request", raft.ReadIndexRequest, FOLLOWER, LEADER,
        "Which entry must a linearizable read wait for?",
    ),
    MessageKind("read index response", raft.ReadIndexResponse, LEADER, FOLLOWER, "That entry's index."),
    MessageKind("timeout now", raft.TimeoutNow, LEADER, FOLLOWER, "Stand for election at once."),
))  # fmt: skip

_SNAPSHOTS: Final = MessageFamily("Snapshot streams", SNAPSHOT_TAG, _decode_stream, (
    MessageKind(
        "stream part", Part, "leader, or follower", "follower, or leader",
        "Live entries that a snapshot refers to (`kind` 0), the snapshot request itself (1), or that the "
        "follower has all parts up to `number` on disk (2).",
    ),
))  # fmt: skip

_REPAIR: Final = MessageFamily("Damaged entries", REPAIR_TAG, _decode_repair, (
    MessageKind(
        "entry question", EntryQuestion, REPLICA, REPLICA,
        "Have you the entry, which this node's disk does not give back?", since=1,
    ),
    MessageKind(
        "entry answer", EntryAnswer, REPLICA, REPLICA,
        "Lacks it (`found` 0), has it (1), or has only the messages that wait (2).", since=1,
    ),
))  # fmt: skip

FRONT_END, OWNER = "front end", "owner"

_TO_OWNER: Final = MessageFamily("Calls to owners", tags.TO_OWNER, None, (
    MessageKind(
        "hello", OwnerPort.hello, FRONT_END, OWNER,
        "Begins an epoch of the link, with all consumers that the front end has on the partition.",
    ),
    MessageKind(
        "operations", OwnerPort.operations, FRONT_END, OWNER,
        "One numbered batch of publishes, settlements and other operations. Returns may have annotations "
        "since 6.",
    ),
    MessageKind(
        "held", OwnerPort.held, FRONT_END, OWNER,
        "Ends the greeting: the leases that consumers have, by queue. Tokens are told since 5, ends since 9.",
    ),
    MessageKind("attach", OwnerPort.attach, FRONT_END, OWNER, "Adds a consumer."),
    MessageKind("detach", OwnerPort.detach, FRONT_END, OWNER, "Removes a consumer."),
    MessageKind(
        "credit", OwnerPort.credit, FRONT_END, OWNER,
        "Up to how many messages each of these consumers takes, since it was attached.",
    ),
    MessageKind(
        "request", OwnerPort.request, FRONT_END, OWNER,
        "Asks for something by name: get, purge, count, redeliver, browse, browse_next, close, stop, drain, "
        "undeliverable_here, last, stream_place, advance, view, epoch, take, reader, or the outcome of a "
        "transaction.",
    ),
))  # fmt: skip

_TO_FRONT_END: Final = MessageFamily("Calls to front ends", tags.TO_FRONT_END, None, (
    MessageKind(
        "acknowledged", FrontEndPort.acknowledged, OWNER, FRONT_END,
        "All operation batches up to `number` are committed; which messages queues have refused.",
    ),
    MessageKind(
        "delivered", FrontEndPort.delivered, OWNER, FRONT_END,
        "Messages for consumers; each run's contents are a part of their own. A run's channel has the "
        "octet of its format (`node.wire.formats`) above its 16 bits. The token of a lease is told since 5.",
    ),
    MessageKind(
        "result", FrontEndPort.result, OWNER, FRONT_END,
        "Answers attach or request; a get is answered with a delivery.",
    ),
    MessageKind(
        "consumer_cancelled", FrontEndPort.consumer_cancelled, OWNER, FRONT_END,
        "The consumer's queue was deleted, or its link has another consumer, which is told since 7.",
    ),
    MessageKind(
        "resync", FrontEndPort.resync, OWNER, FRONT_END,
        "A message was lost on the way: the front end is to greet the owner again.",
    ),
    MessageKind(
        "activity", FrontEndPort.activity, OWNER, FRONT_END,
        "The consumer's place in the order of a queue with a single active one, and whether it is that one.",
    ),
    MessageKind(
        "lease_ends_changed", FrontEndPort.lease_ends_changed, OWNER, FRONT_END,
        "The end of the leases of these messages has changed.",
    ),
))  # fmt: skip

NODE, EVERY_PEER = "node", "every peer"

_CATALOG: Final = MessageFamily("The catalog", tags.CATALOG_REPLICAS, decode_catalog_message, (
    MessageKind("command proposal", CommandProposal, REPLICA, LEADER, "Propose this command."),
    MessageKind(
        "lease ping", LeasePing, REPLICA, LEADER,
        "Asks for a lease on the catalog. `process` is told since 1.",
    ),
    MessageKind(
        "lease pong", LeasePong, LEADER, REPLICA,
        "Grants a lease, counted from `since` on the asking process's clock. `process` is told since 1.",
    ),
    MessageKind(
        "catalog applied", CatalogApplied, REPLICA, LEADER,
        "The replica has applied the entries up to `index`.",
    ),
    MessageKind(
        "barrier request", BarrierRequest, REPLICA, LEADER,
        "Tell the front end when every replica with a lease has applied entry `index`.",
    ),
    MessageKind(
        "barrier passed", BarrierPassed, LEADER, REPLICA,
        "Every replica with a lease has applied the entry.",
    ),
))  # fmt: skip

_NODES: Final = (
    MessageFamily("Ownership", tags.OWNERSHIP, Announcement.decode, (
        MessageKind(
            "announcement", Announcement, NODE, EVERY_PEER,
            "First on a connection, when something changes, and once a second: the partitions that the node "
            "owns, with their terms. `formats` is told since 1.",
        ),
    )),
    MessageFamily("Admission", tags.ADMISSION, decode_admission, (
        MessageKind(
            "admission question", AdmissionQuestion, "node that starts with an empty disk", EVERY_PEER,
            "Is your disk empty as well?",
        ),
        MessageKind(
            "admission answer", AdmissionAnswer, NODE, "node that asks",
            "Whether the sender's disk is empty.",
        ),
        MessageKind(
            "node removed", NodeRemoved, "catalog's leader", "node that was removed",
            "The receiver is no member any more.",
        ),
    )),
    MessageFamily("Members", tags.MEMBERS, PeerGreeting.decode, (
        MessageKind(
            "peer greeting", PeerGreeting, NODE, "peer, on a new connection",
            "The addresses of the node and of members.",
        ),
    )),
    MessageFamily("Contacts", tags.CONTACTS, ContactAges.decode, (
        MessageKind(
            "contact ages", ContactAges, NODE, EVERY_PEER,
            "How long ago the sender heard each of the other nodes.",
        ),
    )),
    MessageFamily("Votes", tags.VOTES, VoteOffer.decode, (
        MessageKind(
            "vote offer", VoteOffer, "learner", LEADER,
            "The groups in which the learner could vote.",
        ),
    )),
    MessageFamily("Client counts", tags.CLIENT_COUNTS, ClientCounts.decode, (
        MessageKind(
            "client counts", ClientCounts, NODE, EVERY_PEER,
            "How many connections and channels the node has of virtual hosts and users with a limit.",
        ),
    )),
    MessageFamily("Shortages", tags.SHORTAGE, ResourceShortage.decode, (
        MessageKind(
            "resource shortage", ResourceShortage, NODE, EVERY_PEER,
            "The resources that the node is short of.",
        ),
    )),
    MessageFamily("Inquiries", tags.INQUIRY, decode_inquiry, (
        MessageKind(
            "inquiry question", InquiryQuestion, NODE, NODE,
            "A question to another node for an HTTP request, by name.",
        ),
        MessageKind("inquiry answer", InquiryAnswer, NODE, "node that asked", "The answer."),
    )),
)  # fmt: skip

FAMILIES: Final = (_RAFT, _SNAPSHOTS, _REPAIR, _TO_OWNER, _TO_FRONT_END, _CATALOG, *_NODES)
