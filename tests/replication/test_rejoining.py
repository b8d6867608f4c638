"""A replica that may have forgotten votes or entries gives no vote, over restarts, until it has all."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from replication.forms import RAFT_TAG
from replication.raft import Entry, EntryKind, Membership, Message, Snapshot, decode_message, encode_message
from replication.raft.messages import (
    AppendRequest,
    HeartbeatRequest,
    PreVoteRequest,
    SnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from tests.replication.hosts import MEMBERS, PARTITION, HostedNode
from tests.simulation.disk import PowerLost, SimulatedDisk

NOBODY = Membership()
"""The group's first membership for a replica that joins it."""

ENVELOPE = RAFT_TAG + PARTITION.to_bytes(4, "big")


def hand(node: HostedNode, message: Message, now: float = 0.0) -> None:
    """Let a message arrive, and the disk finish."""
    node.host.receive(message.sender, [ENVELOPE, *encode_message(message)], now)
    node.sync(now)


def votes_for(node: HostedNode, candidate: str = "b", term: int = 9) -> bool:
    """Whether a candidate whose log lacks nothing gets the node's vote."""
    node.sent.clear()
    hand(node, VoteRequest(candidate, node.name, term, 99, 8, False), now=9.0)
    answers = [decode_message(parts[1:]) for to, parts in node.sent if to == candidate]
    (answer,) = [answer for answer in answers if isinstance(answer, VoteResponse)]
    return answer.granted


def part_of_the_log(node: HostedNode) -> None:
    """The leader sends the first entries of many, with a membership that others know as the present one."""
    entries = [Entry(1, 1, EntryKind.NORMAL, b""), Entry(2, 1, EntryKind.MEMBERSHIP, MEMBERS.encode())]
    hand(node, AppendRequest("b", node.name, 3, 0, 0, 40, entries))


def snapshot_of_the_log(node: HostedNode) -> None:
    """The leader sends a snapshot, and entries behind it that make everything complete do not arrive."""
    hand(node, SnapshotRequest("b", node.name, 3, Snapshot(30, 2, MEMBERS, b"")))


@pytest.mark.parametrize("received", [part_of_the_log, snapshot_of_the_log])
def test_a_replica_restarted_while_it_joins_gives_no_vote(received: Callable[[HostedNode], None]) -> None:
    """It was a voter before, and its log was dropped: with its vote an old majority could commit anew."""
    node = HostedNode("a", membership=NOBODY)
    received(node)
    for _ in range(3):
        node = node.restarted()
        assert node.group.log.last_index() > 0
        assert not node.group.raft.may_vote
        assert not votes_for(node)


def test_a_replica_restarted_while_it_joins_does_not_campaign() -> None:
    node = HostedNode("a", membership=NOBODY)
    part_of_the_log(node)
    node = node.restarted()
    assert node.group.raft.membership.voters == {"a", "b", "c"}
    for step in range(200):
        node.host.tick(0.1 * step)
        node.sync(0.1 * step)
    asked = [decode_message(parts[1:]) for _, parts in node.sent]
    assert not [message for message in asked if isinstance(message, (PreVoteRequest, VoteRequest))]


def test_a_replica_whose_log_was_dropped_joins_when_it_is_opened_again() -> None:
    """In one process as well, and however often it is restarted then."""
    node = HostedNode("a")
    assert votes_for(node, term=2)
    node.host.close(PARTITION)
    node.group = node.host.open(PARTITION, NOBODY, node.machine, 0.0)
    node.membership = NOBODY
    part_of_the_log(node)
    assert not votes_for(node)
    assert not votes_for(node.restarted())


def test_a_replica_of_a_lost_disk_gives_no_vote_when_nothing_but_its_log_tells() -> None:
    """Of the whole node another file says so; what that file says last need not be what the log needs."""
    node = HostedNode("a", withheld=True)
    part_of_the_log(node)
    assert not votes_for(node.restarted())


def catch_up(node: HostedNode) -> None:
    """The leader sends all entries, and is heard once more."""
    part_of_the_log(node)
    rest = [Entry(index, 3, EntryKind.NORMAL, b"") for index in range(3, 41)]
    hand(node, AppendRequest("b", "a", 3, 2, 1, 40, rest), now=5.0)
    assert not node.group.raft.may_vote, "the entries are durable, but nobody has heard of the leader since"
    hand(node, HeartbeatRequest("b", "a", 3, 40, 3, 1), now=5.0)
    assert node.group.raft.may_vote


def test_a_replica_that_has_caught_up_votes_also_after_a_restart() -> None:
    node = HostedNode("a", membership=NOBODY)
    catch_up(node)
    node = node.restarted()
    assert node.group.raft.may_vote
    assert votes_for(node)


def test_a_replica_that_has_caught_up_keeps_its_vote_while_its_node_rebuilds_others() -> None:
    """The replica may be the only voter by then, so that no leader could give it its vote back."""
    node = HostedNode("a", membership=NOBODY, withheld=True)
    catch_up(node)
    node.disk.kill_process()
    node = HostedNode("a", node.disk, membership=NOBODY, withheld=True)
    assert node.host.rebuilding
    assert votes_for(node)


def test_no_power_failure_leaves_what_a_replica_received_without_that_it_joins() -> None:
    """Both may be in one batch, of which any sectors reach the disk."""
    received = 0
    for seed in range(200):
        node = HostedNode("a", SimulatedDisk(random.Random(seed)), membership=NOBODY)
        entries = [Entry(index, 1, EntryKind.NORMAL, bytes(200)) for index in range(1, 9)]
        request = AppendRequest("b", "a", 3, 0, 0, 40, entries)
        node.host.receive("b", [ENVELOPE, *encode_message(request)], 0.0)
        node.host.turn(0.0)
        assert node.writer.batch is not None
        node.disk.stop_after = node.disk.chance.randint(1, 8)
        with suppress(PowerLost):
            node.writer.batch.write()
        node.disk.stop_after = None
        node.disk.lose_power()
        node = HostedNode("a", node.disk, membership=NOBODY)
        received += node.group.log.last_index() > 0
        assert not node.group.raft.may_vote
    assert received > 20
