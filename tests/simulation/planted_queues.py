"""Planted bugs in the guarantees of queues and the catalog (`tests.simulation.planted`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from cluster.catalog.replica import Catalog
from cluster.gateway import backlogs, gets
from cluster.gateway.giving_back import GivingBack
from cluster.gateway.link import PartitionLink
from cluster.gateway.reading import Reading
from cluster.gateway.routes import Routes, Targets
from cluster.gateway.state import HeldMessages
from cluster.owner import annotating, browsing, intake, serving, two_phase_commit
from cluster.owner.context import DeadLetterRoutes
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.linearizable_reads import LinearizableReads
from cluster.owner.moving import Reservations
from cluster.owner.partition import PartitionOwner
from cluster.owner.proposal import FrontEndState
from cluster.owner.sessions import FrontEndSessions
from cluster.owner.state import OwnerState
from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.link_messages import Ranges
from node.delivery.settlements import NO_TOKEN, Outcome
from node.message.run import Run
from node.queue.consumers import ConsumerKey
from node.queue.delivery_state import DeliveryState
from node.queue.dispatch import QueueOwner
from node.queue.feature import FeatureContext, Incoming, KeptOut
from node.queue.features import limits
from node.queue.features.barrier import Barriers
from node.queue.features.entry_filter import EntryFilter
from node.queue.features.last_value import LastValues
from node.queue.features.limits import surplus
from node.queue.features.ttl import Lifetimes
from node.queue.group_table import Group
from node.queue.leasing import BACK_IN_QUEUE
from node.queue.lost_leases import LostLeases
from node.queue.operations import Cause
from node.queue.queue import QueueState
from node.queue.remarks import Subject, put_remark
from node.queue.settings import QueueSettings
from node.queue.targets import TargetStates, TargetStep, UpdateTarget
from node.queue.viewed import ViewedOrder
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, merged
from node.session.permissions import Scope
from node.wire.amqp091 import codec, routing_keys


def forgotten_caps() -> AbstractContextManager[object]:
    """D6: a consumer's backlog is at most its queue's cap. With the bug: what the consumer asks for."""

    def uncapped(asked: int, cap: int, *, no_ack: bool) -> int:
        return asked

    return mock.patch.object(backlogs, "backlog_of", uncapped)


def hasty_declarations() -> AbstractContextManager[object]:
    """A16: a change is answered once every node that serves clients has it. With the bug: once it is
    committed.
    """

    def hasty(self: Catalog, now: float) -> None:
        self._awaited.asked(0, now)
        self._awaited.answered(0)

    return mock.patch.object(Catalog, "_ask", hasty)


def stale_routes() -> AbstractContextManager[object]:
    """Routes are cached until the catalog changes. With the bug they are cached for longer."""
    intact = Routes.find

    def forgetless(
        self: Routes, scope: Scope, exchange: str, key: str, headers: Mapping[str, Any] | None,
        copies: Sequence[str] = (),
    ) -> Targets:  # fmt: skip
        self._version = self._replica.version
        return intact(self, scope, exchange, key, headers, copies)

    return mock.patch.object(Routes, "find", forgetless)


def keys_of_the_first() -> AbstractContextManager[object]:
    """Each message of a run is delivered with its own routing key. With the bug: with that of the first."""
    intact = routing_keys.by_key

    def mixed_up(run: Run) -> Iterator[tuple[str, Run]]:
        pieces = list(intact(run))
        for _, piece in pieces:
            yield pieces[0][0], replace(piece, routing_key=pieces[0][0])

    return mock.patch.object(codec, "by_key", mixed_up)


def filtered_by_the_first() -> AbstractContextManager[object]:
    """The filter of a queue looks at each message of a run. With the bug: at the first one."""
    intact = EntryFilter.leave

    def hasty(self: EntryFilter, incoming: Incoming) -> KeptOut:
        found = intact(self, incoming)
        out = bool(found.ranges) and found.ranges[0][0] == 0
        return KeptOut([(0, incoming.run.count - 1)] if out else [], found.unreadable)

    return mock.patch.object(EntryFilter, "leave", hasty)


def forgotten_filters() -> AbstractContextManager[object]:
    """A front end tells each new owner the filters of its consumers. With the bug the owner takes consumers
    that come back for such without one.
    """
    intact = FrontEndSessions._join

    def hasty(
        self: FrontEndSessions, state: FrontEndState, terms: ConsumerTerms, *, anew: bool = True
    ) -> list[Any] | None:
        return intact(self, state, terms if anew else replace(terms, filter=b""), anew=anew)

    return mock.patch.object(FrontEndSessions, "_join", hasty)


def early_looks() -> AbstractContextManager[object]:
    """A16: a command that changes nothing is answered once every node shows the same. With the bug:
    at once.
    """

    def hasty(self: Catalog, done: Callable[[], None]) -> None:
        done()

    return mock.patch.object(Catalog, "when_visible", hasty)


def unleased_routes() -> AbstractContextManager[object]:
    """An owner routes dead letters while its catalog is fresh. With the bug: by whatever it has."""
    intact = DeadLetters.__init__

    def hasty(self: DeadLetters, owner: OwnerState, transit: DeadLetterRoutes, _fresh: object) -> None:
        intact(self, owner, transit, lambda: True)

    return mock.patch.object(DeadLetters, "__init__", hasty)


def unconfirmed_counts() -> AbstractContextManager[object]:
    """An owner sends an answer without an entry once a majority has confirmed its leadership. With the bug:
    at once.
    """

    def hasty(self: LinearizableReads, front_end: int, request: int, value: Any) -> None:
        self._front_ends.answer(front_end, request, value)

    return mock.patch.object(LinearizableReads, "answer", hasty)


def forgotten_batches() -> AbstractContextManager[object]:
    """A front end's batch is decided once, however long the front end is out of reach. With the bug an owner
    that gives up a front end forgets the decision.
    """
    intact = FrontEndSessions.front_end_lost

    def forgetful(self: FrontEndSessions, front_end: int) -> None:
        intact(self, front_end)
        self._front_ends.taken.pop(front_end, None)

    return mock.patch.object(FrontEndSessions, "front_end_lost", forgetful)


def unheard_leases() -> AbstractContextManager[object]:
    """A new owner leaves messages leased to the consumers that have them. With the bug it ignores the reports
    of front ends.
    """
    intact = FrontEndSessions.held

    def deaf(
        self: FrontEndSessions,
        front_end: int,
        epoch: int,
        held: HeldLeases,
    ) -> None:
        intact(self, front_end, epoch, HeldLeases({}, {}, {}, {}))

    return mock.patch.object(FrontEndSessions, "held", deaf)


def forgotten_losses() -> AbstractContextManager[object]:
    """A message that a consumer still has goes to no other consumer of its front end. With the bug it does,
    once the owner has given up the front end and has leased the message to others.
    """

    def forgetful(self: LostLeases, front_end: int, spans: Iterable[Span]) -> None:
        """Remember nothing."""

    return mock.patch.object(LostLeases, "tell", forgetful)


def untold_tokens() -> AbstractContextManager[object]:
    """A settlement names the lease under which its messages came. With the bug it does not."""
    return mock.patch.object(PartitionLink, "told_token", lambda *_: NO_TOKEN)


def untold_cancels() -> AbstractContextManager[object]:
    """D8: a consumer whose message another client has cancelled does not take it from the next one. With the
    bug its node does not hear of the cancel.
    """
    intact = HeldMessages.renewed

    def deaf(self: HeldMessages, queue: int, ranges: Ranges, until: int) -> None:
        if until != BACK_IN_QUEUE:
            intact(self, queue, ranges, until)

    return mock.patch.object(HeldMessages, "renewed", deaf)


def moves_of_leased_messages() -> AbstractContextManager[object]:
    """X4: a message that a consumer has got meanwhile is not moved. With the bug the owner reserves none,
    and looks no second time.
    """
    intact = Reservations.show

    def unreserved(
        self: Reservations, front_end: int, number: int, ranges: Ranges, wanted: int, *, reserves: bool
    ) -> Any:
        return intact(self, front_end, number, ranges, wanted, reserves=False)

    return mock.patch.multiple(
        Reservations, show=unreserved, may_leave=lambda self, front_end, settlement: True
    )


def cuts_through_owners_that_go_on() -> AbstractContextManager[object]:
    """X9: a cut is consistent. With the bug owners propose while they hold still for a cut."""
    right = PartitionOwner.propose

    def propose(self: PartitionOwner) -> bool:
        state = self._state
        cut, state.cut = state.cut, None
        proposed = right(self)
        state.cut = cut
        return proposed

    return mock.patch.object(PartitionOwner, "propose", propose)


def lost_refusals() -> AbstractContextManager[object]:
    """A23: a message that its queue refuses is not confirmed. With the bug a front end takes acknowledgements
    of earlier epochs, before which one that told of refused messages may be lost.
    """

    def acknowledged(
        self: PartitionLink, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()
    ) -> None:
        self._committed(number, dict(refused))

    return mock.patch.object(PartitionLink, "acknowledged", acknowledged)


def unlogged_refusals() -> AbstractContextManager[object]:
    """A23: a message that its queue refuses is not confirmed. With the bug the log does not tell of refused
    messages whose batches are not in the log, and a new owner takes those batches for committed.
    """
    return mock.patch.object(OwnerState, "log_refusals", lambda *_: None)


def early_barriers() -> AbstractContextManager[object]:
    """D11: a barrier waits until every message before it is settled. With the bug the owner does not look at
    the messages that consumers have.
    """

    def first(self: Barriers, number: int) -> bool:
        ready = self._delivery.ready
        return bool(ready.intersection(number, number)) and not ready.intersection(0, number - 1)

    return mock.patch.object(Barriers, "_first", first)


def readers_ahead() -> AbstractContextManager[object]:
    """D17: a reader of a stream gets no message behind those of a transaction whose outcome is not known.
    With the bug the reader gets these at once, and does not come back.
    """

    def unbounded(queue: QueueOwner, number: int) -> Iterator[tuple[int, Range]]:
        return queue.delivery.ready.behind(0, number, ABOVE_ALL)

    return mock.patch.object(browsing, "_stream_behind", unbounded)


def gaps_behind_the_past() -> AbstractContextManager[object]:
    """D13: a new queue over a stream misses no message from its creation on, also of nodes that do not know
    it yet. With the bug the owner trusts the routes of front ends.
    """
    return mock.patch.object(intake, "with_queues_over", lambda owner, queues: queues)


def early_ends() -> AbstractContextManager[object]:
    """A new owner ends leases when their consumers were told. With the bug it ends them earlier."""
    intact = FrontEndSessions.held

    def hasty(self: FrontEndSessions, front_end: int, epoch: int, held: HeldLeases) -> None:
        ends = {
            queue: [(first, last, until - 300) for first, last, until in spans]
            for queue, spans in held.ends.items()
        }
        intact(self, front_end, epoch, held._replace(ends=ends))

    return mock.patch.object(FrontEndSessions, "held", hasty)


def replaced_annotations() -> AbstractContextManager[object]:
    """A message has the annotations of all modifications. With the bug it has those of the last one."""
    return mock.patch.object(annotating, "merged_annotations", lambda former, later: later)


def unlogged_annotations() -> AbstractContextManager[object]:
    """The log has the annotations of a modification, so that the next owner has them. With the bug only the
    owner has them.
    """

    def soft_only(owner: OwnerState, found: annotating.Changes) -> list[bytes]:
        for one in (*found.durable, *found.soft):
            delivery = owner.queues[one.queue].delivery
            put_remark(delivery.state.remarks, one.subject, one.ranges, one.octets)
        return []

    return mock.patch.object(intake, "change", soft_only)


def unlogged_links() -> AbstractContextManager[object]:
    """The log has to which link a message is leased, before it is delivered. With the bug only the owner
    knows.
    """

    def soft_only(
        owner: OwnerState, serving: serving.Serving, queue: QueueOwner, handout: serving.Handout
    ) -> None:
        remarks = queue.delivery.state.remarks
        put_remark(remarks, Subject.LINK, merged(handout.grant.ranges), handout.link)
        owner.send({handout.grant.front_end: handout.deliveries})

    return mock.patch.object(serving, "_lease_first", soft_only)


def unfenced_targets() -> AbstractContextManager[object]:
    """A queue takes no message of a link that has lost its target. With the bug it takes all."""
    return mock.patch.object(intake, "takes_step", lambda owner, front_end, step: True)


def unfenced_commits() -> AbstractContextManager[object]:
    """A queue takes no commit with deliveries of a link that has lost its target. With the bug it does."""
    return mock.patch.object(two_phase_commit, "takes_step", lambda owner, front_end, step: True)


def untold_tags() -> AbstractContextManager[object]:
    """The log has the tag of a delivery with its message. With the bug no replica keeps tags."""
    update = TargetStates.update

    def without_tags(self: TargetStates, step: UpdateTarget) -> None:
        if step.step is not TargetStep.RECEIVED:
            update(self, step)

    return mock.patch.object(TargetStates, "update", without_tags)


def hasty_settlements() -> AbstractContextManager[object]:
    """A client forgets a delivery once its outcome is committed. With the bug it forgets it before."""
    return mock.patch.object(GivingBack, "when_settled", lambda self, consumer, done: done())


def contended_groups() -> AbstractContextManager[object]:
    """While two consumers have messages of a group, no consumer gets more of it. With the bug one of them
    does.
    """
    return mock.patch.object(Group, "waits", property(lambda self: self.resting > 0))


def endless_leases() -> AbstractContextManager[object]:
    """A consumer that had lost its lease settles a message, and the consumer that has the message by now
    gives it back: the lease ends. With the bug it never does.
    """
    return mock.patch.object(DeliveryState, "gone", lambda self, front_end, ranges: [])


def doubled_limit() -> AbstractContextManager[object]:
    """A queue drops messages over its limit. With the bug each message counts twice."""

    def twice(settings: QueueSettings, messages: int, octets: int) -> tuple[int, int]:
        return surplus(settings, 2 * messages, octets)

    return mock.patch.object(limits, "surplus", twice)


def late_expiry() -> AbstractContextManager[object]:
    """An expired message is not delivered. With the bug it expires two seconds later."""
    intact = Lifetimes.add

    def late(self: Lifetimes, spans: Sequence[Span]) -> None:
        intact(self, [(first, last, expiry + 2000) for first, last, expiry in spans])

    return mock.patch.object(Lifetimes, "add", late)


def early_removals() -> AbstractContextManager[object]:
    """A message of a get without acknowledgement is removed once its front end has it. With the bug: before
    it is sent.
    """
    return mock.patch.object(gets, "STAYS_LEASED", 0)


def untold_settlements() -> AbstractContextManager[object]:
    """The feed states all that leaves a queue. Here it leaves out the last range of a settlement."""
    intact = QueueState.leaving

    def silent(
        self: QueueState, cause: Cause, ranges: Sequence[tuple[int, int]]
    ) -> list[tuple[Cause, list[tuple[int, int]]]]:
        told = intact(self, cause, ranges)
        settled = cause is Cause.SETTLED and len(ranges) > 1
        return [(each, parts[:-1] if settled else parts) for each, parts in told]

    return mock.patch.object(QueueState, "leaving", silent)


def back_beside_themselves() -> AbstractContextManager[object]:
    """X4: a message that a queue has does not come back. With the bug two clients bring it back at a time."""

    def missing(_: QueueState, source: QueueState, first: int, last: int) -> list[Range]:
        return source.alive.intersection(first, last)

    return mock.patch.object(QueueState, "missing", missing)


def deltas_side_by_side() -> AbstractContextManager[object]:
    """D16: a delta is merged into the last value. With the bug: into the last one that is applied."""

    def forgetful(self: LastValues, first: int, run: Run, keys: list[Span]) -> None: ...

    return mock.patch.object(LastValues, "coming", forgetful)


def unlogged_replacements() -> AbstractContextManager[object]:
    """D16: a message that was replaced at its consumer does not come back. With the bug: it does where the
    owner has changed, and the message that replaced it is settled.
    """
    intact = LastValues.serve

    def silent(self: LastValues, context: FeatureContext, now: int) -> None:
        self._unlogged.clear()
        intact(self, context, now)

    return mock.patch.object(LastValues, "serve", silent)


def places_ahead_of_settlements() -> AbstractContextManager[object]:
    """D17: the place of a subscription is behind every message that is not settled. With the bug: behind the
    newest one that is.
    """
    intact = Reading.settled

    def hasty(self: Reading, ranges: list[Range]) -> None:
        if ranges:
            self._front.remove(0, ranges[-1][1])
        intact(self, ranges)

    return mock.patch.object(Reading, "settled", hasty)


def leases_that_do_not_linger() -> AbstractContextManager[object]:
    """X5: a message stays with its consumer's link when the client has gone. With the bug it goes back."""

    def hasty(self: GivingBack, lease: int, ranges: Ranges) -> None:
        self.give_back(lease, ranges, Outcome.LOST, None)

    return mock.patch.object(GivingBack, "abandon", hasty)


def leased_messages_in_views() -> AbstractContextManager[object]:
    """D15.3: a message leaves the rows of views when it is leased. With the bug it stays."""

    def hasty(self: ViewedOrder, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self.whole.hand_over(consumer, ranges, count)

    return mock.patch.object(ViewedOrder, "hand_over", hasty)
