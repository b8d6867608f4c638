"""Checks of the replicas themselves: one leader a term, equal states, memory given back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cluster.catalog.replica import CATALOG
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.owner.walking import EntriesGoneError, digest_steps
from replication.group import RaftGroup
from replication.journal import DamagedEntryError
from replication.raft import Role
from tests.inside import machine_of, state_of
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation


class Agreement:
    """Checks all nodes during the whole run."""

    def __init__(self) -> None:
        self.on_election: Callable[[SimulatedNode, Role], None] = lambda node, role: None
        """Called when a node stands for election, and when it has won the election."""
        self._stood: set[tuple[int, int, str]] = set()
        self._leaders: dict[tuple[int, int], tuple[str, int]] = {}
        self._inherited: dict[tuple[int, int], int] = {}
        self._digests: dict[tuple[int, int], tuple[str, bytes]] = {}
        self._chain: dict[tuple[int, int], bytes] = {}
        self._committed: dict[tuple[int, int], int] = {}
        self._checked: dict[tuple[int, str, int], int] = {}
        self._held: dict[tuple[int, str], int] = {}
        self._seen: dict[tuple[str, int], dict[int, tuple[object, ...]]] = {}
        """The last checked state of each replica, by node and life."""

    def leaders(self, node: SimulatedNode) -> bool:
        """Check that no term of a partition has two leaders or two owners, and that committed entries do not
        change.

        Returns whether a checked part of the node's replicas has changed since the last check.
        """
        groups = node.broker.host.groups
        seen = self._seen.get((node.name, node.life))
        changed = seen is None
        if seen is None:
            seen = self._seen[node.name, node.life] = {}
        elif len(seen) > len(groups):
            changed = True
            for partition in seen.keys() - groups.keys():
                del seen[partition]
        for partition, group in groups.items():
            state = self._state(node, group)
            if seen.get(partition) == state:
                continue
            seen[partition], changed = state, True
            self._entries(node, group)
            self._votes(node, group)
            if node.copied and group.raft.last_index and group.raft.membership.members == {node.name}:
                # The node's next start would set a damaged journal aside, with the partition's only replica.
                raise Violation(f"{node.name} takes it that others have partition {partition}")
            role, term = group.raft.role, group.raft.term
            if len(group.raft.membership.voters) == 1 and not node.broker.owners[partition].active:
                # A single replica leads at once, but shows no effects of a term that is not on its disk yet.
                continue
            if role is Role.LEADER:
                who = (node.name, node.life)
                first = self._leaders.get((partition, term))
                if first is None:
                    self._leaders[partition, term] = who
                    self._inherited[partition, term] = group.raft.commit_index
                    node.world.disturbed = node.world.now
                    self.on_election(node, role)
                elif first != who:
                    raise Violation(f"{first} and {who} lead partition {partition} in term {term}")
                self._check_commit(node, group)
            elif role is Role.CANDIDATE and (partition, term, node.name) not in self._stood:
                self._stood.add((partition, term, node.name))
                self.on_election(node, role)
        return changed

    @staticmethod
    def _state(node: SimulatedNode, group: RaftGroup) -> tuple[object, ...]:
        """The checked parts of a replica."""
        raft, partition = group.raft, group.partition
        return (
            group, raft.role, raft.term, raft.commit_index, raft.last_index, raft._state.log.durable,
            raft.may_vote, raft.membership, node.copied,
            partition != CATALOG and node.broker.owners[partition].active,
        )  # fmt: skip

    def _entries(self, node: SimulatedNode, group: RaftGroup) -> None:
        """Check that no two nodes commit different entries at one index.

        The commit index of a replica with a damaged entry may be beyond the end of its log.
        """
        partition, commit = group.partition, min(group.raft.commit_index, group.log.last_index())
        key = (partition, node.name, node.life)
        checked = max(self._checked.get(key, 0), group.log.first_index() - 1)
        for index in range(checked + 1, commit + 1):
            term = group.log.term(index)
            if self._committed.setdefault((partition, index), term) != term:
                raise Violation(f"{node.name}: another entry {index} of partition {partition} was committed")
        self._checked[key] = commit

    def lacks(self, node: SimulatedNode, group: RaftGroup) -> bool:
        """Whether a replica still lacks committed entries that were on the node's disk before, and gets them
        back.
        """
        return 0 < group.raft.last_index < self._held.get((group.partition, node.name), 0)

    def _votes(self, node: SimulatedNode, group: RaftGroup) -> None:
        """Check that a replica that may vote has all committed entries that were ever on its disk: commits
        counted on this replica, and a majority that elects a leader must have the entries.
        """
        key = (group.partition, node.name)
        held = self._held.get(key, 0)
        if group.raft.may_vote and group.raft.last_index < held:
            raise Violation(
                f"{node.name} may vote in partition {group.partition}, and has forgotten entry {held}, which "
                "was committed"
            )
        self._held[key] = max(held, min(group.raft.commit_index, group.raft._state.log.durable))

    def _check_commit(self, node: SimulatedNode, group: RaftGroup) -> None:
        """§5.4.2: a leader commits entries of older terms only together with an entry of its own term."""
        partition, term, commit = group.partition, group.raft.term, group.raft.commit_index
        if commit > self._inherited[partition, term] and group.log.term(commit) < term:
            raise Violation(f"{node.name}, leader of term {term}, commits entry {commit} of an older one")

    def states(self, node: SimulatedNode) -> None:
        """Check that two replicas that have applied the same entries are equal."""
        for partition, index, digest in states_of(node):
            first = self._digests.setdefault((partition, index), (node.name, digest))
            if first[1] != digest:
                raise Violation(
                    f"partition {partition} differs on {first[0]} and {node.name} after entry {index}"
                )
        self._chains(node)

    def _chains(self, node: SimulatedNode) -> None:
        """Check that the digests that a replica computes from its log are those of its state, and equal on
        all replicas at the same entry.
        """
        for partition in node.broker.partitions.replicas:
            machine = machine_of(node.broker.owners[partition])
            if not machine.chronicle.kept or machine.applied_index < machine.chronicle.whole_from:
                continue
            where = f"partition {partition} on {node.name}"
            log, found = node.broker.host.groups[partition].log, dict[int, bytes]()
            try:
                for step in digest_steps(machine, log, machine.applied_index, all_marks=True):
                    found.update(step)
            except DamagedEntryError:
                continue
            except EntriesGoneError as error:
                raise Violation(f"{where} has not its whole entries: {error}") from error
            if found[machine.applied_index] != machine.chronicle.digest:
                raise Violation(f"the log of {where} has another digest than the state")
            for index, digest in found.items():
                if self._chain.setdefault((partition, index), digest) != digest:
                    raise Violation(f"the digest of entry {index} differs in {where}")


def states_of(node: SimulatedNode) -> Iterator[tuple[int, int, bytes]]:
    """(partition, applied index, digest) of each replica on a node."""
    catalog = node.broker.catalog
    yield CATALOG, catalog.applied_index, catalog.state.snapshot()
    for partition in node.broker.partitions.replicas:
        machine = machine_of(node.broker.owners[partition])
        yield partition, machine.applied_index, machine.digest()


def check_replicas(nodes: Iterable[SimulatedNode]) -> str | None:
    """A replica that has not applied all that another one has; None where there is none."""
    applied: dict[int, int] = {}
    for node in nodes:
        for partition, index, _ in states_of(node):
            if applied.setdefault(partition, index) != index:
                return f"{node.name} is not at the same entry of partition {partition}"
    return None


def check_memory(nodes: Iterable[SimulatedNode]) -> str | None:
    """State that an idle node still keeps; None where no node keeps any."""
    nodes = list(nodes)
    front_ends = {node.front_end for node in nodes}
    for node in nodes:
        for what, kept in kept_by(node, front_ends):
            if kept:
                return f"{node.name} keeps {what}: {kept}"
    return None


def kept_by(node: SimulatedNode, front_ends: set[int]) -> Iterator[tuple[str, object]]:
    """(name, state) of everything that should be empty on an idle node."""
    broker = node.broker
    for link in broker.links.by_partition.values():
        name = f"of its link to partition {link.partition}"
        yield f"operations {name}", len(link.unacknowledged)
        yield f"octets {name}", link.unacknowledged_bytes
        yield f"requests {name}", {request.name for request in link._requests.values()}
        yield (
            f"leases {name}",
            {queue: list(held.ranges()) for queue, held in link.held.leases.items() if held},
        )
        yield f"publishers held back {name}", len(link._waiting)
    others = {FIRST_TRANSIT_ID + partition for partition in broker.catalog.state.partitions}
    for partition, owner in broker.owners.items():
        name = f"of partition {partition}"
        yield f"a proposal {name}", owner.pending
        yield f"waiters {name}", len(state_of(owner).waiters)
        yield f"front ends {name} that are gone", state_of(owner).front_ends.known() - front_ends - others
        table = machine_of(owner).transactions
        yield f"transactions {name}", [*table.prepared, *table.decided]
        yield f"abandoned transactions {name} of the dead", table.awaited() - front_ends
        yield f"op batch numbers {name} of the dead", machine_of(owner)._numbers.keys() - front_ends - others
        for queue, state in machine_of(owner).queues.items():
            yield f"messages {name} in queue {queue}", len(state.alive)
            yield f"attached front ends {name}, queue {queue}", state.attached - front_ends
        for queue, its_owner in state_of(owner).queues.items():
            delivery = its_owner.delivery
            yield (
                f"leases {name} in queue {queue}",
                {one: list(lease.ranges()) for one, lease in delivery.leases.items() if lease},
            )
            yield f"messages held for front ends {name} in queue {queue}", len(delivery.held)
            yield f"lost leases {name} in queue {queue}", bool(delivery.lost)
    yield "catalog commands", broker.catalog.unanswered
    yield "messages that wait for a sync", len(broker.host._unsynced) + len(broker.host._syncing)
    yield "snapshot streams", len(broker.host._senders) + len(broker.host._receivers)
    yield "octets in outboxes", sum(peer.outbox.queued for peer in node.transport.peers.values())
    journal = node.journal
    room = 64 * journal._stage.active.capacity + 4 * broker._config.snapshot_bytes * len(broker.host.groups)
    yield "a journal that grows", journal.disk_bytes() if journal.disk_bytes() > room else 0
