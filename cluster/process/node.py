"""One node as a process: event loop, journal thread, sockets and timers around the broker."""

from __future__ import annotations

import asyncio
import math
import os
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from cluster.admin.api.services import Services
from cluster.admin.inquiry import Inquiry
from cluster.admin.traces.start import observers, span_exporter
from cluster.admin.views import HealthView, NodeView, PartitionsView, StorageView
from cluster.broker.broker import Broker
from cluster.broker.environment import Environment, NodeEvents
from cluster.broker.front_end import front_end
from cluster.catalog.access.control import Access, Answer
from cluster.catalog.access.records import LoginRules
from cluster.catalog.access.usage import Usage
from cluster.catalog.definitions import NodeDefinition
from cluster.config.formats import ENTITLEMENTS, VERIFIERS_IN_HASHES
from cluster.config.identity import AMQP10_VERSION, server_properties, version
from cluster.config.models import NodeConfig
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.client_limits import client_memory, container_links, gate, session_limits
from cluster.log.event_log import EventLog
from cluster.peers import tags
from cluster.process.administration import Administration
from cluster.process.damage import DamageLog
from cluster.process.declared_queues import FirstStarts, declare_queues
from cluster.process.departure import STEP_S, Departure
from cluster.process.fail_stop import FailStop, fall_silent
from cluster.process.handover import Handover
from cluster.process.hashing import HashingThreads
from cluster.process.joining import Joining, add_command
from cluster.process.journal_archive import JournalArchive
from cluster.process.journal_directory import JournalDirectory
from cluster.process.key_files import KeyFiles
from cluster.process.machine_config import machine_config
from cluster.process.metadata import Metadata
from cluster.process.overdue import OverdueLog
from cluster.process.peers import Peers
from cluster.process.readiness import Readiness, ReadinessView
from cluster.process.scopes import Origin
from cluster.process.shortages import Shortages
from cluster.process.watermarks import Watermarks, trim
from cluster.system.clock import elapsed
from node.session.amqp091.protocol import amqp091
from node.session.amqp091.protocol import connection_limits as amqp091_limits
from node.session.amqp10.protocol import amqp10
from node.session.amqp10.protocol import connection_limits as amqp10_limits
from node.session.listener import Listener
from replication.journal import DamagedEntryError, Journal, JournalConfig, JournalWriter
from replication.raft import Entry
from replication.repair import RepairEvents
from replication.transport import PeerTransport, TransportConfig

TICK_S: Final = 0.02
QUIET_TICK_S: Final = 0.05
"""Seconds between two ticks where no owner had work for as long: such a node does little else than ticks."""

SETTLE_WAIT_S: Final = 0.005
"""Seconds that settlements may wait for a publish to share an entry with; if the node dies meanwhile, their
messages are delivered again."""

COLLECT_INTERVAL_S: Final = 0.25
COLLECT_BYTES: Final = 1024 * 1024
"""Stragglers copied forward in one go, so that collection never holds up a turn for long."""


