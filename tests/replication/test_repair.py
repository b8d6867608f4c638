"""Entries that a disk does not give back are mended from another replica (`replication.repair`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from replication.journal import DamagedEntryError
from replication.repair import REPAIR_INTERVAL_S, REPAIR_TAG, Repair
from tests.replication.hosts import PARTITION, Cluster, HostedNode
from tests.simulation.disk import SECTOR

BODY = b"what the entry says " * 200
FILLING = b"\0" * 16000


Take = Callable[[str, Sequence[bytes], float], None]
"""Takes a message of a peer, at a time."""


class Mended:
    """Three hosts with their repairs, and what these told."""

    def __init__(self, snapshot_bytes: int = 1 << 30) -> None:
        self.cluster = Cluster(snapshot_bytes)
        self.repairs: dict[str, Repair] = {}
        for name, node in self.cluster.nodes.items():
            repair = self.repairs[name] = node.host.repair
            taken = node.host.receive
            node.host.receive = self._taking(repair, taken)  # type: ignore[method-assign]
        self.cluster.run(
            5.0, lambda: any(n.host.leads(PARTITION, self.cluster.now) for n in self.cluster.up())
        )
        self.leader = self.cluster.leader()
        self.index = self.leader.host.propose(PARTITION, BODY, self.cluster.now)
        for _ in range(10):
            self.leader.host.propose(PARTITION, FILLING, self.cluster.now)
        self.run(0.5)

    def _taking(self, repair: Repair, taken: Take) -> Take:
        def receive(peer: str, parts: Sequence[bytes], now: float) -> None:
            if parts[0][:1] == REPAIR_TAG:
                repair.receive(peer, parts, now)
            else:
                taken(peer, parts, now)

        return receive

    @property
    def lost(self) -> list[int]:
        return [index for node in self.cluster.nodes.values() for index in node.machine.lost_entries]

    def run(self, seconds: float) -> None:
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            self.cluster.run(0.02)
            for node in self.cluster.up():
                self.repairs[node.name].tick(self.cluster.now)

    def spoil(self, node: HostedNode, how: str = "rots", body: bytes = BODY) -> None:
        """The entry rots on the node's disk, or a sector of it is lost, and the entry is in no cache."""
        for name in node.disk.names():
            at = node.disk.content(name).find(body)
            if at >= 0:
                if how == "rots":
                    node.disk.corrupt(name, at + 100, 0x10)
                else:
                    node.disk.lose_sector(name, at + SECTOR)
                node.journal._cache._data.clear()
                node.journal._cache._size = 0
                return
        raise AssertionError("the entry is in no segment")

    def read(self, node: HostedNode) -> None:
        """As an owner does that is asked for the entry's messages."""
        try:
            node.group.log.entry(self.index)
        except DamagedEntryError as error:
            self.repairs[node.name].found(error, self.cluster.now)


@pytest.mark.interpreted
@pytest.mark.parametrize("how", ["rots", "is lost"])
def test_a_leader_that_cannot_read_an_entry_gives_way_and_gets_it_from_another_replica(how: str) -> None:
    mended = Mended()
    leader, state = mended.leader, mended.leader.group.log.hard_state()
    mended.spoil(leader, how)
    with pytest.raises(DamagedEntryError) as damaged:
        leader.group.log.entry(mended.index)
    assert (damaged.value.partition, damaged.value.index) == (PARTITION, mended.index)
    mended.read(leader)
    assert not leader.host.leads(PARTITION, mended.cluster.now)
    mended.run(1.0)
    assert leader.group.log.entry(mended.index).data == BODY
    assert mended.repairs[leader.name].repaired == 1 and not mended.repairs[leader.name].damaged
    assert mended.cluster.leader() is not leader
    assert leader.group.log.hard_state().term > state.term and leader.group.raft.may_vote
    # The segment with the damaged record has gone when what was alive in it has been copied.
    assert "0000000001.segment" in leader.disk.names()
    while leader.journal.collect(1 << 30):
        leader.sync(mended.cluster.now)
    leader.sync(mended.cluster.now)
    assert "0000000001.segment" not in leader.disk.names()
    again = leader.restarted()
    assert again.group.log.entry(mended.index).data == BODY


@pytest.mark.interpreted
def test_a_follower_is_mended_without_a_change_of_leader() -> None:
    mended = Mended()
    follower = next(node for node in mended.cluster.up() if node is not mended.leader)
    mended.spoil(follower)
    mended.read(follower)
    mended.run(0.2)
    assert follower.group.log.entry(mended.index).data == BODY
    assert mended.cluster.leader() is mended.leader


