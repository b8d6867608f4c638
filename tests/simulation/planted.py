"""Bugs that are planted from outside the product, and each of which the simulator must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

from cluster.broker.broker import Broker
from cluster.broker.partitions import Partitions
from cluster.catalog.membership.plan import PartitionView, _Planner
from cluster.catalog.replica import Catalog
from cluster.gateway.commits import Commit
from cluster.gateway.state import Vote
from cluster.owner.intake import Taking
from cluster.owner.two_phase_commit import TwoPhaseCommit
from cluster.peers.catalog_messages import LeasePong, decode_catalog_message
from node.queue.transaction_format import encode_decide
from node.queue.transaction_operations import (
    Decide,
    TransactionKey,
)
from replication.journal.log import PartitionLog
from replication.journal.table import EntryTable
from replication.raft import HardState, Snapshot
from replication.raft.leadership import Leadership
from replication.raft.messages import HeartbeatResponse
from tests.simulation import (
    planted_epochs,
    planted_filling,
    planted_histories,
    planted_metadata,
    planted_owners,
    planted_queues,
    planted_readers,
    planted_rows,
    planted_takes,
)
from tests.simulation.focus import Focus
from tests.simulation.node import SimulatedNode
from tests.simulation.writer import SimulatedWriter


def _forgotten_vote() -> AbstractContextManager[object]:
    """Figure 2: votedFor is persistent. With the bug a restart forgets it."""
    intact = PartitionLog.restore

    def forgetful(
        self: PartitionLog, hard_state: HardState, snapshot: Snapshot | None, table: EntryTable
    ) -> None:
        intact(self, replace(hard_state, vote=None), snapshot, table)

    return mock.patch.object(PartitionLog, "restore", forgetful)


def _forgotten_joining() -> AbstractContextManager[object]:
    """A joining replica gives no vote before it has caught up. With the bug a restarted one does."""
    intact = PartitionLog.restore

    def forgetful(
        self: PartitionLog, hard_state: HardState, snapshot: Snapshot | None, table: EntryTable
    ) -> None:
        intact(self, replace(hard_state, joining=False), snapshot, table)

    return mock.patch.object(PartitionLog, "restore", forgetful)


def _old_catalog() -> AbstractContextManager[object]:
    """A node drops replicas by an up-to-date catalog only. With the bug a starting node drops them by the
    catalog's past, which it replays.
    """
    intact = Partitions._close

    def hasty(self: Partitions, partition: int) -> None:
        with mock.patch.object(self._context, "catalog_fresh", lambda: True):
            intact(self, partition)

    return mock.patch.object(Partitions, "_close", hasty)


def _open_domains() -> AbstractContextManager[object]:
    """Replicas move to nodes of their partition's domain alone (requirement D20). With the bug they move to
    any node.
    """

    def anywhere(self: _Planner, one: PartitionView) -> list[str]:
        return [name for name in self._targets() if name not in one.replicas]

    return mock.patch.object(_Planner, "_targets_for", anywhere)


def _old_term() -> AbstractContextManager[object]:
    """§5.4.2, figure 8: copies of entries of older terms do not commit them. With the bug they do."""

    def counting_all(self: Leadership) -> None:
        state = self._state
        index = self._majority_match(state.members.voters)
        if index > state.log.commit:
            state.log.commit = index
            self.flush_wanted = True

    return mock.patch.object(Leadership, "_advance_commit", counting_all)


def _early_outcome() -> AbstractContextManager[object]:
    """Two-phase commit: the decision is committed in the coordinator's log before it is sent. With the bug it
    may be sent before.
    """

    def hasty(self: Commit) -> None:
        share = self._shares[self._coordinator]
        participants = [link.partition for link in self._participants]
        parts = encode_decide(self._key.number, participants, share.operations())
        self._coordinator.transact(b"".join(parts), share.leases(), Vote(lambda taken: None))
        self._conclude(True)

    return mock.patch.object(Commit, "_decide", hasty)


def _forgotten_abandonment() -> AbstractContextManager[object]:
    """Presumed abort: the coordinator's answer to a participant is final. With the bug a front end that asks
    later may still get the transaction committed.
    """
    intact = TwoPhaseCommit._decide

    def forgetful(
        self: TwoPhaseCommit, taking: Taking, key: TransactionKey, asked: Decide, index: int
    ) -> None:
        table = self._owner.machine.transactions
        with (
            mock.patch.object(table, "abandoned", set()),
            mock.patch.object(self.outcomes, "_abandoning", set()),
        ):
            intact(self, taking, key, asked, index)

    return mock.patch.object(TwoPhaseCommit, "_decide", forgetful)


def _counted_from_pong() -> AbstractContextManager[object]:
    """A share of a lease counts from the ping, or earlier. With the bug it counts from the answer's
    arrival.
    """
    intact = Catalog.receive

    def late(self: Catalog, peer: str, parts: Sequence[bytes], now: float) -> None:
        intact(self, peer, parts, now)
        if isinstance(decode_catalog_message(parts), LeasePong):
            self._holder.granted(now)

    return mock.patch.object(Catalog, "receive", late)


def _counted_from_answer() -> AbstractContextManager[object]:
    """A leader's lease counts from the heartbeat that a majority answers. With the bug it counts from the
    arrival of the answers.
    """
    intact = Leadership.on_heartbeat_response

    def late(self: Leadership, response: HeartbeatResponse, now: float) -> None:
        progress = self.progress.get(response.sender)
        answered = 0 if progress is None else progress.round
        intact(self, response, now)
        if progress is not None and progress.round > answered:
            progress.vouched = now

    return mock.patch.object(Leadership, "on_heartbeat_response", late)


def _lease_without_quorum() -> AbstractContextManager[object]:
    """A leader has a lease while a majority has answered it lately. With the bug it has one as long as it
    leads.
    """
    return mock.patch.object(Leadership, "leased_until", lambda self, now: now + 1.0)


def _served_without_lease() -> AbstractContextManager[object]:
    """An owner serves only on its lease. With the bug it serves as long as it believes to be the owner."""
    return mock.patch.object(Broker, "may_serve", lambda self, partition: True)


class ForgetfulClockNode(SimulatedNode):
    """A node that reads a clock which does not count suspensions, as CLOCK_MONOTONIC on Linux."""

    counts_suspension = False


class HastyWriter(SimulatedWriter):
    """A writer that reports a batch as durable when it begins to write it."""

    def started(self, batch: Any) -> None:
        results = [(partition, *end) for partition, end in batch.staged.ends.items()]
        self._node.after(0.0, lambda: self._node.durable(results))


class HastyNode(SimulatedNode):
    """A node that confirms before the fsync (design rule 3 forbids it)."""

    writer_type = HastyWriter


class ConfidentNode(SimulatedNode):
    """The note `copied` says that other nodes have all data of the journal. With the bug the note stays when
    they do not.
    """

    def needed(self) -> None:
        """Keep the note, although a group whose only replica is on this node may be opened."""


BUGS: dict[str, tuple[type[SimulatedNode], Callable[[], AbstractContextManager[object]]]] = {
    "forgotten vote": (SimulatedNode, _forgotten_vote),
    "joining forgotten": (SimulatedNode, _forgotten_joining),
    "dropped by an old catalog": (SimulatedNode, _old_catalog),
    "commit in an old term": (SimulatedNode, _old_term),
    "confirm before fsync": (HastyNode, nullcontext),
    "outcome before decision": (SimulatedNode, _early_outcome),
    "blocks dropped with a part": (SimulatedNode, planted_metadata.whole_blocks),
    "replicas outside their domain": (SimulatedNode, _open_domains),
    "lease counted from PONG": (SimulatedNode, _counted_from_pong),
    "lease counted from its answer": (SimulatedNode, _counted_from_answer),
    "lease without a quorum": (SimulatedNode, _lease_without_quorum),
    "served without a lease": (SimulatedNode, _served_without_lease),
    "copies taken for granted": (ConfidentNode, nullcontext),
    "clock that a suspension stops": (ForgetfulClockNode, nullcontext),
    "decided after abandonment": (SimulatedNode, _forgotten_abandonment),
    "answer before all nodes know": (SimulatedNode, planted_queues.hasty_declarations),
    "catalog answer without a barrier": (SimulatedNode, planted_queues.early_looks),
    "counts on a lost lease": (SimulatedNode, planted_queues.unconfirmed_counts),
    "taken again after an outage": (SimulatedNode, planted_queues.forgotten_batches),
    "leases not taken over": (SimulatedNode, planted_queues.unheard_leases),
    "lost leases forgotten": (SimulatedNode, planted_queues.forgotten_losses),
    "group of two consumers": (SimulatedNode, planted_queues.contended_groups),
    "lease of a settled message": (SimulatedNode, planted_queues.endless_leases),
    "lease without a token": (SimulatedNode, planted_queues.untold_tokens),
    "lease that ends early": (SimulatedNode, planted_queues.early_ends),
    "annotations that replace others": (SimulatedNode, planted_queues.replaced_annotations),
    "annotations that are not logged": (SimulatedNode, planted_queues.unlogged_annotations),
    "links that are not logged": (SimulatedNode, planted_queues.unlogged_links),
    "message of a lost link": (SimulatedNode, planted_queues.unfenced_targets),
    "commit of a lost link": (SimulatedNode, planted_queues.unfenced_commits),
    "tags that are not kept": (SimulatedNode, planted_queues.untold_tags),
    "settled before its commit": (SimulatedNode, planted_queues.hasty_settlements),
    "cancels that are not told": (SimulatedNode, planted_queues.untold_cancels),
    "moves of leased messages": (SimulatedNode, planted_queues.moves_of_leased_messages),
    "barriers ahead of settlements": (SimulatedNode, planted_queues.early_barriers),
    "caps that are forgotten": (SimulatedNode, planted_queues.forgotten_caps),
    "stale routes": (SimulatedNode, planted_queues.stale_routes),
    "dead letters by an old catalog": (SimulatedNode, planted_queues.unleased_routes),
    "one routing key for a run": (SimulatedNode, planted_queues.keys_of_the_first),
    "removed before it is sent": (SimulatedNode, planted_queues.early_removals),
    "loans ahead of their entries": (SimulatedNode, planted_owners.early_loans),
    "parts of other nodes": (SimulatedNode, planted_owners.parts_of_other_nodes),
    "messages of other nodes": (SimulatedNode, planted_owners.messages_of_other_nodes),
    "parts that go with messages": (SimulatedNode, planted_owners.parts_that_go_with_messages),
    "settled where the consumer is": (SimulatedNode, planted_owners.settled_where_the_consumer_is),
    "questions that stay": (SimulatedNode, planted_owners.questions_that_stay),
    "filters that lenders forget": (SimulatedNode, planted_owners.forgotten_filters),
    "barriers ahead of loans": (SimulatedNode, planted_owners.barriers_ahead_of_loans),
    "one round of barriers": (SimulatedNode, planted_owners.one_round_of_barriers),
    "barriers confirmed at once": (SimulatedNode, planted_owners.barriers_confirmed_at_once),
    "deliveries ahead of the past": (SimulatedNode, planted_filling.deliveries_ahead_of_the_past),
    "past in memory": (SimulatedNode, planted_filling.past_in_memory),
    "purges of what has come": (SimulatedNode, planted_filling.purges_of_what_has_come),
    "a past refilled twice": (SimulatedNode, planted_filling.past_refilled_twice),
    "places behind their transfers": (SimulatedNode, planted_filling.places_behind_their_transfers),
    "gaps behind the past": (SimulatedNode, planted_queues.gaps_behind_the_past),
    "back beside themselves": (SimulatedNode, planted_queues.back_beside_themselves),
    "places ahead of settlements": (SimulatedNode, planted_queues.places_ahead_of_settlements),
    "leases that do not linger": (SimulatedNode, planted_queues.leases_that_do_not_linger),
    "leased messages in views": (SimulatedNode, planted_queues.leased_messages_in_views),
    "rows told in memory": (SimulatedNode, planted_rows.rows_told_in_memory),
    "changes under one version": (SimulatedNode, planted_owners.changes_under_one_version),
    "forgotten chains": (SimulatedNode, planted_histories.forgotten_chains),
    "forgotten change of digests": (SimulatedNode, planted_histories.forgotten_change_of_digests),
    "entries in part": (SimulatedNode, planted_histories.entries_in_part),
    "an epoch committed twice": (SimulatedNode, planted_epochs.unlogged_commits),
    "retention overtaking a reader": (SimulatedNode, planted_readers.retention_overtaking),
    "a take renumbered by a failover": (SimulatedNode, planted_takes.soft_numbers),
    "numbers of a released reader forgotten": (SimulatedNode, planted_takes.forgotten_numbers),
    "deltas side by side": (SimulatedNode, planted_queues.deltas_side_by_side),
    "replacements that are not logged": (SimulatedNode, planted_queues.unlogged_replacements),
    "readers ahead of transactions": (SimulatedNode, planted_queues.readers_ahead),
    "cuts through owners that go on": (SimulatedNode, planted_queues.cuts_through_owners_that_go_on),
    "refusals that are lost": (SimulatedNode, planted_queues.lost_refusals),
    "refusals that are not logged": (SimulatedNode, planted_queues.unlogged_refusals),
    "limit counted twice": (SimulatedNode, planted_queues.doubled_limit),
    "expired messages delivered": (SimulatedNode, planted_queues.late_expiry),
    "filtered by the first of a run": (SimulatedNode, planted_queues.filtered_by_the_first),
    "filters that are forgotten": (SimulatedNode, planted_queues.forgotten_filters),
    "settlements that the feed leaves out": (SimulatedNode, planted_queues.untold_settlements),
}


FOCUS = {
    "forgotten vote": Focus.ELECTIONS,
    "joining forgotten": Focus.MEMBERS,
    "dropped by an old catalog": Focus.MEMBERS,
    "replicas outside their domain": Focus.MEMBERS,
    "lease counted from PONG": Focus.LEASES,
    "lease counted from its answer": Focus.LEASES,
    "dead letters by an old catalog": Focus.LEASES,
    "outcome before decision": Focus.COMMITS,
    "decided after abandonment": Focus.COMMITS,
    "lost leases forgotten": Focus.CONSUMERS,
    "group of two consumers": Focus.CONSUMERS,
    "lease of a settled message": Focus.CONSUMERS,
    "lease without a token": Focus.CONSUMERS,
    "lease that ends early": Focus.CONSUMERS,
    "annotations that replace others": Focus.CONSUMERS,
    "annotations that are not logged": Focus.CONSUMERS,
    "links that are not logged": Focus.CONSUMERS,
    "message of a lost link": Focus.CONSUMERS,
    "commit of a lost link": Focus.CONSUMERS,
    "tags that are not kept": Focus.CONSUMERS,
    "filtered by the first of a run": Focus.CONSUMERS,
    "filters that are forgotten": Focus.CONSUMERS,
    "settled before its commit": Focus.CONSUMERS,
    "cancels that are not told": Focus.CONSUMERS,
    "moves of leased messages": Focus.CONSUMERS,
    "barriers ahead of settlements": Focus.CONSUMERS,
    "loans ahead of their entries": Focus.CONSUMERS,
    "barriers confirmed at once": Focus.CONSUMERS,
    "one round of barriers": Focus.CONSUMERS,
    "barriers ahead of loans": Focus.CONSUMERS,
    "parts of other nodes": Focus.CONSUMERS,
    "messages of other nodes": Focus.CONSUMERS,
    "parts that go with messages": Focus.CONSUMERS,
    "settled where the consumer is": Focus.CONSUMERS,
    "questions that stay": Focus.CONSUMERS,
    "filters that lenders forget": Focus.CONSUMERS,
    "deliveries ahead of the past": Focus.CONSUMERS,
    "past in memory": Focus.CONSUMERS,
    "purges of what has come": Focus.CONSUMERS,
    "places behind their transfers": Focus.CONSUMERS,
    "a past refilled twice": Focus.CONSUMERS,
    "gaps behind the past": Focus.CONSUMERS,
    "back beside themselves": Focus.CONSUMERS,
    "an epoch committed twice": Focus.CONSUMERS,
    "retention overtaking a reader": Focus.CONSUMERS,
    "a take renumbered by a failover": Focus.CONSUMERS,
    "numbers of a released reader forgotten": Focus.CONSUMERS,
    "deltas side by side": Focus.CONSUMERS,
    "leases that do not linger": Focus.CONSUMERS,
    "leased messages in views": Focus.CONSUMERS,
    "rows told in memory": Focus.CONSUMERS,
    "changes under one version": Focus.CONSUMERS,
    "forgotten chains": Focus.CONSUMERS,
    "forgotten change of digests": Focus.CONSUMERS,
    "entries in part": Focus.CONSUMERS,
    "places ahead of settlements": Focus.CONSUMERS,
    "replacements that are not logged": Focus.CONSUMERS,
    "readers ahead of transactions": Focus.CONSUMERS,
    "cuts through owners that go on": Focus.CONSUMERS,
    "refusals that are lost": Focus.CONSUMERS,
    "refusals that are not logged": Focus.CONSUMERS,
    "caps that are forgotten": Focus.CONSUMERS,
    "leases not taken over": Focus.RESTARTS,
    "catalog answer without a barrier": Focus.ANSWERS,
    "counts on a lost lease": Focus.ANSWERS,
    "taken again after an outage": Focus.ANSWERS,
    "removed before it is sent": Focus.ANSWERS,
}
"""The focus of the seeds for bugs that seeds with all faults find rarely or never."""


@contextmanager
def planted(bug: str | None) -> Iterator[type[SimulatedNode]]:
    """The type of node to run while the bug is in place; for None a node of the unchanged product."""
    if bug is None:
        yield SimulatedNode
        return
    node_type, patch = BUGS[bug]
    with patch():
        yield node_type