class NodeProcess:
    """The sockets, the journal's thread and the timers of one node."""

    def __init__(
        self,
        config: NodeConfig,
        loop: asyncio.AbstractEventLoop,
        on_fatal: Callable[[], None],
        restores_users: bool = False,
    ) -> None:
        """`on_fatal` is called when the node has to stop by itself."""
        self.config = config
        self.loop = loop
        self.clock: Callable[[], float] = elapsed
        self.log = EventLog("node")
        self._on_fatal = on_fatal
        self.fail_stop = FailStop(loop, self.log, self._damaged, self._end)
        self.front_end_id = secrets.randbits(62) + 1
        self.listening = self._scheduled = False
        self._next_collection, self._tick_due = 0.0, math.inf
        self._timer: asyncio.TimerHandle | None = None
        self.directory = JournalDirectory(config.data_dir, self.log)
        self.journal, self.metadata = self._open_journal(), Metadata(config.data_dir, self.log)
        self.transport = self._make_transport()
        self.peers = Peers(config, self.transport, self._send, self._members, self._left)
        self.broker = self._make_broker()
        post = loop.call_soon_threadsafe
        self.writer = JournalWriter(self.journal, post, self._durable, self._disk_failed)
        self.archive = JournalArchive(config, self.journal, self.log, post, self.wanted, self.clock, wall_ms)
        self.key_files = KeyFiles(config, self.log)
        self.hashing = HashingThreads(loop, self.fail_stop.of_hashing)
        self.access = self._make_access()
        self.usage = Usage(self.access.state, self._send, lambda: self.broker.connected)
        self.front_end = self._make_front_end()
        self.listener = self._make_listener()
        self.shortages = Shortages(config.name, self._send, lambda: self.broker.connected, self._held_back)
        self.watermarks = Watermarks(config.cluster.alarms, config.data_dir, self.broker.partitions.reclaim)
        self.inquiry = Inquiry(config.name, self._send, lambda: self.broker.connected, self._question_failed)
        self._receivers = self._make_receivers()
        self.add_command = add_command(config, self.transport.config.keys.public)
        self.joining = self._make_joining(restores_users)
        self.readiness = self._make_readiness()
        self.administration = self._make_administration()

    # -- parts ----------------------------------------------------------------------------------

    def _make_access(self) -> Access:
        cluster, formats = self.config.cluster, self.broker.formats
        return Access(
            self.broker.catalog.state.access,
            self.submit,
            self.hashing,
            LoginRules(cluster.loopback_users, cluster.anonymous_user, cluster.scram),
            lambda: formats.everywhere >= VERIFIERS_IN_HASHES,
            self.key_files.token_checks(cluster.tokens, wall_ms),
            lambda: formats.everywhere >= ENTITLEMENTS,
        )

    def _make_joining(self, restores_users: bool) -> Joining:
        state, access = self.broker.catalog.state, self.access
        return Joining(self.config, state, access, self.submit, self.log, self.add_command, restores_users)

    def _make_readiness(self) -> Readiness:
        failure, listening = (lambda: self.fail_stop.failure), (lambda: self.listening)
        broker = self.broker
        view = ReadinessView(
            broker.bootstrap, broker.host, broker.links, broker.catalog.state, self.front_end
        )
        return Readiness(view, failure, listening, self.add_command)

    def _make_view(self) -> NodeView:
        """The view of this node for metrics, status and the management API."""
        broker, shortages, watermarks = self.broker, self.shortages, self.watermarks
        return NodeView(
            self.config,
            self.clock,
            PartitionsView(
                broker.catalog.state,
                broker.host,
                broker.owners,
                broker.local_queues,
                broker.overdue_epochs,
                broker.overdue_takes,
                broker.overtaken_readers,
            ),
            StorageView(
                self.journal,
                broker.host.repair,
                broker.lost_entries,
                lambda: self.directory.set_aside,
                self.archive.figures,
            ),
            HealthView(
                self.readiness.reasons,
                lambda: self.listening,
                lambda: shortages.own,
                watermarks.memory,
                watermarks.disk_free,
            ),
            self.listener,
            self.front_end,
            broker.latencies,
            self.transport,
            lambda: broker.formats.everywhere,
        )

    def _make_services(self) -> Services:
        """The services of this node for the management API."""
        return Services(
            config=self.config,
            version=version(),
            state=self.broker.catalog.state,
            access=self.access,
            front_end=self.front_end,
            inquiry=self.inquiry,
            log=self.log,
            moves=self.broker.mover,
            submit=self.submit,
            connected=lambda: self.broker.connected,
            readiness=self.readiness.reasons,
            shortage=lambda: self.shortages.reason,
            shut_out=self.listener.shut_out,
            spares_node=partial(self.fail_stop.spares_node, origin=Origin.REQUEST),
            login_failed=self.listener.failed,
        )

    def _make_front_end(self) -> FrontEnd:
        settings = self.config.cluster
        return front_end(
            self.broker.clients,
            self.access,
            self.usage,
            settings.limits.connections,
            settings.default_queue_type,
        )

    def _make_listener(self) -> Listener:
        cluster, limits = self.config.cluster, session_limits(self.config)
        node = self.config.name
        names = server_properties(cluster.server_product, cluster.name, node)
        names10 = server_properties(cluster.amqp10_product, cluster.name, node, AMQP10_VERSION)
        protocols = (
            amqp091(self.front_end, amqp091_limits(limits, names), self.clock),
            amqp10(
                self.front_end, amqp10_limits(limits, node, names10), self.clock, container_links(cluster)
            ),
        )
        return Listener(
            protocols,
            limits.handshake_timeout,
            gate(self.config),
            client_memory(self.config),
            self.log,
            self.clock,
            self.wanted,
            partial(self.fail_stop.spares_node, origin=Origin.SESSION),
        )

    def _make_receivers(self) -> dict[bytes, tags.Receiver]:
        """The receivers of other nodes' messages, by tag."""
        receivers: dict[bytes, tags.Receiver] = dict.fromkeys(self.broker.receivers, self.broker.receive)
        receivers[tags.INQUIRY] = self.inquiry.receive
        receivers[tags.CLIENT_COUNTS] = self.usage.receive
        receivers[tags.SHORTAGE] = self.shortages.receive
        receivers[tags.MEMBERS] = self.peers.receive
        return receivers

    def _open_journal(self) -> Journal:
        settings = self.config.cluster.journal
        archived = self.config.archive_directory is not None
        config = JournalConfig(settings.segment_bytes, cache_bytes=settings.cache_bytes, archived=archived)
        return self.directory.open(config, self._rewrite)

    def _make_administration(self) -> Administration:
        return Administration(
            self._make_view(), self._make_services(), self.key_files.certificates, self.wanted
        )

    def _make_transport(self) -> PeerTransport:
        config = self.config
        settings = TransportConfig(
            config.name, config.cluster.name, str(config.listen.peers), keys=config.curve_keys()
        )
        return PeerTransport(
            settings,
            self.front_end_id,
            on_message=self._receive,
            on_up=self._peer_up,
            on_down=lambda peer: self.broker.peer_down(peer, self.clock()),
            on_gap=lambda peer: self.broker.peer_gap(peer, self.clock()),
        )

    def _peer_up(self, peer: str) -> None:
        self.broker.peer_up(peer, self.clock())
        self.peers.greet(peer)

    def _make_broker(self) -> Broker:
        self.spans = span_exporter(self.config.traces, self.config.name, self.config.cluster.name)
        config = machine_config(self.config, self.front_end_id, self.journal, self.directory)
        send, backlog, bits = self.transport.send, self.transport.backlog, secrets.randbits
        new_space = self.metadata.new_space
        environment = Environment(send, backlog, self.clock, wall_ms, random.random, bits, new_space)
        return Broker(config, self.journal, environment, self._events(), observers(self.spans))

    def _events(self) -> NodeEvents:
        damage = DamageLog(self.log)
        # The broker has its catalog before the first event.
        overdue = OverdueLog(self.log, lambda queue: self.broker.catalog.state.queue_name(queue))
        return NodeEvents(
            wanted=self.wanted,
            decided=self._flush,
            waiting=self._settle_soon,
            members_changed=self.peers.follow,
            needed=self.directory.note_needed,
            rebuilding=partial(self.directory.begin_rebuilding, self.config.joins),
            newest_lost=self.directory.note_newest_lost,
            removed=self._leave,
            damage=RepairEvents(damage.found, damage.repaired),
            messages_lost=damage.lost,
            epoch_overdue=overdue.epoch,
            take_overdue=overdue.take,
            reader_overtaken=overdue.reader,
            past_changed=overdue.past,
        )

    def _rewrite(self, partition: int, entry: Entry) -> bytes | None:
        return self.broker.rewrite(partition, entry)

    def _send(self, peer: str, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message outside the broker's turns."""
        self.transport.send(peer, parts)
        self.wanted()

    def _receive(self, peer: str, parts: list[bytes]) -> None:
        if self._failed:
            return
        try:
            self._take(peer, parts)
        except Exception as error:
            self.fail_stop.of_message(error, peer, parts[0][:1])

    def _take(self, peer: str, parts: list[bytes]) -> None:
        receive = self._receivers.get(parts[0][:1])
        if receive is not None:
            receive(peer, parts, self.clock())

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the cluster and listen; returns once clients may connect."""
        self.transport.start(self.loop)
        self.peers.start()
        await self.administration.http.start()
        self.broker.start(self.writer)
        self._tick()
        await self.joining.join(self.broker.formats.incarnation)
        starts = FirstStarts(self.broker.catalog.state.members, self.broker.formats.know_argument)
        self.broker.follow(starts)
        await declare_queues(self.config.cluster, self.front_end, starts, self.log)
        address = self.config.listen.amqp
        await self.listener.start(address.host, address.port)
        ports = {"amqp": str(address), "http": str(self.config.listen.http)}
        if self.config.listen.https is not None:
            ports["https"] = str(self.config.listen.https)
        if self.key_files.certificates is not None:
            encrypted = self.config.listen.amqps
            await self.listener.start_tls(encrypted.host, encrypted.port, self.key_files.certificates)
            ports["amqps"] = str(encrypted)
        self.log.info("listening", **ports, pid=os.getpid())
        self.listening = True

    def submit(self, name: str, arguments: dict[str, Any], answer: Answer) -> None:
        """Submit a command to the catalog from outside a turn; see `Catalog.submit`."""
        self.broker.catalog.submit(name, arguments, answer)
        self.wanted()

    async def stop(self) -> None:
        """Hand over, close clients' connections and sockets, and let the journal finish its batch."""
        started, self.listening = self.listening, False
        if started and not self._failed:
            await self._depart()
        self.listener.stop()
        if not self._failed:
            self.broker.links.flush_waiting()
            self.broker.turn(self.clock())
        await self.administration.http.stop()
        if self._timer is not None:
            self._timer.cancel()
        if not self._failed:
            self.transport.flush()
        self.transport.close()
        self.archive.close()
        self.writer.close()
        self.journal.close()
        self.metadata.close()
        self.hashing.close()
        if self.spans is not None:
            self.spans.close()
        if not self._failed:
            self.log.info("stopped")

    async def _depart(self) -> None:
        def handed_over(in_time: bool) -> None:
            self.log.info("handed_over", complete=in_time)

        broker = self.broker
        handover = Handover(broker.host, lambda: broker.connected)
        departure = Departure(handover, broker.links, self.listener, broker.wanted, handed_over, self.clock())
        while not departure.step(self.clock()):
            await asyncio.sleep(STEP_S)

    # -- the turn -------------------------------------------------------------------------------

    def wanted(self) -> None:
        """Have the event loop run a turn, after the callbacks that are ready now."""
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._failed:
            return
        if self.broker.turn(self.clock()):
            self.wanted()
        self._flush()
        if self.writer.write_held():
            # The leader waits for the acknowledgements; all other effects are for the next turn.
            self.transport.flush()

    def _settle_soon(self) -> None:
        self.loop.call_later(SETTLE_WAIT_S, self._settle)

    def _settle(self) -> None:
        if not self._failed:
            self.broker.links.flush_waiting()
            self.wanted()

    def _flush(self) -> None:
        # Appends first: followers should be writing while confirms and deliveries go out.
        self.transport.flush()
        self.listener.flush()

    def _tick(self) -> None:
        if self._failed:
            return
        now = self.clock()
        self.broker.tick(now)
        self.front_end.tick(now)
        self.listener.tick()
        self.administration.tick(now, late=max(0.0, now - self._tick_due))
        if now >= self._next_collection:
            self._next_collection = now + COLLECT_INTERVAL_S
            self.journal.collect(COLLECT_BYTES)
            self.archive.tick(now)
            self._end_rebuilding()
            if not self.directory.copied and self.broker.copies.complete:
                self.directory.note_copied()
            if self.listener.memory.fell():
                trim()
            self.shortages.noticed(self.watermarks.crossed(), now)
        self.key_files.tick(now)
        pause = TICK_S if now < self.broker.served_at + QUIET_TICK_S else QUIET_TICK_S
        self._tick_due = self.clock() + pause
        self._timer = self.loop.call_later(pause, self._tick)

    def _end_rebuilding(self) -> None:
        """Let this node vote again, also after a restart, once everything lost is back."""
        host = self.broker.host
        if host.rebuilding and self.listening and self.broker.partitions.whole:
            host.rebuilt()
            self.directory.end_rebuilding()

    def _held_back(self, reason: str | None) -> None:
        """Hold publishers back, or let them go on."""
        self.log.warning("resource_alarm", reason=reason, nodes=self.shortages.plain())
        self.listener.alarm(reason)

    def reload(self) -> None:
        """Read the files of the certificate and of the keys of tokens again. Called on SIGHUP."""
        self.key_files.reload()

    def _leave(self) -> None:
        """End the node, which was removed from the cluster: no queue and no replica is on it any more."""
        self.log.warning("removed", reason="this node is no member of the cluster any more")
        self._on_fatal()

    def _question_failed(self, error: Exception, question: str) -> None:
        """A question of another node could not be answered: only that request fails."""
        if self.fail_stop.spares_node(error, Origin.REQUEST):
            self.log.error("question_failed", error, question=question)

    def _members(self) -> Mapping[str, NodeDefinition]:
        return self.broker.catalog.state.nodes

    def _left(self, peer: str) -> None:
        """The transport has disconnected from the peer for good."""
        if peer in self.broker.connected:
            self.broker.peer_down(peer, self.clock())

    def _damaged(self, error: DamagedEntryError) -> None:
        self.broker.host.repair.found(error, self.clock())

    def _end(self, error: BaseException) -> None:
        """See `FailStop.end`."""
        fall_silent(error, self.broker.host, self.transport, self.listener.clients.values())
        self._on_fatal()

    @property
    def _failed(self) -> bool:
        return self.fail_stop.failure is not None

    def _durable(self, results: list[tuple[int, int, int]]) -> None:
        if not self._failed:
            self.broker.durable(results, self.clock())

    def _disk_failed(self, error: OSError) -> None:
        """End the node: after a failed write or fsync its log must not be acknowledged any more."""
        self.fail_stop.end(error, "the journal's disk")


def wall_ms() -> int:
    """The time of day, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
