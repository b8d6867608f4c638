"""Deliveries that clients send in transactions to targets that are kept: each message comes into its queue
once, whichever node dies (part 2, section 2.6.13; part 4, section 4.4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Role
from tests.cluster.kept_links import QUEUE, KeptClient, client, owner, site
from tests.cluster.kept_senders import kept_tags, sending
from tests.cluster.test_leases import isolate
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import control, coordinator, within

__all__ = ["client", "site"]

ACCEPTED = d.Accepted()
CONTROL = 9
CLASSIC = "classic"
QUEUES = (QUEUE, CLASSIC)


class Poster(KeptClient):
    """A client with a link to each queue, whose target is kept, and one to the coordinator."""

    def __init__(
        self, site: Site, name: str, unsettled: Collection[bytes] = (), queues: tuple[str, ...] = (QUEUE,)
    ) -> None:
        super().__init__(site, name)
        self._queues, self._next = queues, 0
        for handle, queue in enumerate(queues):
            attach = sending(dict.fromkeys(unsettled), queue)
            attach.handle, attach.name = handle, f"to {queue}"
            self.submit(attach)
        self.submit(coordinator(CONTROL))
        self.numbers: dict[bytes, int] = {}

    def wait(self) -> Poster:
        """Wait until the links are attached."""
        self.site.until(lambda: len(self.came(d.Attach)) == len(self._queues) + 1)
        return self

    def told(self, queue: str = QUEUE) -> Mapping[bytes, Any]:
        """The unsettled map of the node for the link to a queue."""
        answers = {one.name: one.unsettled for one in self.came(d.Attach)}
        return answers[f"to {queue}"] or {}

    def outcome(self, number: int) -> Any:
        """The state of a delivery that the node has told last."""
        found = [
            one.state for one in self.came(d.Disposition) if one.first <= number <= (one.last or one.first)
        ]
        return found[-1] if found else None

    def _transfer(self, payload: bytes, handle: int, **fields: Any) -> int:
        number, self._next = self._next, self._next + 1
        frame = transfer(number, payload, handle, **fields)
        self.node.input(lambda: self.session.receive(frame))
        return number

    def declare(self) -> bytes:
        number = self._transfer(control(d.Declare()), CONTROL)
        self.site.until(lambda: self.outcome(number))
        txn_id: bytes = self.outcome(number).txn_id
        return txn_id

    def post(self, txn_id: bytes, *tags: bytes, queue: str = QUEUE) -> None:
        """Send messages whose bodies are their tags."""
        handle = self._queues.index(queue)
        for tag in tags:
            fields = {"delivery_tag": tag, "state": within(txn_id)} if txn_id else {"delivery_tag": tag}
            self.numbers[tag] = self._transfer(message(body=tag), handle, **fields)

    def ask(self, txn_id: bytes, fail: bool = False) -> int:
        """Discharge a transaction, without waiting for the outcome. Returns the number of the delivery."""
        return self._transfer(control(d.Discharge(txn_id, fail)), CONTROL)

    def discharge(self, txn_id: bytes, fail: bool = False) -> Any:
        number = self.ask(txn_id, fail)
        self.site.until(lambda: self.outcome(number))
        return self.outcome(number)

    def settle(self, *tags: bytes) -> None:
        for tag in tags:
            self.submit(d.Disposition(Role.SENDER, self.numbers[tag], settled=True, state=ACCEPTED))


def bodies(site: Site, name: str, queue: str = QUEUE) -> list[bytes]:
    return sorted(site.client(name).bodies(queue))


@pytest.fixture
def classic(client: Client) -> Client:
    """A client of a site with a further queue, in another partition."""
    client.site.client("n3").declare(CLASSIC, queue_type="classic", durable=True)
    return client


@pytest.mark.sentence("1.0/2.6.13-2", "1.0/4.4.4.1-5")
@pytest.mark.requirement("B7.8")
@pytest.mark.parametrize("queues", [(QUEUE,), QUEUES])
def test_a_client_learns_which_deliveries_of_its_transactions_have_come(
    site: Site, classic: Client, queues: tuple[str, ...]
) -> None:
    link = Poster(site, "n2", queues=queues).wait()
    committed, failed, left = link.declare(), link.declare(), link.declare()
    for queue in queues:
        name = queue.encode()
        link.post(committed, b"1 " + name, b"2 " + name, b"3 " + name, queue=queue)
        link.post(failed, b"4 " + name, queue=queue)
        link.post(left, b"5 " + name, queue=queue)
        link.post(b"", b"6 " + name, queue=queue)
    site.run(0.2)
    assert link.outcome(link.numbers[b"1 q"]) == within(committed, ACCEPTED)
    assert kept_tags(site) == {b"6 " + queue.encode() for queue in queues}
    link.settle(b"1 q")
    assert link.discharge(committed) == ACCEPTED
    link.settle(b"2 q")
    assert link.discharge(failed, fail=True) == ACCEPTED
    link.lose()
    site.run(0.5)
    every = [b"%d " % at + queue.encode() for at in range(1, 7) for queue in queues]
    again = Poster(site, "n3", every, queues).wait()
    for queue in queues:
        found = (3, 6) if queue == QUEUE else (1, 2, 3, 6)
        assert again.told(queue) == {b"%d " % at + queue.encode(): ACCEPTED for at in found}
        assert bodies(site, "n1", queue) == [b"%d " % at + queue.encode() for at in (1, 2, 3, 6)]


@pytest.mark.requirement("B7.8")
@pytest.mark.parametrize("queues", [(QUEUE,), QUEUES])
def test_a_commit_on_its_way_does_not_come_behind_the_next_attach(
    site: Site, classic: Client, queues: tuple[str, ...]
) -> None:
    name = owner(site)
    first, second = (each for each in site.nodes if each != name)
    link = Poster(site, first, queues=queues).wait()
    txn_id = link.declare()
    link.post(txn_id, b"1")
    link.post(txn_id, b"2", queue=queues[-1])
    site.run(0.1)
    mend = isolate(site, first)
    discharged = link.ask(txn_id)
    again = Poster(site, second, [b"1", b"2"], queues=queues).wait()
    assert not again.told(), "the transaction is not committed"
    again.post(b"", b"1")
    again.post(b"", b"2", queue=queues[-1])
    site.until(lambda: all(again.outcome(number) == ACCEPTED for number in again.numbers.values()))
    mend()
    site.run(9.0)
    assert link.outcome(discharged) != ACCEPTED
    assert sorted(body for queue in queues for body in bodies(site, name, queue)) == [b"1", b"2"]


def _killed(site: Site, kill: str, first: str) -> Callable[[], None]:
    """Kill a node; returns what starts it again."""
    node = site.nodes[first if kill == "front end" else owner(site)]
    node.stop(power=True)
    return node.start


@pytest.mark.requirement("B7.10", "B7.8")
@pytest.mark.parametrize("kill", ["front end", "owner", "connection"])
@pytest.mark.parametrize("ran_ms", range(0, 24, 2))
def test_each_message_of_a_transaction_comes_once_whichever_node_dies(
    site: Site, classic: Client, kill: str, ran_ms: int
) -> None:
    first, second = (each for each in site.nodes if each != owner(site))
    link = Poster(site, first, queues=QUEUES).wait()
    txn_id = link.declare()
    for queue in QUEUES:
        link.post(txn_id, b"in " + queue.encode(), queue=queue)
    site.run(0.1)
    link.ask(txn_id)
    site.run(ran_ms / 1000)
    start = (lambda: None) if kill == "connection" else _killed(site, kill, first)
    if kill != "front end":
        link.lose()
    again = Poster(site, second, [b"in " + queue.encode() for queue in QUEUES], queues=QUEUES)
    site.run(3.0)
    start()
    again.wait()
    assert bool(again.told()) == bool(again.told(CLASSIC)), "a transaction takes effect wholly or not at all"
    for queue in QUEUES:
        if not again.told(queue):
            again.post(b"", b"in " + queue.encode(), queue=queue)
    site.until(lambda: all(again.outcome(number) == ACCEPTED for number in again.numbers.values()))
    site.run(9.0)
    for queue in QUEUES:
        assert bodies(site, second, queue) == [b"in " + queue.encode()]


@pytest.mark.parametrize("ran_ms", range(0, 12, 2))
@pytest.mark.parametrize("queues", [(QUEUE,), QUEUES])
def test_a_delivery_that_the_client_settles_before_the_outcome_is_not_kept(
    site: Site, classic: Client, queues: tuple[str, ...], ran_ms: int
) -> None:
    link = Poster(site, "n2", queues=queues).wait()
    txn_id = link.declare()
    for queue in queues:
        link.post(txn_id, queue.encode(), queue=queue)
    link.post(txn_id, b"left")
    asked = link.ask(txn_id)
    site.run(ran_ms / 1000)
    link.settle(*(queue.encode() for queue in queues))
    site.until(lambda: link.outcome(asked))
    assert link.outcome(asked) == ACCEPTED
    site.until(lambda: kept_tags(site) == {b"left"})


@pytest.mark.parametrize("closed", [True, False])
def test_a_transaction_fails_whose_link_has_ended_with_its_target_kept(
    site: Site, client: Client, closed: bool
) -> None:
    """Another link may have the target when the transaction is committed."""
    link = Poster(site, "n2").wait()
    txn_id = link.declare()
    link.post(txn_id, b"1")
    link.send(d.Detach(0, closed))
    outcome = link.discharge(txn_id)
    if closed:
        assert outcome == ACCEPTED and bodies(site, "n1") == [b"1"]
    else:
        assert outcome.error.condition == "amqp:transaction:rollback" and not bodies(site, "n1")
    assert not kept_tags(site)


def test_a_transaction_fails_whose_link_has_been_stolen(site: Site, client: Client) -> None:
    link = Poster(site, "n2").wait()
    txn_id = link.declare()
    link.post(txn_id, b"1")
    again = Poster(site, "n3", [b"1"]).wait()
    assert not again.told()
    outcome = link.discharge(txn_id)
    assert outcome.error.condition == "amqp:transaction:rollback" and not bodies(site, "n1")


@pytest.mark.interpreted
def test_transactions_leave_no_tags_before_all_nodes_read_them(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.LINKS_IN_LOGS", FORMAT_LEVEL + 1)
    link = Poster(site, "n2").wait()
    txn_id = link.declare()
    link.post(txn_id, b"1")
    assert link.discharge(txn_id) == ACCEPTED
    assert not kept_tags(site) and bodies(site, "n1") == [b"1"]
