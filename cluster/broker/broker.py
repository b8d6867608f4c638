"""One node, without sockets, threads or clocks: catalog, replicas, owners, links, and the turn.

The process, or the simulator, gives the node its inputs and the time. The node's outputs leave by `send` (to
peers), by the journal's writer, and by the callbacks of client sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from cluster.broker.changing_parts import ChangingParts
from cluster.broker.environment import Environment, NodeEvents
from cluster.broker.front_end import ClientParts
from cluster.broker.groups import RaftGroups
from cluster.broker.known_front_ends import KnownFrontEnds
from cluster.broker.lost_nodes import LostNodes
from cluster.broker.observers import NodeObservers
from cluster.broker.partitions import Partitions
from cluster.broker.placed_queues import PlacedQueues
from cluster.broker.transit import Transit
from cluster.catalog.membership.bootstrap import Bootstrap, StartEvents
from cluster.catalog.membership.cluster_member import ClusterMember
from cluster.catalog.membership.copies import JournalCopies
from cluster.catalog.membership.formats import Formats, PeerFormats
from cluster.catalog.membership.mover import Mover
from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.membership.uptime import Uptime
from cluster.catalog.node_time import NodeTime
from cluster.catalog.observer import Observer, Observers
from cluster.catalog.replica import CATALOG, Catalog, CatalogClient
from cluster.config.node import BrokerConfig
from cluster.gateway.context import GatewayContext
from cluster.gateway.link import Links
from cluster.gateway.link_context import LinkContext
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.lost_memory import LostMemory
from cluster.gateway.sole_replicas import SoleReplicas
from cluster.owner.context import OverdueEpochs, OverdueTakes, OvertakenReaders
from cluster.owner.lost_entries import LostEntries
from cluster.owner.partition import PartitionOwner
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers import tags
from cluster.peers.held_leases import TellsLeases
from cluster.peers.latencies import Latencies
from cluster.peers.link_messages import RemoteOwner, address, receive_for_front_end, receive_for_owner
from cluster.peers.ownership_messages import Announcement
from replication.forms import RAFT_TAG, SNAPSHOT_TAG
from replication.host import Host, Writer
from replication.journal import DamagedEntryError, Journal
from replication.raft import Entry, EntryKind, NotLeaderError
from replication.repair import REPAIR_TAG

ANNOUNCE_INTERVAL_S: Final = 1.0
LIGHT_OCTETS: Final = 8192
"""Octets of entries applied in a turn. Below that the turn sends the confirms before it serves deliveries."""

TURN_PASSES: Final = 4
"""Rounds of work in one turn, before the event loop handles sockets again."""

UNOBSERVED: Final = NodeObservers()


class Broker:
    """See the module's docstring. Implements `OwnerContext` and observes the catalog."""

    def __init__(
        self,
        config: BrokerConfig,
        journal: Journal,
        environment: Environment,
        events: NodeEvents,
        observers: NodeObservers = UNOBSERVED,
    ) -> None:
        self._config, self._node, self._front_end = config, config.node, config.front_end
        self._clock, self._send, self._environment = environment.clock, environment.send, environment
        self._time, self._events, self.new_space = NodeTime(environment.clock), events, environment.new_space
        self._peers = PeerStatus((one for one in config.members if one != config.node), self._now)
        self.connected, self._peer_formats = self._peers.connected, PeerFormats(config.formats)
        self.latencies, self.auto_delete_after_s = Latencies(environment.clock), config.auto_delete_after_s
        self._transient_entries: list[tuple[PartitionOwner, int, bytes]] = []
        self._announced: dict[int, tuple[str, int]] = {}
        self._dirty_owners: dict[int, PartitionOwner] = {}
        self.served_at = 0.0  # When a turn last had work for an owner of a partition.
        self._grown_owners: dict[int, PartitionOwner] = {}
        self._next_announcement = self._now
        self._replicate(journal)
        self._join()
        self._own(journal, observers)
        self._serve_clients()
        self._connect()

    def _replicate(self, journal: Journal) -> None:
        """Make the parts that replicate logs, of which the catalog is the first."""
        config, damage = self._config, self._events.damage
        random, last_release = self._environment.random, self._peer_formats.of_last_release
        self.host = Host(
            config.raft, journal, self._send, random, config.snapshot_bytes, last_release, damage
        )
        self._followers = Observers()
        self.catalog = Catalog(config, self.host, self._send, self._followers)
        self._groups = RaftGroups(config.node, self.host, self._time)

    def _join(self) -> None:
        """Make the parts for membership and moves."""
        config, events, node = self._config, self._events, self._node
        self.copies = JournalCopies(node, self.catalog, self._time, events.needed)
        self._uptime = Uptime(node, config.front_end, self.catalog, self._peers)
        self.formats = Formats(node, config.front_end, config.domains, self._peer_formats, self.catalog)
        member = ClusterMember(
            node, self.host, self.catalog, self._peers, self._time, self._send, events.wanted
        )
        told = StartEvents(events.rebuilding, events.newest_lost, events.removed, events.members_changed)
        self.bootstrap = Bootstrap(config, member, self._groups.open, told)
        self.mover = Mover(
            member, config.raft.election_timeout_s, self.announced, self.bootstrap.tell_removed
        )

    def _own(self, journal: Journal, observers: NodeObservers) -> None:
        """Make the owners of partitions, and the links of this node's front end to owners."""
        events = self._events
        self.lost_entries = LostEntries(self.catalog.state.queue_name, events.messages_lost)
        self.overdue_epochs = OverdueEpochs(self._config.epoch_timeout_ms, events.epoch_overdue)
        self.overdue_takes = OverdueTakes(self._config.take_timeout_s, events.take_overdue)
        self.overtaken_readers = OvertakenReaders(self.formats.know_readers, events.reader_overtaken)
        tells = TellsLeases(self.formats.know_tokens, self.formats.know_lease_ends)
        context = LinkContext(self._node, self._front_end, self.latencies, tells)
        self.links = Links(context, events.wanted, events.waiting, observers.link)
        self.partitions = Partitions(
            self._config,
            self,
            self.catalog,
            self._groups,
            self.links,
            journal,
            self.lost_entries,
            observers,
            events.wanted,
            self._owner_gone,
        )
        self.owners, self._transient = self.partitions.owners, self.partitions.transient

    def _serve_clients(self) -> None:
        """Make the parts that the front end of this node's clients uses."""
        catalog = CatalogClient(self.catalog, self._time, self._events.wanted)
        gateway = GatewayContext(
            self._config,
            self.catalog,
            catalog,
            self.bootstrap,
            self._peers,
            self.formats,
            self.links,
            self.announced,
        )
        self.local_queues: LocalQueues = LocalQueues(
            self._front_end, catalog, self.owners, self._environment.random_bits
        )
        self.queues = PlacedQueues(gateway, self.local_queues, self.partitions, self._events.past_changed)
        self._sole_replicas, self._lost_memory = SoleReplicas(gateway), LostMemory(gateway)
        self.clients = ClientParts(gateway, self.local_queues, self._lost_memory, self._followers)

    def _connect(self) -> None:
        """Make the parts that reach the owners and front ends of other nodes, or give them up."""
        self._lost_nodes = LostNodes(
            self.catalog, self._peers, self.links, self._sole_replicas, self.partitions.front_end_lost
        )
        self.transit = Transit(
            self._node,
            self.local_queues,
            self.catalog,
            self.partitions.sessions,
            self.links,
            self.announced,
            self._send,
            self._groups.broken_off,
        )
        self.front_ends = KnownFrontEnds(
            self._front_end,
            self.links,
            self.catalog,
            self._peers,
            self._time,
            self.transit,
            self._send,
            self._environment.backlog,
        )
        self.receivers = self._receivers()
        undecided, reachable = self.clients.gateway.undecided, self.mover.reachable
        self._changing_parts = ChangingParts(
            self.catalog, self.formats, self.links, self.owners, self.announced, reachable, undecided
        )
        for one in (self.copies, self.partitions, self._sole_replicas, self.bootstrap, self.local_queues):
            self.follow(one)

    def follow(self, follower: Observer) -> None:
        """Tell an observer of the catalog what changes from now on."""
        self._followers.add(follower)

    def start(self, writer: Writer) -> None:
        """Open the catalog; a partition is opened when the catalog has it."""
        self.host.attach_writer(writer)
        self.bootstrap.admit()

    def wanted(self) -> None:
        """Ask the process for a turn."""
        self._events.wanted()

    @property
    def _now(self) -> float:
        """The time of the present input, in seconds of the node's clock."""
        return self._time.now

    # -- messages of other nodes ----------------------------------------------------------------

    def _receivers(self) -> dict[bytes, tags.Receiver]:
        return {
            **dict.fromkeys((RAFT_TAG, SNAPSHOT_TAG), self.host.receive),
            REPAIR_TAG: self.host.repair.receive,
            tags.TO_OWNER: self._receive_for_owner,
            tags.TO_FRONT_END: self._receive_for_front_end,
            tags.OWNERSHIP: self._receive_announcement,
            tags.CATALOG_REPLICAS: self.catalog.receive,
            tags.ADMISSION: self.bootstrap.receive,
            tags.VOTES: self.mover.receive,
            tags.CONTACTS: self.mover.leader_balance.receive,
        }

    def receive(self, peer: str, parts: Sequence[bytes], now: float) -> None:
        """Take one message of another node, as parts. A message with an unknown tag is ignored.

        Raises MessageError for a malformed one.
        """
        self._time.now = now
        if (receiver := self.receivers.get(bytes(parts[0][:1]))) is not None:
            receiver(peer, parts, now)
        self.wanted()

    def _receive_for_owner(self, _peer: str, parts: Sequence[bytes], now: float) -> None:
        owner = self.owners.get(address(parts)[0])
        if owner is not None:
            self.host.repair.broken_off(partial(receive_for_owner, owner.sessions, parts), now)

    def _receive_for_front_end(self, _peer: str, parts: Sequence[bytes], _now: float) -> None:
        partition, front_end = address(parts)
        if front_end >= FIRST_TRANSIT_ID:
            self.transit.receive(partition, front_end, parts)
        elif front_end == self._front_end and partition in self.links.by_partition:
            receive_for_front_end(self.links.by_partition[partition], parts)

    def _receive_announcement(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        announced = Announcement.decode(parts)
        self._peers.incarnations[peer] = announced.process
        self._peer_formats.heard(peer, announced.formats)
        for partition, term in announced.owned:
            self._owner_announced(partition, peer, term)

    # -- inputs ---------------------------------------------------------------------------------

    def peer_up(self, peer: str, now: float) -> None:
        """There is a connection to the peer."""
        self._time.now = now
        self._peers.up(peer)
        self._announce([peer])
        self.host.peer_up(peer, now)
        self._resync(peer)
        self.wanted()

    def peer_down(self, peer: str, now: float) -> None:
        """The connection to the peer broke; messages on their way may be lost."""
        self._time.now = now
        self._peers.down(peer, now)
        self._peer_formats.peer_down(peer)
        self.host.peer_lost(peer, now)
        self.transit.peer_down(peer)
        self.mover.peer_down(peer)
        for link in self.links.by_partition.values():
            if link.owner_node == peer:
                link.owner_lost()
                self._announced.pop(link.partition, None)
        self._sole_replicas.node_lost(peer)
        self.wanted()

    def peer_gap(self, peer: str, now: float) -> None:
        """Messages of the peer were lost: this node's links greet the peer's owners anew, and this node has
        the peer's links greet its own owners.
        """
        self._time.now = now
        self._resync(peer)
        self._announce([peer])
        if (definition := self.catalog.state.nodes.get(peer)) is not None:
            self.partitions.node_gap(definition)
        self.wanted()

    def durable(self, results: Sequence[tuple[int, int, int]], now: float) -> None:
        """The journal's writer finished a batch: its entries are durable here."""
        self._time.now = now
        self.host.durable(results, now)
        self.wanted()

    def tick(self, now: float) -> None:
        """Advance timers; call it every few milliseconds."""
        self._time.now = now
        self.bootstrap.tick(now)
        self.host.tick(now)
        self.catalog.tick(now)
        self.partitions.tick()
        self.mover.tick(now)
        self.links.flush_waiting()
        for owner in self.owners.values():
            self.host.repair.broken_off(partial(owner.tick, now), now)
        self.host.repair.tick(now)
        self._lost_nodes.tick(now)
        self._lost_memory.tick(now)
        self._uptime.tick(now)
        self.formats.tick(now)
        self._changing_parts.tick(now, self.catalog.leads and self.host.leads(CATALOG, now))
        self._groups.tick(now)
        if now >= self._next_announcement:
            self._next_announcement = now + ANNOUNCE_INTERVAL_S
            self._announce(list(self.connected))
        self.wanted()

    # -- the turn -------------------------------------------------------------------------------

    def turn(self, now: float) -> bool:
        """Flush links and the catalog, propose, append, apply and serve. Returns whether work is left for
        another turn.
        """
        self._time.now = now
        for _ in range(TURN_PASSES):
            self.links.flush()
            if self.catalog.dirty:
                self.catalog.flush(now)
            self._propose()
            self.host.turn(now)
            self._apply_transient()
            if self._dirty_owners:
                light = sum(owner.unserved_octets for owner in self._dirty_owners.values()) < LIGHT_OCTETS
                if light and not self._transient.keys() >= self._dirty_owners.keys():
                    # Confirms of few octets leave before deliveries are served. Those of many wait: their
                    # publishers would send again in small pieces. In transient partitions confirms wait too,
                    # so that a broken connection loses both confirm and delivery, or neither.
                    self._events.decided()
                self._serve()
            dirty = self.links.dirty or self._dirty_owners or self._transient_entries or self.catalog.dirty
            if not dirty:
                break
        self.host.kick(now)
        return bool(dirty)

    def _propose(self) -> None:
        self._dirty_owners.update(self._grown_owners)
        self._grown_owners.clear()
        for owner in list(self._dirty_owners.values()):
            try:
                if not owner.propose():
                    self._grown_owners[owner.partition] = owner
            except DamagedEntryError as error:
                self.host.repair.found(error, self._now)

    def _serve(self) -> None:
        owners, self._dirty_owners = self._dirty_owners, {}
        self.served_at = self._now
        for owner in owners.values():
            self.host.repair.broken_off(partial(owner.serve, self._now), self._now)
            if owner.pending and owner.active and owner.partition not in self._grown_owners:
                # Applied entries have added to the next entry since `_propose`: have another round propose
                # it.
                self._dirty_owners[owner.partition] = owner

    def _apply_transient(self) -> None:
        entries, self._transient_entries = self._transient_entries, []
        for owner, index, data in entries:
            if owner.partition not in self._transient:
                # The catalog has removed the partition, with this node from the cluster, since the proposal.
                continue
            owner.apply(index, data, self._now)
            if self._transient[owner.partition].collection_due:
                self.partitions.collect(owner.partition)

    # -- links and owners -----------------------------------------------------------------------

    def _owner_announced(self, partition: int, node: str, term: int) -> None:
        link = self.links.by_partition.get(partition)
        known = self._announced.get(partition)
        if link is None or known == (node, term) or (known is not None and known[1] > term):
            return
        self._announced[partition] = (node, term)
        if node == self._node:
            link.owner_elected(node, term, self.partitions.sessions(partition))
        else:
            link.owner_elected(node, term, RemoteOwner(partition, partial(self._send, node)))
        self.transit.owner_announced(partition, node)

    def announced(self, partition: int) -> str | None:
        """The node that owns a partition, as far as this node has heard; None if it has heard of none."""
        known = self._announced.get(partition)
        return None if known is None else known[0]

    def _owner_gone(self, partition: int) -> None:
        """This node's replica of the partition, which may have been the owner, is closed."""
        if self._announced.get(partition, ("", 0))[0] == self._node:
            del self._announced[partition]
        link = self.links.by_partition.get(partition)
        if link is not None and link.owner_node == self._node:
            link.owner_lost()

    def _resync(self, peer: str) -> None:
        for link in self.links.by_partition.values():
            # The way from an owner may work, and lose messages, while the way to the owner is broken.
            if link.owner_node in (peer, None):
                link.resync()
        self.transit.resync(peer)

    def _announce(self, peers: Sequence[str]) -> None:
        owned = [(owner.partition, owner.term) for owner in self.owners.values() if owner.active]
        message = Announcement(owned, self._front_end, self.formats.own).encode()
        for peer in peers:
            self._send(peer, message)

    def rewrite(self, partition: int, entry: Entry) -> bytes | None:
        """The data to keep of an entry that the journal copies forward; None keeps all of it."""
        owner = self.owners.get(partition)
        if owner is None or entry.kind != EntryKind.NORMAL:
            return None
        replica, group = self.partitions.replicas[partition], self.host.groups[partition]
        if replica.needs_whole(entry.index, group.log.first_index() - 1):
            return None
        return owner.rewrite(entry.index, entry.data)

    # -- OwnerContext ---------------------------------------------------------------------------

    def propose(self, partition: int, data: bytes) -> int | None:
        if partition not in self._transient:
            try:
                return self.host.propose(partition, data, self._now)
            except NotLeaderError:
                # The leader has stepped down, or is handing over: the owner learns of that in this turn.
                return None
        index = self._transient[partition].append(data)
        self._transient_entries.append((self.owners[partition], index, data))
        return index

    def wall_ms(self) -> int:
        return self._environment.wall_ms()

    def disk_idle(self) -> bool:
        return self.host.idle

    def may_serve(self, partition: int) -> bool:
        return partition in self._transient or self.host.leads(partition, self._clock())

    def handing_over(self, partition: int) -> bool:
        return partition not in self._transient and self.host.groups[partition].raft.handing_over

    def confirm_leading(self, partition: int, number: int) -> bool:
        if partition not in self._transient:
            self.host.read_index(partition, number.to_bytes(8, "big"), self._now)
        return partition in self._transient

    def former_leases_over(self, partition: int) -> bool:
        group = self.host.groups.get(partition)
        over = group is not None and group.raft.former_leases_over(self._clock())
        return over or partition in self._transient

    def owner_active(self, partition: int, term: int) -> None:
        self._owner_announced(partition, self._node, term)
        self._announce(list(self.connected))

    def catalog_fresh(self) -> bool:
        return self.catalog.fresh(self._clock())

    def keeps_remarks(self) -> bool:
        return self.formats.keep_remarks()

    def knows_links(self) -> bool:
        return self.formats.know_links()

    def logs_links(self) -> bool:
        return self.formats.log_links()

    def knows_targets(self) -> bool:
        return self.formats.know_targets()

    def knows_loans(self) -> bool:
        return self.formats.know_loans()

    def keeps_histories(self) -> bool:
        return self.formats.keep_histories()

    def owner_dirty(self, partition: int) -> None:
        if not self._dirty_owners:
            self.wanted()
        owner = self.owners.get(partition)
        if owner is not None:
            self._dirty_owners[partition] = owner
