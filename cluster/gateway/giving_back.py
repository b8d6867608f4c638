"""Returns messages of consumers to their queues, on the front end's side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cluster.catalog.membership.formats import Formats
from cluster.gateway.commits import Attached
from cluster.gateway.link import Links, PartitionLink
from cluster.gateway.state import TakeAnswer, Vote, unanswered
from cluster.peers.link_messages import NOTHING_TO_GET, UNREACHABLE, Ranges
from node.delivery.settlements import UNLEASED, Modification, Outcome, attached_as, token_of
from node.message.run import Run
from node.queue.entry_format import encode_return
from node.ranges.range_set import Numbers, RangeSet, merged, ranges_of
from node.session.publishing_session import GoneSession


class GoneClient(GoneSession):
    """Stands for the session of a client that has gone, and takes the deliveries that still come."""

    def __init__(self, taken: Callable[[Ranges], None]) -> None:
        """`taken` is called with the messages of each delivery."""
        self._taken = taken

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        if lease != UNLEASED:
            self._taken(merged(ranges_of(numbers)))


class GivingBack:
    """See `node.session.ports.BrokerPort.give_back`. `consumers` are those of the front end by number."""

    def __init__(self, consumers: Mapping[int, Attached], links: Links, formats: Formats) -> None:
        self._consumers, self._links, self._formats = consumers, links, formats
        # By the number of a lease whose renewal is under way, the messages to renew next.
        self._renewing: dict[int, RangeSet] = {}

    def keep_from(self, consumer: int, ranges: Ranges) -> None:
        """Have the owner keep messages from their consumer, before the queue has the messages again."""
        attached = self._consumers.get(consumer)
        if attached is not None and not attached.link.unreachable:
            # An owner of the release before does not know this, and keeps the messages from no consumer.
            arguments = [*NOTHING_TO_GET, attached.queue, consumer, ranges]
            self._links.request(attached.link, "undeliverable_here", arguments, unanswered)

    def unsettled_of(self, consumer: int) -> Ranges | None:
        """See `node.session.ports.BrokerPort.unsettled_of`."""
        attached = self._consumers.get(consumer)
        found = None if attached is None else attached.link.consumers.get(consumer)
        return None if found is None else found.kept

    def abandon(self, lease: int, ranges: Ranges) -> None:
        """See `node.session.ports.BrokerPort.abandon`."""
        consumer = attached_as(lease)
        attached = self._consumers.get(consumer)
        if attached is None or not attached.for_link:
            self.give_back(lease, ranges, Outcome.LOST, None)
            return
        self._leave_to_link(attached, consumer, ranges)

    def client_gone(self, consumer: int) -> None:
        """The client of a consumer with a link is gone, and the owner has still to be told: leave to the link
        what comes meanwhile, too.
        """
        attached = self._consumers[consumer]
        found = attached.link.consumers.get(consumer)
        if found is not None:
            attached.link.credit(consumer, found.delivered)
            found.subscriber = GoneClient(partial(self._leave_to_link, attached, consumer))

    def _leave_to_link(self, attached: Attached, consumer: int, ranges: Ranges) -> None:
        """Have the owner keep messages for the link of the consumer that has had them."""
        link, queue = attached.link, attached.queue
        # A consumer of the same link may have got some of the messages since, over the same node.
        mine = link.held.of_holder(queue, consumer, ranges)
        link.held.released(queue, mine)
        if mine and not link.unreachable:
            self._links.request(link, "abandoned", [*NOTHING_TO_GET, queue, consumer, mine], unanswered)

    def when_settled(self, consumer: int, done: Callable[[], None]) -> None:
        """See `node.session.ports.BrokerPort.when_settled`."""
        attached = self._consumers.get(consumer)
        if attached is None or attached.link.unreachable:
            # The outcome is not known: the client asks again when it attaches its link again.
            return
        # The owner answers behind everything that it has taken before.
        arguments = [*NOTHING_TO_GET, attached.queue]
        self._links.request(attached.link, "last", arguments, _unless_unreachable(done))

    def renew(self, lease: int, ranges: Ranges) -> None:
        """See `node.session.ports.BrokerPort.renew`."""
        attached = self._consumers.get(attached_as(lease))
        mine = [] if attached is None else attached.under(lease, ranges)
        # Without a known end there is nothing to renew, or the owner is of an earlier release.
        if attached is None or not mine or attached.queue not in attached.link.held.ends:
            return
        waiting = self._renewing.get(lease)
        if waiting is None:
            self._renew(lease, attached, mine)
        else:
            waiting.update(mine)

    def _renew(self, lease: int, attached: Attached, ranges: Ranges) -> None:
        """Ask the owner. Later messages of the lease wait for the answer, and go with the next request."""
        if attached.link.owner is None:
            return
        self._renewing[lease] = RangeSet()

        def answered(value: Any, _: object) -> None:
            more = list(self._renewing.pop(lease).ranges())
            if more and value != UNREACHABLE:
                self._renew(lease, attached, more)

        arguments = [*NOTHING_TO_GET, attached.queue, ranges, token_of(lease)]
        self._links.request(attached.link, "renew", arguments, answered)

    def give_back(self, lease: int, ranges: Ranges, outcome: Outcome, change: Modification | None) -> None:
        attached = self._consumers.get(attached_as(lease))
        mine = [] if attached is None else attached.under(lease, ranges)
        if attached is None or not mine:
            return
        if outcome.undeliverable_here:
            self.keep_from(attached_as(lease), mine)
        link, queue, token = attached.link, attached.queue, token_of(lease)
        outcome = outcome.told(cancels=self._formats.know_cancels())
        if change is None or not self._formats.keep_remarks():
            link.give_back(queue, mine, failed=outcome.failed, token=token, cancelled=outcome.cancelled)
        else:
            _modify(link, queue, mine, outcome, token, change)


def _unless_unreachable(done: Callable[[], None]) -> TakeAnswer:
    def answered(value: Any, _: object) -> None:
        if value != UNREACHABLE:
            done()

    return answered


def _modify(
    link: PartitionLink, queue: int, ranges: Ranges, outcome: Outcome, token: int, change: Modification
) -> None:
    """Return messages with annotations. The operation counts as one message, which the owner may refuse."""
    told, cancelled = link.told_token(token), outcome.cancelled
    operation = encode_return(queue, ranges, outcome.failed, told, change.annotations, cancelled)
    link.transact(operation, [(queue, *one) for one in ranges], Vote(_hearing(change.refused)))


def _hearing(refused: Callable[[], None]) -> Callable[[bool], None]:
    def answered(taken: bool) -> None:
        if not taken:
            refused()

    return answered
