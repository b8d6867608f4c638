"""Format levels: the level that this release reads, and the lowest level for each newer format.

`cluster.catalog.membership.formats` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from node.message.streams import (
    BESIDE_RECOVERY_POINT,
    STREAM_TYPE,
    X_DEFAULT_PUBLISH_TARGET,
    X_HISTORY,
    X_QUEUE_TYPE,
    X_RECOVERY_POINT,
    X_SUBSCRIPTION,
    X_UNDERLYING_TOPIC,
    X_VIEW,
)
from node.queue.placement_arguments import EACH_NODE, X_DOMAIN, X_INITIAL_OWNER, X_OWNERS, X_REPLICATION

FORMAT_LEVEL: Final = 44
"""The highest level that this release reads. With level 1 nodes tell their levels, seal queues, put several
commands into one entry of the catalog's log, and tell in requests for votes whether every majority has the
candidate. Operations may have messages with routing keys of their own. With level 2 they may have messages
of AMQP 1.0. With level 3 hashes of passwords in the catalog may have SCRAM verifiers. With level 4 the terms
of consumers may have filters. With level 5 deliveries, settlements and greetings may have tokens of
leases. With level 6 returns of messages may have annotations, and logs and snapshots octets about messages.
With level 7 the terms of consumers may name a link for which the queue keeps messages. With level 8 logs and
snapshots may have the targets of links on which clients send, and count the messages that clients give back.
With level 9 deliveries and greetings may have the ends of leases.
With level 10 the terms of consumers may have backlogs.
With level 11 filters may have paths into bodies and functions, and queues may have filters.
With level 12 queues may have priority expressions.
With level 13 transactions may move messages that wait in a queue.
With level 14 logs may have which consumer a link has, and the terms of consumers that this is so; and
transactions may have the tags of deliveries whose targets are kept.
With level 15 front ends may change the terms of consumers, gets may have filters, and permissions too.
With level 16 queues may have templates for their dead letters, target depths and barriers.
With level 17 there are streams, and queues over them. With level 18 queues may be over a pattern of streams.
With level 19 queues may keep a history, and clients may bring messages back that have left a queue.
With level 20 queues may keep the last message of each key, streams state an expiration for queues over them,
and readers of streams have subscriptions. With level 21 the catalog has views over queues.
With level 22 logs have notes for histories, and partitions keep whole entries and digests for them.
With level 23 rejections of messages may have the client's error.
With level 24 partitions may be in a domain of nodes, queues name their first owner, and nodes have parts of
local queues.
With level 25 queues may have several owners, which lend each other messages.
With level 26 the catalog carries out batches of commands, and queues that decide about each message have the
past of their stream.
With level 27 partitions have the ledgers of sinks, and decide branches of epochs.
With level 28 queues hold messages for readers, in takes.
With level 29 streams have readers for which retention waits, and count the messages that it removes.
With level 30 the catalog keeps barriers under names, and nodes filter the messages of a log for its readers.
With level 31 batches of commands rename queues.
With level 32 queues may have a part for each node, and parts come and go with the nodes.
With level 33 owners tell the keys of the rows of views.
With level 34 takes of readers may have an end.
With level 38 policies may state recovery points, and logs have those of queues over streams.
With level 39 the digests of entries are those of BLAKE3.
With level 40 queues with several owners may have barriers.
With level 41 the owners of one queue lend each other the messages that a filter takes.
With level 42 owners of streams send their messages to queues over patterns with a recovery point.
With level 43 views feed streams.
With level 44 there are views over queues with several owners.
"""

METHODS_IN_RUNS: Final = 1
"""From this level on nodes read runs whose messages state their routing keys each
(`node.message.run.OWN_METHODS`).
"""

SECTIONS_IN_RUNS: Final = 2
"""From this level on nodes read runs of messages of AMQP 1.0 (`node.wire.formats.AMQP_1_0`)."""

VERIFIERS_IN_HASHES: Final = 3
"""From this level on nodes read hashes of passwords with SCRAM verifiers, and the key of decoys beside them
(`cluster.config.passwords`).
"""

FILTERS_IN_TERMS: Final = 4
"""From this level on nodes read filters in the terms of consumers, and in the questions of browsing ones."""

LEASE_TOKENS: Final = 5
"""From this level on nodes read tokens of leases in deliveries, in settlements of front ends, and in the
leases that front ends tell.
"""

LEASE_ENDS: Final = 9
"""From this level on nodes read the ends of leases in deliveries, and in the leases that front ends tell."""

REMARKS: Final = 6
"""From this level on nodes read annotations in returns of front ends, and octets about messages in logs and
snapshots (`node.queue.remarks`).
"""

LINKS_IN_TERMS: Final = 7
"""From this level on nodes read links in the terms of consumers, and logs and snapshots that have which
messages a queue keeps for a link (`node.queue.link_leases`).
"""

CANCELS_IN_RETURNS: Final = 8
"""From this level on nodes read returns of messages that tell a client's word that the delivery has failed
from other failed deliveries, and logs that count these (`node.queue.features.attempts`).
"""

KEPT_TARGETS: Final = 8
"""From this level on nodes read logs, snapshots and operations of front ends that have the targets which a
queue keeps for the links of clients that send (`node.queue.targets`).
"""

BACKLOGS_IN_TERMS: Final = 10
"""From this level on nodes read backlogs in the terms of consumers (`node.delivery.backlog`)."""

QUEUE_EXPRESSIONS: Final = 11
"""From this level on nodes read filters with paths and functions (`node.expressions.names.Dialect.QUEUE`),
and owners filter what enters a queue by its argument `x-filter`.
"""

DOMAINS: Final = 24
"""From this level on nodes carry out declarations of queues that place a queue in a domain of nodes, or with
a certain owner (`cluster.catalog.domains`), and lead the name of a local queue to their own part
(`cluster.catalog.local_parts`).
"""

SEVERAL_OWNERS: Final = 25
"""From this level on nodes carry out declarations of queues with several owners
(`cluster.catalog.owner_parts`), and owners take and give loans (`cluster.owner.loans`).
"""

LOANS_BY_FILTER: Final = 41
"""From this level on owners lend the messages that a filter takes (`cluster.owner.loans_by_filter`)."""

PARTS_OF_NODES: Final = 32
"""From this level on nodes carry out declarations of queues with a part for each node, and the catalog's
commands about such parts (`cluster.catalog.node_parts`).
"""

BARRIERS_OF_PARTS: Final = 40
"""From this level on nodes read logs in which each part of a queue with several owners has the queue's
barriers (`cluster.owner.barriers_of_parts`).
"""

ARGUMENT_LEVELS: Final[Mapping[str, int]] = {
    "x-filter": QUEUE_EXPRESSIONS,
    "x-priority-expression": 12,
    "x-dead-letter-template": 16,
    "x-target-queue-depth": 16,
    "x-barrier-expression": 16,
    f"{X_QUEUE_TYPE}: {STREAM_TYPE}": 17,
    X_UNDERLYING_TOPIC: 17,
    X_RECOVERY_POINT: 17,
    X_DEFAULT_PUBLISH_TARGET: 18,
    X_HISTORY: 19,
    "x-key": 20,
    "x-message-ttl of a stream": 20,
    X_SUBSCRIPTION: 20,
    X_VIEW: 43,
    X_DOMAIN: DOMAINS,
    X_INITIAL_OWNER: DOMAINS,
    X_REPLICATION: DOMAINS,
    X_OWNERS: SEVERAL_OWNERS,
    f"{X_OWNERS}: {EACH_NODE}": PARTS_OF_NODES,
    f"x-barrier-expression beside {X_OWNERS}": BARRIERS_OF_PARTS,
    **{f"{X_RECOVERY_POINT} beside {name}": 26 for name in BESIDE_RECOVERY_POINT},
    f"{X_RECOVERY_POINT} beside {X_DEFAULT_PUBLISH_TARGET}": 42,
}
"""From these levels on owners carry out the arguments of queues with these names, or the value behind one, or
the argument of the queues, or beside the argument, that are named there; X_SUBSCRIPTION is an argument of
consumers.
"""

CHANGED_POINTS: Final = 38
"""From this level on owners fill queues over streams once more that get another recovery point, and log which
point has counted (`cluster.owner.recovery_points`).
"""

MOVED_MESSAGES: Final = 13
"""From this level on owners show messages that wait, by their numbers and by a filter, and carry out
transactions that move them (`node.queue.transaction_operations.MOVES`).
"""

UNDONE: Final = 19
"""From this level on owners take references to messages from front ends, and partitions carry out those that
name messages which the queue has (`node.queue.operations.Refer`).
"""

VIEWS_OF_PARTS: Final = 44
"""From this level on the catalog has views over queues with several owners, and owners tell what is to be
merged of the rows of their parts (`cluster.gateway.views_of_parts`).
"""

VIEWS: Final = 21
"""From this level on nodes carry out the catalog's commands about views, and owners have views."""

