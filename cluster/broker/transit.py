"""Dead letters between partitions: the queues to which they are routed, and the links that carry them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cluster.broker.local_ports import BrokenOff, LocalTransfers
from cluster.catalog.definitions import parse_local_queue_name
from cluster.catalog.owner_parts import known_as
from cluster.catalog.replica import Catalog
from cluster.gateway.link import Links
from cluster.gateway.local_queues import LocalQueues
from cluster.owner.context import DeadLetterQueue
from cluster.owner.transfers import ALL_TRANSFER_LINKS, FIRST_TRANSIT_ID, TransferLink
from cluster.peers.link_messages import (
    FrontEndPort,
    OwnerPort,
    RemoteFrontEnd,
    RemoteOwner,
    receive_for_front_end,
)
from node.message.run import Run
from node.queue.transfers import Transfer
from node.refusal import NotFoundError
from node.routing.exchange import DEFAULT_EXCHANGE
from replication.repair import Send


class Transit:
    """The transfer links of the partitions that this node owns, by source and destination."""

    def __init__(
        self,
        node: str,
        local: LocalQueues,
        catalog: Catalog,
        sessions: Callable[[int], OwnerPort],
        gateway: Links,
        announced: Callable[[int], str | None],
        send: Send,
        broken_off: BrokenOff,
    ) -> None:
        """`sessions` gives the sessions of an owner on this node. `gateway` has the links of this node's
        front end. `announced` names the node that owns a partition.
        """
        self._node, self._local, self._catalog = node, local, catalog
        self._sessions, self._gateway, self._announced, self._send = sessions, gateway, announced, send
        self._broken_off = broken_off
        self._links: dict[tuple[int, int], TransferLink] = {}

    # -- routing --------------------------------------------------------------------------------

    def targets(
        self, vhost: str, exchange: str, keys: Sequence[str], headers: Callable[[], Mapping[str, Any]]
    ) -> list[DeadLetterQueue]:
        """The queues to which an exchange routes a dead letter, by name; none where there is no such
        exchange.

        `headers` is called only where routes depend on headers.
        """
        state = self._catalog.state
        try:
            exchanges = state.vhost(vhost).exchanges
            given = headers() if exchanges.uses_headers(exchange) else None
            names = set(exchanges.route(exchange, keys[0], given, keys[1:]))
        except NotFoundError:
            return []
        if exchange == DEFAULT_EXCHANGE:
            names.update(keys)
        there = state.parts.routed(vhost, names, self._node) if state.parts.by_name else names
        if state.owner_parts.by_name:
            there = state.owner_parts.routed(vhost, there, self._node, self._announced)
        found = [self._target(vhost, name) for name in sorted(state.topics.spread(vhost, there))]
        return [one for one in found if one is not None and one.partition in state.partitions]

    def _target(self, vhost: str, name: str) -> DeadLetterQueue | None:
        local = parse_local_queue_name(name)
        if local is not None:
            there = self._local.may_be_there(local, vhost)
            return DeadLetterQueue(name, local.partition, local.queue) if there else None
        queue = self._catalog.state.queues.get((vhost, name))
        return None if queue is None else DeadLetterQueue(known_as(queue)[1], queue.partition, queue.id)

    def queue_name(self, queue: int) -> tuple[str, str] | None:
        """A queue's virtual host and name; None where this node does not know the queue."""
        defined = self._catalog.state.queues_by_id.get(queue)
        return self._local.names.get(queue) if defined is None else known_as(defined)

    def gone(self, partition: int) -> bool:
        """Whether the partition is gone for good. False while this node's catalog may be behind."""
        # The catalog may not have a partition yet that another node uses already: its number is a later one.
        state = self._catalog.state
        return partition <= state.table.last and partition not in state.partitions

    def publish_soft(self, partition: int, run: Run, queues: Sequence[int]) -> None:
        """Publish transient dead letters to queues of another partition, without confirms.

        Where the link to that partition is full, or its owner is unreachable, the dead letters are dropped.
        """
        link = self._gateway.to(partition)
        if not (link.unreachable or link.full):
            link.publish(run, list(queues), None, dead_letters=True)

    # -- links ----------------------------------------------------------------------------------

    def link(
        self,
        source: int,
        partition: int,
        term: int,
        contents: Callable[[Transfer], bytes | None],
        arrived: Callable[[int], None],
    ) -> TransferLink:
        """A new link from a partition that this node owns to another one."""
        link = TransferLink(source, partition, self._node, term, contents, arrived)
        self._links[source, partition] = link
        announced = self._announced(partition)
        if announced is not None:
            link.owner_elected(announced, self._owner_port(partition, announced))
        return link

    def close(self, source: int, partition: int | None = None) -> None:
        """Drop the links of a source that this node owns no more; with `partition` only the link to it."""
        for key in [key for key in self._links if key[0] == source and partition in (None, key[1])]:
            del self._links[key]

    def _owner_port(self, partition: int, node: str) -> OwnerPort:
        if node == self._node:
            return self._sessions(partition)
        return RemoteOwner(partition, partial(self._send, node))

    def _to(self, partition: int) -> list[TransferLink]:
        return [link for (_, destination), link in self._links.items() if destination == partition]

    def owner_announced(self, partition: int, node: str) -> None:
        """A node has become the owner of a partition: the links to that partition greet it."""
        for link in self._to(partition):
            self._broken_off(partial(link.owner_elected, node, self._owner_port(partition, node)))

    def peer_down(self, peer: str) -> None:
        """The connection to the peer broke: links to owners there wait for another owner."""
        for link in self._links.values():
            if link.owner_node == peer:
                link.owner_lost()

    def resync(self, peer: str) -> None:
        """Messages to or from the peer were lost: greet the owners on it anew."""
        for link in list(self._links.values()):
            if link.owner_node == peer:
                self._broken_off(link.resync)

    # -- the other end --------------------------------------------------------------------------

    def port(self, partition: int, front_end: int, node: str) -> FrontEndPort | None:
        """The way back to the partition on `node` that sends dead letters to `partition`; None if unknown."""
        if node == self._node:
            link = self._links.get((front_end - FIRST_TRANSIT_ID, partition))
            return None if link is None else LocalTransfers(link, self._broken_off)
        return RemoteFrontEnd(partition, front_end, partial(self._send, node))

    def receive(self, partition: int, front_end: int, parts: Sequence[bytes]) -> None:
        """Hand an owner's call to the transfer link that it is for, or to all of them to the partition."""
        if front_end == ALL_TRANSFER_LINKS:
            for link in self._to(partition):
                self._broken_off(partial(receive_for_front_end, link, parts))
            return
        link_there = self._links.get((front_end - FIRST_TRANSIT_ID, partition))
        if link_there is not None:
            self._broken_off(partial(receive_for_front_end, link_there, parts))
