"""Messages that a queue keeps for links of AMQP 1.0 (`node.queue.link_leases`)."""

from __future__ import annotations

from node.delivery.link_terms import LinkLease, LinkTerms, link_lease, link_terms
from node.queue.consumers import Consumer, Consumers
from node.queue.link_leases import LinkLeases, linked
from node.queue.operations import Semantics
from node.queue.queue import QueueState
from node.queue.remarks import Remark, Remarks, Subject, put_remark
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import RangeSet

LINK = LinkTerms(b"container\0link", 10)
OTHER = LinkTerms(b"container\0other", 0)
FRONT_END, CONSUMER = 5, 16
NOW = 1_000_000


class Leases:
    """The leases of one queue, with messages 1 to 9 at one front end: 1 to 3 and 7 are those of `LINK`, 8 is
    that of `OTHER`.
    """

    def __init__(self) -> None:
        self.remarks: Remarks = {}
        self.consumers = Consumers()
        self.came: list[tuple[int, int]] = []
        self.by_front_end = {FRONT_END: RangeSet([(1, 9)])}
        self.links = LinkLeases(self.remarks, self.by_front_end, self.consumers)
        put_remark(self.remarks, Subject.LINK, [(1, 3), (7, 7)], LINK.lease(FRONT_END, CONSUMER))
        put_remark(self.remarks, Subject.LINK, [(8, 8)], OTHER.lease(9, CONSUMER))

    @property
    def lease(self) -> RangeSet:
        return self.by_front_end[FRONT_END]

    def attach(self, front_end: int = 7, *, anew: bool = True) -> Consumer:
        """Attach the link at a front end, which the log has already."""
        put_remark(self.remarks, Subject.LINK, [(1, 3), (7, 7)], LINK.lease(front_end, CONSUMER))
        consumer = self.consumers.attach(front_end, CONSUMER, link=LINK)
        self.came = self.links.attach(consumer, anew=anew)
        return consumer

    def kept(self) -> list[tuple[int, int]]:
        return list(self.links.kept.ranges())


def test_terms_of_a_link_are_octets() -> None:
    assert link_terms(LINK.encode()) == LINK
    assert link_lease(LINK.lease(7, CONSUMER)) == LinkLease(LINK, 7, CONSUMER)
    assert LINK.encode() == b"\0\0\0\x0acontainer\0link"


def test_the_messages_of_a_lost_consumer_are_kept_and_the_others_are_not() -> None:
    leases = Leases()
    assert leases.links.abandoned(FRONT_END, CONSUMER, [(2, 8), (20, 30)]) == [(4, 6)]
    assert leases.kept() == [(2, 3), (7, 8)]
    assert list(leases.lease.ranges()) == [(1, 1), (4, 6), (9, 9)]


def test_a_consumer_that_comes_later_has_the_messages_of_its_link() -> None:
    leases = Leases()
    leases.links.keep(leases.lease, [(1, 9)])
    leases.attach()
    assert leases.came == [(1, 3), (7, 7)]
    assert leases.kept() == [(8, 8)] and list(leases.by_front_end[7].ranges()) == [(1, 3), (7, 7)]
    assert [ranges for _, ranges in leases.links.resuming()] == [[(1, 3), (7, 7)]]
    assert leases.links.abandoned(7, CONSUMER + 1, [(1, 9)]) == [], "another consumer has the link by now"
    assert leases.kept() == [(8, 8)]


def test_a_new_link_takes_its_messages_from_every_front_end_and_one_that_greets_again_does_not() -> None:
    leases = Leases()
    leases.attach(anew=False)
    assert leases.came == [] and leases.links.logged_elsewhere(LINK, 7, CONSUMER) == []
    assert leases.links.logged_elsewhere(LINK, FRONT_END, CONSUMER) == [(1, 3), (7, 7)]
    leases = Leases()
    leases.attach()
    assert leases.came == [(1, 3), (7, 7)]
    assert list(leases.lease.ranges()) == [(4, 6), (8, 9)]


def test_a_consumer_that_comes_back_has_none_that_the_link_got_elsewhere() -> None:
    leases = Leases()
    leases.links.keep(leases.lease, [(1, 9)])
    consumer = leases.consumers.attach(7, CONSUMER, link=LINK)
    assert leases.links.attach(consumer, anew=False) == []
    assert leases.kept() == [(1, 3), (7, 8)] and list(leases.links.resuming()) == []


def test_what_a_consumer_has_not_got_again_is_kept_when_it_ends() -> None:
    leases = Leases()
    consumer = leases.attach()
    assert consumer.resuming is not None
    consumer.resuming.remove(1, 2)
    leases.links.given_back([(7, 7)])
    leases.links.detach(7, CONSUMER)
    assert leases.kept() == [(3, 3)]
    assert list(leases.by_front_end[7].ranges()) == [(1, 2), (7, 7)]