KEYS_OF_ROWS: Final = 33
"""From this level on owners tell the keys of a view's rows, for links on which clients follow views."""

BATCHES: Final = 26
"""From this level on nodes carry out the catalog's command `batch` (`cluster.catalog.batches`)."""

RENAMED_QUEUES: Final = 31
"""From this level on nodes carry out the step `rename` of the catalog's command `batch`
(`cluster.catalog.renaming`).
"""

NOTES_IN_LOGS: Final = 22
"""From this level on nodes read logs that have notes for histories (`node.queue.history_notes`), and
snapshots with digests, and carry out declarations of queues that place those with a history apart.
"""

BLAKE3_DIGESTS: Final = 39
"""From this level on nodes read logs that say from which entry on digests are those of BLAKE3, and snapshots
with such digests (`node.queue.chronicle`).
"""

ERRORS_OF_REJECTIONS: Final = 23
"""From this level on nodes read annotations in discards of front ends: the errors that clients tell."""

EPOCHS: Final = 27
"""From this level on nodes read logs and snapshots with the steps of epochs (`node.queue.epoch_operations`),
and owners keep the branches of epochs until their ledger decides them.
"""

TAKES_IN_LOGS: Final = 28
"""From this level on nodes read logs and snapshots with the steps of takes (`node.queue.take_operations`)."""

