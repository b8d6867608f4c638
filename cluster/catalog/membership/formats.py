"""The formats that a node may write: every node that reads them must understand them (docs/decisions/0020).

`cluster.config.formats.FORMAT_LEVEL` counts the releases that brought a new message between nodes or a new
format in a replicated log. A node tells its level twice: to each peer in the first message on a connection,
and to the catalog with `start_node`. A release from before that tells no level, and counts as level 0. A node
reads the formats of its own level and of all lower ones.

- For a message to one peer, `of(peer)` is the level that the peer has told on this very connection. It gates
  new kinds of messages between two nodes.
- For a log, a snapshot or the catalog, `everywhere` is the lowest level of all members, those that are down
  included. It gates new commands of the catalog, new operations, and new fields of entries. It falls again
  when a node goes back to the last release, so the writer asks for it each time that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.catalog.replica import Catalog
from cluster.config.formats import (
    ARGUMENT_LEVELS,
    BACKLOGS_IN_TERMS,
    BATCHES,
    BLAKE3_DIGESTS,
    CANCELS_IN_RETURNS,
    CHANGED_POINTS,
    CHANGED_TERMS,
    DOMAINS,
    ENDS_OF_TAKES,
    EPOCHS,
    ERRORS_OF_REJECTIONS,
    KEPT_TARGETS,
    KEYS_OF_ROWS,
    LEASE_ENDS,
    LEASE_TOKENS,
    LINKS_IN_LOGS,
    LINKS_IN_TERMS,
    LOANS_BY_FILTER,
    MAJORITIES_IN_VOTES,
    MOVED_MESSAGES,
    NOTES_IN_LOGS,
    QUEUE_EXPRESSIONS,
    READERS_OF_STREAMS,
    REMARKS,
    RENAMED_QUEUES,
    SEVERAL_OWNERS,
    TAKES_IN_LOGS,
    UNDONE,
    VIEWS,
    VIEWS_OF_PARTS,
)


class PeerFormats:
    """The format levels of connected peers. `own` is the level that this node tells others, as configured."""

    def __init__(self, own: int) -> None:
        self.own = own
        self._peers: dict[str, int] = {}

    def of(self, peer: str) -> int:
        """The level of formats that may be sent to a peer; 0 before the peer has told its level."""
        return min(self.own, self._peers.get(peer, 0))

    def of_last_release(self, peer: str) -> bool:
        """Whether a peer does not read the requests for votes of this release."""
        return self.of(peer) < MAJORITIES_IN_VOTES

    def heard(self, peer: str, formats: int) -> None:
        """A peer has told its level."""
        self._peers[peer] = formats

    def peer_down(self, peer: str) -> None:
        """Forget the peer's level: at the next connection the peer may run another release."""
        self._peers.pop(peer, None)