def test_the_time_of_a_link_begins_when_the_owner_looks_and_ends_once() -> None:
    leases = Leases()
    leases.links.keep(leases.lease, [(1, 9)])
    assert leases.links.overdue(NOW) == [] and leases.links.wake == NOW + 10_000
    assert leases.links.overdue(NOW + 9_999) == []
    assert leases.links.overdue(NOW + 10_000) == [(1, 3), (7, 7)]
    assert leases.links.overdue(NOW + 20_000) == [] and leases.links.wake == ABOVE_ALL
    leases.attach()
    assert leases.came == [], "the messages are about to go back"
    assert leases.links.lapsed([(1, 3), (7, 7)]) == [(1, 3), (7, 7)]


def test_a_link_that_was_attached_meanwhile_has_its_whole_time_again() -> None:
    leases = Leases()
    leases.links.keep(leases.lease, [(1, 9)])
    leases.links.overdue(NOW)
    leases.attach()
    leases.consumers.detach(7, CONSUMER)
    leases.links.keep(leases.by_front_end[7], [(1, 9)])
    assert leases.links.overdue(NOW + 10_000) == [] and leases.links.wake == NOW + 20_000


def test_a_message_whose_return_is_applied_is_kept_no_more() -> None:
    leases = Leases()
    leases.links.keep(leases.lease, [(1, 9)])
    put_remark(leases.remarks, Subject.LINK, [(2, 2)], b"")
    assert leases.links.freed(1, 9) == [(2, 2)]


def test_the_return_of_a_message_ends_its_lease_in_the_log() -> None:
    state = QueueState(Semantics.AT_LEAST_ONCE)
    state.append(1, 4)
    state.note(Remark(1, Subject.LINK, [(1, 3)], LINK.lease(7, CONSUMER)))
    state.give_back([(2, 2)], failed=True)
    state.remove_all([(3, 3)])
    assert linked(state.remarks, [(1, 4)]) == [(1, 1)]


def test_a_lease_of_a_link_takes_less_than_200_octets_of_each_replica() -> None:
    """At worst: no two messages of the link are neighbours."""
    remarks: Remarks = {}
    put_remark(
        remarks, Subject.LINK, [(number, number) for number in range(0, 20_000, 2)], LINK.lease(7, CONSUMER)
    )
    assert remarks[Subject.LINK].held <= 200 * 10_000


def test_a_front_end_at_which_the_link_has_not_got_a_message_cannot_claim_it() -> None:
    """It has had the message before, and has lost the lease."""
    leases = Leases()
    leases.links.keep(leases.lease, [(1, 9)])
    assert leases.links.kept_for(FRONT_END, 2, 8) == [(2, 3), (7, 7)]
    assert leases.links.kept_for(9, 2, 8) == [(8, 8)] and leases.links.kept_for(7, 2, 8) == []
    put_remark(leases.remarks, Subject.LINK, [(3, 3)], LINK.lease(7, CONSUMER))
    assert leases.links.kept_for(FRONT_END, 2, 8) == [(2, 2), (7, 7)]
    assert leases.links.kept_for(7, 2, 8) == [(3, 3)]


def test_a_closed_link_keeps_nothing_and_a_link_that_another_has_taken_is_not_closed() -> None:
    leases = Leases()
    leases.attach()
    leases.links.keep(leases.lease, [(1, 9)])
    assert leases.links.closed(FRONT_END, CONSUMER, LINK.identity) == []
    assert leases.links.closed(7, CONSUMER + 1, LINK.identity) == [], "of another connection"
    assert leases.links.closed(7, CONSUMER, LINK.identity) == [(1, 3), (7, 7)]
    assert leases.links.closed(7, CONSUMER, LINK.identity) == [], "once"
    assert leases.links.lapsed([(1, 9)]) == [(1, 3), (7, 7)] and leases.kept() == [(1, 3), (7, 8)]


def test_a_link_is_not_closed_where_it_has_been_attached_elsewhere_since() -> None:
    leases = Leases()
    leases.attach()
    leases.links.detach(7, CONSUMER)
    leases.consumers.detach(7, CONSUMER)
    assert leases.links.closed(FRONT_END, CONSUMER, LINK.identity) == []
    assert leases.links.closed(7, CONSUMER, LINK.identity) == [(1, 3), (7, 7)]


def test_a_link_that_has_a_consumer_gets_what_another_front_end_leaves_to_it() -> None:
    """The front end of the link's former consumer tells late what that one has had."""
    leases = Leases()
    leases.attach(anew=False)
    assert list(leases.links.resuming()) == []
    assert leases.links.abandoned(FRONT_END, CONSUMER, [(2, 3)]) == []
    assert [(one.number, ranges) for one, ranges in leases.links.resuming()] == [(CONSUMER, [(2, 3)])]
    assert leases.kept() == [] and list(leases.by_front_end[7].ranges()) == [(2, 3)]


def test_no_link_keeps_or_gets_a_message_whose_return_is_on_its_way() -> None:
    leases = Leases()
    leases.links.given_back([(2, 2), (5, 5)])
    leases.links.keep(leases.lease, [(1, 9)])
    assert leases.kept() == [(1, 1), (3, 3), (7, 8)]
    assert list(leases.lease.ranges()) == [(2, 2), (4, 6), (9, 9)]
    leases.attach()
    assert leases.came == [(1, 1), (3, 3), (7, 7)]
    leases.links.lapsed([(2, 2), (5, 5)])
    assert not leases.links.lapsing
