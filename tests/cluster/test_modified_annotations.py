"""The message annotations of the outcome modified are the message's from then on: for each later delivery,
whatever becomes of owners (AMQP 1.0, part 3 §3.4.5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from cluster.config.formats import FORMAT_LEVEL
from cluster.owner import annotating
from node.queue.partition import PartitionMachine
from node.queue.queue import WITH_REMARKS, QueueState
from node.queue.remarks import Remarks, Subject, put_remark
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Accepted, AmqpCondition, Modified
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.messages import annotation_pairs, facts_of, header_in
from node.wire.amqp10.values import Symbol
from node.wire.formats import AMQP_0_9_1, AMQP_1_0
from tests.cluster.kinds import KINDS, declare
from tests.cluster.links import LinkClient
from tests.inside import state_of
from tests.queue.building import keyed_run
from tests.site import Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender, settled
from tests.wire.amqp10.sections import annotated, application, message
from tests.wire.amqp10.transacting import control, coordinator, within

BODY = message(annotated(x_opt_own="own", x_opt_a="first"), application(n=1), body=b"body")
DEAD_LETTERS = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}

pytestmark = pytest.mark.requirement("B6.9")


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


def sent(site: Site, queue: str, *messages: bytes, name: str = "n1") -> None:
    link = LinkClient(site, name, sender(0, queue))
    told = [link.send(transfer(number, one)) for number, one in enumerate(messages)]
    assert all(isinstance(answer.state, Accepted) for (answer,) in told)


def settle_in_a_transaction(site: Site, queues: tuple[str, ...], outcome: Any, fail: bool) -> None:
    """Take the message of each queue, and give all of them this outcome in one transaction."""
    link = LinkClient(
        site, "n2", coordinator(9), *(receiver(at, queue) for at, queue in enumerate(queues)),
        *(credit(1, handle=at) for at in range(len(queues))),
    )  # fmt: skip
    assert len(link.payloads) == len(queues)
    (told,) = link.send(transfer(0, control(d.Declare()), 9))
    state = within(told.state.txn_id, outcome)
    link.send(settled(0, len(queues) - 1, state))
    (told,) = link.send(transfer(1, control(d.Discharge(state.txn_id, fail)), 9))
    assert told.state == Accepted()
    link.send(*(d.Detach(at, True) for at in range(len(queues))))
    site.run(1.0)


def modified(annotations: dict[str, Any], failed: bool = False, undeliverable_here: bool = False) -> Modified:
    return Modified(failed, undeliverable_here, annotations)


def modify(site: Site, queue: str, annotations: dict[str, Any], name: str = "n2", **fields: bool) -> bytes:
    """Take a message and give it back with annotations; returns the message as it came."""
    link = LinkClient(site, name, receiver(0, queue), credit(1))
    (octets,) = link.payloads
    link.send(settled(0, None, modified(annotations, **fields)), d.Detach(0, True))
    site.run(0.2)
    return octets


def annotations_of(octets: bytes) -> dict[Any, Any]:
    return dict(annotation_pairs(octets, facts_of(octets, 0, len(octets)).sections.message_annotations))


def came(site: Site, queue: str, name: str = "n3") -> list[dict[Any, Any]]:
    """The message annotations of each message of the queue, which are taken."""
    link = LinkClient(site, name, receiver(0, queue), credit(99))
    found = [annotations_of(one) for one in link.payloads]
    if found:
        link.send(settled(0, len(found) - 1, Accepted()))
    return found


def owner(site: Site) -> str:
    """The node that owns the queues with annotations, or any queue."""
    owning = {
        name: sum(1 + 9 * len(queue.state.remarks) for queue in queues_on(site, name) if queue.owned)
        for name, node in site.nodes.items()
        if node.ready
    }
    return max(owning, key=owning.__getitem__)


class QueueOn(NamedTuple):
    """A replica of a queue on a node."""

    state: QueueState
    owned: bool


def queues_on(site: Site, name: str) -> list[QueueOn]:
    return [
        QueueOn(state, number in one.queues)
        for one in site.nodes[name].broker.owners.values()
        for number, state in state_of(one).machine.queues.items()
    ]


def remarked(site: Site) -> int:
    """The number of replicas of queues with octets about messages."""
    return sum(bool(queue.state.remarks) for name in site.nodes for queue in queues_on(site, name))


def resuming(site: Site) -> bool:
    """Whether an owner has yet to take over leases that a front end has told."""
    owners = [state_of(one) for node in site.nodes.values() for one in node.broker.owners.values()]
    return any(any(told.held.values()) for one in owners for told in one.front_ends.greeting.values())


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("kind", [one for one in KINDS if one != "exclusive"])
def test_a_later_delivery_has_the_annotations_of_all_modifications(
    site: Site, kind: str, durable: bool
) -> None:
    client = site.client("n1")
    queue = declare(client, kind)
    sent(site, queue, d.Header(durable=durable).encode() + BODY)
    modify(site, queue, {"x-opt-a": "second", "x-opt-b": 2, "c": [1, {"k": b"v"}]})
    octets = modify(site, queue, {"x-opt-b": 3}, failed=True)
    assert header_in(octets).delivery_count in (None, 0)
    assert annotations_of(octets) == {
        "x-opt-own": "own", "x-opt-a": "second", "x-opt-b": 2, "c": [1, {"k": b"v"}]
    }  # fmt: skip
    assert octets.endswith(message(application(n=1), body=b"body")), "the bare message stays as it is"
    assert came(site, queue) == [
        {"x-opt-own": "own", "x-opt-a": "second", "x-opt-b": 3, "c": [1, {"k": b"v"}]}
    ]


def test_other_messages_of_the_disposition_have_them_and_no_others(site: Site) -> None:
    site.client("n1").declare("q")
    sent(site, "q", *[message(body=b"%d" % number) for number in range(5)])
    link = LinkClient(site, "n2", receiver(0, "q"), credit(5))
    assert len(link.payloads) == 5
    link.send(settled(1, 3, modified({"x-opt-a": 1})), settled(2, None, Accepted()), d.Detach(0, True))
    site.run(0.2)
    assert came(site, "q") == [{}, {"x-opt-a": 1}, {"x-opt-a": 1}, {"x-opt-a": 1}, {}]


@pytest.mark.parametrize("failed", [False, True])
def test_it_counts_as_failed_and_comes_to_other_links_alone(site: Site, failed: bool) -> None:
    site.client("n1").declare("q")
    sent(site, "q", BODY)
    link = LinkClient(site, "n2", receiver(0, "q"), credit(9))
    assert len(link.payloads) == 1
    link.send(settled(0, None, modified({"x-opt-a": 7}, failed, True)))
    assert len(link.payloads) == 1
    other = LinkClient(site, "n3", receiver(0, "q"), credit(9))
    (octets,) = other.payloads
    assert annotations_of(octets)["x-opt-a"] == 7
    assert (header_in(octets).delivery_count or 0) == failed


@pytest.mark.parametrize("lease_period", [None, 60_000])
def test_a_front_end_that_greets_again_has_its_annotations_taken(
    site: Site, lease_period: int | None
) -> None:
    """Its connection to the owner breaks while it has two messages, of which one goes back before the owner,
    whose entries are on their way, has taken over the leases again.
    """
    client = site.client("n1")
    client.declare("q", **{} if lease_period is None else {"lease_period": lease_period})
    sent(site, "q", message(body=b"0"), message(body=b"1"))
    far = next(name for name in site.nodes if name != owner(site))
    link = LinkClient(site, far, receiver(0, "q"), credit(2))
    assert len(link.payloads) == 2
    site.network.break_connection(far, owner(site))
    site.until(lambda: client.publish("q", b"filler") and resuming(site), step_s=0.0005)
    link.send(settled(0, None, modified({"x-opt-a": 1})))
    site.run(0.5)
    first, *others = came(site, "q")
    assert first == {"x-opt-a": 1} and not any(others)


# -- protocols ------------------------------------------------------------------------------------------


def test_a_client_of_0_9_1_gets_them_as_headers(site: Site) -> None:
    client = site.client("n3")
    client.declare("q")
    sent(site, "q", BODY)
    modify(site, "q", {"x-opt-a": "given", "x-opt-n": 5})
    found = client.get("q")
    assert found is not None and found.body == b"body"
    assert {name: found.headers[name] for name in ("x-opt-own", "x-opt-a", "x-opt-n", "n")} == {
        "x-opt-own": "own", "x-opt-a": "given", "x-opt-n": 5, "n": 1,
    }  # fmt: skip


@pytest.mark.parametrize("mode", [1, 2])
def test_a_message_of_0_9_1_has_them_for_clients_of_both_protocols(site: Site, mode: int) -> None:
    client = site.client("n1")
    client.declare("q")
    headers = {"n": "7", "x-mine": "yes"}
    client.confirms(
        client.publish("q", b"body", headers=headers, message_id="id", delivery_mode=mode, priority=3)
    )
    assert annotations_of(modify(site, "q", {"x-opt-a": 1, "other": 2})) == {"x-mine": "yes"}
    octets = modify(site, "q", {"x-opt-b": 2})
    assert annotations_of(octets) == {"x-mine": "yes", "x-opt-a": 1, "other": 2}
    found = client.get("q")
    assert found is not None and (found.body, found.properties.message_id) == (b"body", "id")
    assert (found.properties.priority, found.properties.delivery_mode) == (3, mode)
    for name, value in {**headers, "x-opt-a": 1, "x-opt-b": 2}.items():
        assert found.headers[name] == value


def test_messages_of_a_run_with_several_routing_keys_have_them() -> None:
    remarks: Remarks = {}
    put_remark(remarks, Subject.ANNOTATIONS, [(11, 12), (20, 20)], encode_amqp({Symbol("x-opt-a"): 1}))
    run = keyed_run(["a", "bb", "ccc", "d", "e"])
    found = list(annotating.annotated(remarks, [(10, 12), (20, 21)], run))
    assert [(ranges, one.format, one.routing_key) for ranges, one in found] == [
        ([(10, 10)], AMQP_0_9_1, None), ([(11, 11)], AMQP_1_0, "bb"), ([(12, 12)], AMQP_1_0, "ccc"),
        ([(20, 20)], AMQP_1_0, "d"), ([(21, 21)], AMQP_0_9_1, None),
    ]  # fmt: skip
    (octets,) = found[1][1].contents()
    assert annotations_of(octets)["x-opt-a"] == 1


def test_annotations_of_the_node_cannot_be_forged(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", **DEAD_LETTERS)
    client.declare("dead")
    client.declare("elsewhere")
    sent(site, "q", message())
    forged = {"x-cc": ["elsewhere"], "x-opt-deaths": "no", "x-first-death-queue": "z", "x-delay": 9}
    modify(site, "q", {**forged, "ok": 1})
    link = LinkClient(site, "n2", receiver(0, "q"), credit(1))
    (octets,) = link.payloads
    assert annotations_of(octets) == {"ok": 1}
    link.send(settled(0, None, d.Rejected()))
    site.run(0.5)
    assert (client.depth("dead"), client.depth("elsewhere")) == (1, 0)


# -- what becomes of the message ------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("limit", [False, True])
def test_a_dead_letter_has_them(site: Site, limit: bool, durable: bool) -> None:
    """With the limit the modification that is one too many counts as well."""
    client = site.client("n1")
    client.declare("dead")
    client.declare("q", **DEAD_LETTERS, **({"delivery_limit": 1} if limit else {}))
    sent(site, "q", d.Header(durable=durable).encode() + BODY)
    modify(site, "q", {"x-opt-a": "kept"}, failed=True)
    link = LinkClient(site, "n3", receiver(0, "q"), credit(1))
    assert len(link.payloads) == 1
    link.send(settled(0, None, modified({"x-opt-b": 2}, True) if limit else d.Rejected()))
    site.run(0.5)
    (found,) = came(site, "dead")
    assert (found["x-opt-a"], found.get("x-opt-b")) == ("kept", 2 if limit else None)
    assert "x-opt-deaths" in found
    assert not remarked(site)


def test_a_browsing_link_sees_them(site: Site) -> None:
    site.client("n1").declare("q")
    sent(site, "q", BODY)
    modify(site, "q", {"x-opt-a": 9})
    browser = LinkClient(site, "n3", receiver(0, source=d.Source("q", distribution_mode="copy")), credit(9))
    (octets,) = browser.payloads
    assert annotations_of(octets)["x-opt-a"] == 9
    assert came(site, "q")[0]["x-opt-a"] == 9


@pytest.mark.parametrize("way", ["accepted", "purged", "expired", "deleted"])
def test_the_octets_leave_with_the_message(site: Site, way: str) -> None:
    client = site.client("n1")
    client.declare("q", message_ttl=5000)
    sent(site, "q", BODY)
    modify(site, "q", {"x-opt-a": 9})
    assert remarked(site) == 3
    site.run(4.0 if way == "expired" else 0.0)
    if way == "accepted":
        assert len(came(site, "q")) == 1
    elif way == "purged":
        assert client.purge("q") == 1
    elif way == "deleted":
        client.delete("q")
    site.run(1.0)
    assert not remarked(site)


# -- failovers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [False, True])
def test_they_survive_a_lost_owner(site: Site, power: bool) -> None:
    site.client("n1").declare("q")
    sent(site, "q", BODY, message(body=b"other"))
    modify(site, "q", {"x-opt-a": "kept"})
    lost = owner(site)
    site.nodes[lost].stop(power=power)
    site.run(5.0)
    living = [name for name in site.nodes if name != lost]
    found = modify(site, "q", {"x-opt-b": 2}, name=living[0])
    assert annotations_of(found) == {"x-opt-own": "own", "x-opt-a": "kept"}
    site.nodes[lost].start()
    site.run(5.0)
    assert came(site, "q", lost) == [{"x-opt-own": "own", "x-opt-a": "kept", "x-opt-b": 2}, {}]


@pytest.mark.interpreted
def test_they_survive_a_snapshot_and_a_restart_of_all_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore, versions = PartitionMachine.restore, list[int]()

    def restored(machine: PartitionMachine, data: bytes) -> None:
        versions.append(data[0])
        restore(machine, data)

    monkeypatch.setattr(PartitionMachine, "restore", restored)
    site.client("n1").declare("q")
    sent(site, "q", BODY)
    for number in range(20):
        modify(site, "q", {"x-opt-a": "kept", "filling": str(number) * 9000})
    for node in site.nodes.values():
        node.stop(power=True)
    for node in site.nodes.values():
        node.start()
    site.run(5.0)
    assert WITH_REMARKS in versions
    (found,) = came(site, "q")
    assert (found["x-opt-a"], found["filling"]) == ("kept", "19" * 9000)


def test_a_modification_on_its_way_to_a_lost_owner_comes_to_the_next(site: Site) -> None:
    site.client("n1").declare("q")
    sent(site, "q", BODY)
    lost = owner(site)
    near = next(name for name in site.nodes if name != lost)
    link = LinkClient(site, near, receiver(0, "q"), credit(1))
    assert len(link.payloads) == 1
    site.nodes[lost].stop(power=False)
    link.send(settled(0, None, modified({"x-opt-a": "kept"})), d.Detach(0, True))
    site.run(5.0)
    assert came(site, "q", near) == [{"x-opt-own": "own", "x-opt-a": "kept"}]


# -- limits ---------------------------------------------------------------------------------------------


def test_a_message_gets_64_kib_of_annotations_and_no_more(site: Site) -> None:
    site.client("n1").declare("q")
    sent(site, "q", message())
    part = "x" * 30_000
    for name in ("a", "b"):
        modify(site, "q", {name: part})
    link = LinkClient(site, "n2", receiver(0, "q"), credit(1))
    assert len(link.payloads) == 1
    told = link.send(settled(0, None, modified({"c": part})))
    (detach,) = [one for one in told if isinstance(one, d.Detach)]
    assert detach.closed and detach.error.condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    modify(site, "q", {"b": "short"})
    modify(site, "q", {"c": part})
    assert came(site, "q") == [{"a": part, "b": "short", "c": part}], "the message is in its queue"


@pytest.mark.interpreted
def test_a_queue_takes_a_limited_number_of_octets(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotating, "QUEUE_OCTETS", 3000)
    site.client("n1").declare("q")
    sent(site, "q", *[message(body=b"%d" % number) for number in range(4)])
    link = LinkClient(site, "n2", receiver(0, "q"), credit(4))
    assert len(link.payloads) == 4
    told = [link.send(settled(number, None, modified({"a": chr(number) * 1000}))) for number in range(3)]
    assert [[type(one) for one in each] for each in told] == [[], [], [d.Detach]]
    site.run(0.2)
    assert [len(one) for one in came(site, "q")] == [1, 1, 0, 0]


# -- transactions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", [("q",), ("q", "r", "s")])
@pytest.mark.parametrize("fail", [False, True])
def test_in_a_transaction_they_come_with_the_commit(site: Site, queues: tuple[str, ...], fail: bool) -> None:
    client = site.client("n1")
    for queue in queues:
        client.declare(queue)
        sent(site, queue, BODY)
    settle_in_a_transaction(site, queues, modified({"x-opt-a": "kept"}), fail)
    for queue in queues:
        assert [one["x-opt-a"] for one in came(site, queue)] == ["first" if fail else "kept"]


def test_a_commit_with_more_annotations_than_a_message_takes_fails_whole(site: Site) -> None:
    site.client("n1").declare("q")
    site.client("n1").declare("other")
    sent(site, "q", message(body=b"0"))
    modify(site, "q", {"a": "x" * 40_000})
    link = LinkClient(site, "n2", coordinator(9), receiver(0, "q"), credit(1), sender(1, "other"))
    assert len(link.payloads) == 1
    (told,) = link.send(transfer(0, control(d.Declare()), 9))
    transaction = told.state.txn_id
    link.send(transfer(1, BODY, 1, state=d.TransactionalState(transaction)))
    link.send(settled(0, None, within(transaction, modified({"b": "y" * 40_000}))))
    (told,) = link.send(transfer(2, control(d.Discharge(transaction, False)), 9))
    assert told.state.error.condition == "amqp:transaction:rollback"
    link.send(d.Detach(0, True))
    site.run(1.0)
    assert [len(one["a"]) for one in came(site, "q")] == [40_000]
    assert came(site, "other") == []


# -- releases -------------------------------------------------------------------------------------------


@pytest.mark.interpreted
def test_while_a_member_does_not_read_them_they_are_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.REMARKS", FORMAT_LEVEL + 1)
    site.client("n1").declare("q")
    sent(site, "q", BODY)
    modify(site, "q", {"x-opt-a": "lost"}, failed=True)
    assert not remarked(site)
    link = LinkClient(site, "n3", receiver(0, "q"), credit(9))
    (octets,) = link.payloads
    assert annotations_of(octets) == {"x-opt-own": "own", "x-opt-a": "first"}
    assert header_in(octets).delivery_count == 1