ENDS_OF_TAKES: Final = 34
"""From this level on owners take from front ends the position behind all messages of a take."""

READERS_OF_STREAMS: Final = 29
"""From this level on nodes read logs and snapshots with the readers of streams, and with the number of
messages that retention has removed (`node.queue.subscriptions`).
"""

BARRIERS_AND_FILTERS: Final = 30
"""From this level on nodes carry out the catalog's commands about barriers (`cluster.catalog.kept_cuts`), and
filter the messages of a log for readers that ask so.
"""

LINKS_IN_LOGS: Final = 14
"""From this level on nodes read, in the terms of a consumer, that the log has that the consumer has its link
(`cluster.owner.attached_links`), and in transactions the tags of deliveries (`node.queue.targets`).
"""

CHANGED_TERMS: Final = 15
"""From this level on owners take an attach of a consumer that they have as a change of its terms."""

ENTITLEMENTS: Final = 15
"""From this level on nodes read filters in the permissions of the catalog, and in requests of gets."""

SEALED_QUEUES: Final = 1
"""From this level on nodes read logs of partitions that seal a queue before it is deleted as empty or
unused."""

COMMANDS_IN_BATCHES: Final = 1
"""From this level on nodes read entries of the catalog's log that have several commands."""

MAJORITIES_IN_VOTES: Final = 1
"""From this level on nodes read requests for votes that tell whether every majority has the candidate."""