@pytest.mark.interpreted
def test_nothing_is_given_up_while_a_replica_is_down_that_may_have_it() -> None:
    mended = Mended()
    leader = mended.leader
    other, down = (node for node in mended.cluster.up() if node is not leader)
    mended.cluster.stop(down.name)
    for node in (leader, other):
        mended.spoil(node)
        mended.read(node)
    mended.run(3 * REPAIR_INTERVAL_S)
    for node in (leader, other):
        mended.read(node)
    assert not mended.lost and mended.repairs[leader.name].damaged
    mended.cluster.down.discard(down.name)
    for node in mended.cluster.up():
        node.host.peer_up(down.name, mended.cluster.now)
    mended.run(3 * REPAIR_INTERVAL_S)
    assert [node.group.log.entry(mended.index).data for node in (leader, other)] == [BODY, BODY]


@pytest.mark.interpreted
def test_what_no_replica_has_is_given_up_by_the_one_that_leads() -> None:
    mended = Mended()
    for node in mended.cluster.up():
        mended.spoil(node)
    for _ in range(8):
        for node in mended.cluster.up():
            mended.read(node)
        mended.run(0.7 * REPAIR_INTERVAL_S)
    assert mended.lost and set(mended.lost) == {mended.index}


@pytest.mark.interpreted
def test_an_entry_of_one_replica_alone_that_is_not_committed_gives_way_to_logs_without_it() -> None:
    """The damaged replica has the longest log, and would win each election."""
    mended = Mended()
    damaged = mended.leader
    followers = [node for node in mended.cluster.up() if node is not damaged]
    for follower in followers:
        mended.cluster.stop(follower.name)
    body = BODY.replace(b"what", b"last")
    mended.index = damaged.host.propose(PARTITION, body, mended.cluster.now)
    for _ in range(10):
        damaged.host.propose(PARTITION, FILLING, mended.cluster.now)
    mended.run(0.1)
    mended.spoil(damaged, body=body)
    for follower in followers:
        mended.cluster.down.discard(follower.name)
        damaged.host.peer_up(follower.name, mended.cluster.now)
    while not any(node.host.leads(PARTITION, mended.cluster.now) for node in followers):
        assert mended.cluster.now < 60.0
        damaged.host.campaign(PARTITION, mended.cluster.now)
        mended.run(0.1)
    mended.run(1.0)
    applied = mended.cluster.leader().group.raft.applied_index
    assert [node.group.raft.applied_index for node in followers] == [applied, applied]
    assert damaged.group.raft.applied_index == applied and not mended.repairs[damaged.name].damaged
    assert not mended.lost
    # Without damage the replica may stand for election again.
    for follower in followers:
        follower.group.raft.stand_aside(True)
    mended.cluster.leader().group.raft.step_down(mended.cluster.now)
    mended.run(5.0)
    assert mended.cluster.leader() is damaged


@pytest.mark.interpreted
def test_an_entry_that_a_snapshot_lacks_leaves_the_work_of_the_turn_complete() -> None:
    """The leader finds the damage as it begins to stream a snapshot, with committed entries to apply."""
    mended = Mended(snapshot_bytes=1 << 15)
    leader, other, late = mended.leader, *(n for n in mended.cluster.up() if n is not mended.leader)
    mended.cluster.stop(late.name)
    while leader.group.log.first_index() <= late.group.log.last_index() + 1:
        assert mended.cluster.now < 60.0
        leader.host.propose(PARTITION, FILLING, mended.cluster.now)
        mended.run(1.0)
    mended.spoil(leader)
    mended.cluster.down.discard(late.name)
    for node in (leader, other):
        node.host.peer_up(late.name, mended.cluster.now)
    while mended.repairs[leader.name].found_here == 0:
        assert mended.cluster.now < 90.0
        if leader.host.leads(PARTITION, mended.cluster.now):
            leader.host.propose(PARTITION, b"more", mended.cluster.now)
        mended.run(0.02)
    mended.run(5.0)
    last = mended.cluster.leader().group.raft.applied_index
    for node in (leader, other):
        proposed = [index for index in node.machine.applied if index >= mended.index]
        assert node.group.raft.applied_index == last and len(proposed) >= 8
        assert proposed == other.machine.applied[-len(proposed) :]
    assert late.group.raft.applied_index == last and late.machine.restored