class Formats:
    """The format level of all members. Keeps this node's own level, and its domains, in the catalog."""

    def __init__(
        self, node: str, front_end: int, domains: Sequence[str], peers: PeerFormats, catalog: Catalog
    ) -> None:
        self._node = node
        self._front_end = front_end
        self._domains = list(domains)
        self._peers = peers
        self._catalog = catalog
        self._upgrades = 0
        self._asked = False

    @property
    def own(self) -> int:
        """The level that this node tells others: what it reads, unless the configuration lowers it."""
        return self._peers.own

    @property
    def incarnation(self) -> dict[str, Any]:
        """The arguments of the catalog's command with which this process tells what it is, without its
        addresses.
        """
        return {
            "name": self._node,
            "front_end": self._front_end,
            "formats": self.own,
            "domains": self._domains,
        }

    @property
    def everywhere(self) -> int:
        """The level that all members read, as far as this node's replica of the catalog knows."""
        return min(self._peers.own, self._catalog.state.members.formats_of_all)

    def know_tokens(self) -> bool:
        """Whether all members read tokens of leases, which operations of front ends may have then."""
        return self.everywhere >= LEASE_TOKENS

    def know_lease_ends(self) -> bool:
        """Whether all members read the ends of leases."""
        return self.everywhere >= LEASE_ENDS

    def keep_remarks(self) -> bool:
        """Whether all members read octets about messages, which logs and operations of front ends may have
        then.
        """
        return self.everywhere >= REMARKS

    def know_errors(self) -> bool:
        """Whether all members read the errors with which clients reject messages."""
        return self.everywhere >= ERRORS_OF_REJECTIONS

    def know_links(self) -> bool:
        """Whether all members read links in the terms of consumers, and messages that are kept for links."""
        return self.everywhere >= LINKS_IN_TERMS

    def log_links(self) -> bool:
        """Whether all members read in the terms of consumers that the log has which consumer a link has, and
        in transactions the tags of deliveries.
        """
        return self.everywhere >= LINKS_IN_LOGS

    def know_cancels(self) -> bool:
        """Whether all members tell a client's word that a delivery has failed from other failed ones."""
        return self.everywhere >= CANCELS_IN_RETURNS

    def know_backlogs(self) -> bool:
        """Whether all members read backlogs in the terms of consumers."""
        return self.everywhere >= BACKLOGS_IN_TERMS

    def know_expressions(self) -> bool:
        """Whether all members read the expressions of queues, and filter what enters a queue."""
        return self.everywhere >= QUEUE_EXPRESSIONS

    def know_argument(self, name: str) -> bool:
        """Whether all members carry out the argument of queues with this name."""
        return self.everywhere >= ARGUMENT_LEVELS.get(name, 0)

    def know_changed_points(self) -> bool:
        """Whether all members fill queues over streams once more that get another recovery point."""
        return self.everywhere >= CHANGED_POINTS

    def know_moves(self) -> bool:
        """Whether all members carry out transactions that move messages from queue to queue."""
        return self.everywhere >= MOVED_MESSAGES

    def know_undoing(self) -> bool:
        """Whether all members bring messages back that have left a queue."""
        return self.everywhere >= UNDONE

    def know_views(self) -> bool:
        """Whether all members have views in the catalog, and over the queues that they own."""
        return self.everywhere >= VIEWS

    def know_views_of_parts(self) -> bool:
        """Whether all members have views over queues with several owners."""
        return self.everywhere >= VIEWS_OF_PARTS

    def know_row_keys(self) -> bool:
        """Whether all members tell the keys of the rows of views."""
        return self.everywhere >= KEYS_OF_ROWS

    def know_batches(self) -> bool:
        """Whether all members carry out batches of commands in the catalog."""
        return self.everywhere >= BATCHES

    def know_renaming(self) -> bool:
        """Whether all members give queues other names in batches of commands."""
        return self.everywhere >= RENAMED_QUEUES

    def keep_histories(self) -> bool:
        """Whether all members read notes for histories, which logs and snapshots may have then."""
        return self.everywhere >= NOTES_IN_LOGS

    def know_blake3(self) -> bool:
        """Whether all members read logs and snapshots with digests of BLAKE3."""
        return self.everywhere >= BLAKE3_DIGESTS

    def know_domains(self) -> bool:
        """Whether all members place queues in domains, and with a certain owner."""
        return self.everywhere >= DOMAINS

    def know_loans(self) -> bool:
        """Whether all members take and give loans between the owners of one queue, which logs and operations
        may have then.
        """
        return self.everywhere >= SEVERAL_OWNERS

    def lend_by_filter(self) -> bool:
        """Whether all members lend the messages that a filter takes."""
        return self.everywhere >= LOANS_BY_FILTER

    def know_changed_terms(self) -> bool:
        """Whether all members let front ends change the terms of consumers."""
        return self.everywhere >= CHANGED_TERMS

    def know_epochs(self) -> bool:
        """Whether all members carry out the epochs of sinks."""
        return self.everywhere >= EPOCHS

    def know_takes(self) -> bool:
        """Whether all members hold messages for readers."""
        return self.everywhere >= TAKES_IN_LOGS

    def know_ends_of_takes(self) -> bool:
        """Whether all members read the position behind a take in requests for takes."""
        return self.everywhere >= ENDS_OF_TAKES

    def know_readers(self) -> bool:
        """Whether all members read logs and snapshots with readers of streams."""
        return self.everywhere >= READERS_OF_STREAMS

    def know_targets(self) -> bool:
        """Whether all members read the targets that queues keep, which logs and operations of front ends may
        have then.
        """
        return self.everywhere >= KEPT_TARGETS

    def tick(self, now: float) -> None:
        """Submit this node's level and domains again where a replica of the catalog may not have them.

        A replica of level 0 drops the levels of all nodes from its snapshots, and one below 24 the domains.
        When its node has started with a newer release, every node submits its own again, behind that start
        in the log.
        """
        members, node, own = self._catalog.state.members, self._node, self._peers.own
        known = members.nodes.get(node)
        if known is None or known.front_end != self._front_end:
            self._upgrades = members.upgrades
        elif not self._asked and (
            members.upgrades != self._upgrades
            or members.formats.get(node, 0) != own
            or members.domains.get(node) != self._domains
        ):
            self._asked, self._upgrades = True, members.upgrades
            self._catalog.submit("start_node", self.incarnation, self._answered)

    def _answered(self, _value: Any, _refusal: Any) -> None:
        self._asked = False
