"""The error with which a client of AMQP 1.0 rejects a message is told by the dead letter (AMQP 1.0, part 3
§3.4.3), whatever becomes of owners.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from cluster.owner import annotating
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Accepted, Error, Rejected
from tests.cluster.kinds import KINDS, declare
from tests.cluster.links import LinkClient
from tests.cluster.test_modified_annotations import (
    BODY,
    DEAD_LETTERS,
    came,
    modify,
    owner,
    remarked,
    sent,
    settle_in_a_transaction,
)
from tests.site import Site
from tests.wire.amqp10.performatives import credit, receiver, settled
from tests.wire.amqp10.sections import message

ERROR = Error("app:unreadable", "no such field", {"field": "price", "at": [7, None]})
TOLD = {
    "x-opt-rejected-condition": "app:unreadable",
    "x-opt-rejected-description": "no such field",
    "x-opt-rejected-info": {"field": "price", "at": [7, None]},
}

pytestmark = pytest.mark.requirement("B6.3")


@pytest.fixture
def site() -> Site:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("dead")
    return site


def reject(site: Site, queue: str, state: Any, name: str = "n2", count: int = 1) -> LinkClient:
    """Take messages and reject them."""
    link = LinkClient(site, name, receiver(0, queue), credit(count))
    assert len(link.payloads) == count
    link.send(settled(0, count - 1, state))
    site.run(0.5)
    return link


def errors(site: Site, name: str = "n3") -> list[dict[Any, Any]]:
    """The errors that the dead letters tell."""
    found = came(site, "dead", name)
    assert all(one["x-first-death-reason"] == "rejected" for one in found)
    return [{key: one[key] for key in one if key.startswith("x-opt-rejected-")} for one in found]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("kind", [one for one in KINDS if one != "exclusive"])
def test_the_dead_letter_tells_the_error(site: Site, kind: str, durable: bool) -> None:
    queue = declare(site.client("n1"), kind, **DEAD_LETTERS)
    sent(site, queue, d.Header(durable=durable).encode() + BODY)
    link = reject(site, queue, Rejected(ERROR))
    assert not any(isinstance(one, d.Detach) for one in link.reads())
    assert errors(site) == [TOLD]
    assert not remarked(site)


def test_each_dead_letter_tells_its_own_error(site: Site) -> None:
    site.client("n1").declare("q", **DEAD_LETTERS)
    sent(site, "q", *[message(body=b"%d" % number) for number in range(5)])
    link = LinkClient(site, "n2", receiver(0, "q"), credit(5))
    assert len(link.payloads) == 5
    link.send(
        settled(0, 1, Rejected(Error("a"))), settled(2, None, Rejected()),
        settled(3, 3, Rejected(Error("b", "why"))), settled(4, 4, Accepted()),
    )  # fmt: skip
    site.run(0.5)
    first = {"x-opt-rejected-condition": "a"}
    second = {"x-opt-rejected-condition": "b", "x-opt-rejected-description": "why"}
    assert errors(site) == [first, first, {}, second]


@pytest.mark.parametrize("mode", [1, 2])
def test_a_message_of_0_9_1_has_the_error_for_clients_of_both_protocols(site: Site, mode: int) -> None:
    client = site.client("n1")
    client.declare("q", **DEAD_LETTERS)
    for _ in range(2):
        client.confirms(client.publish("q", b"body", headers={"n": "7"}, message_id="id", delivery_mode=mode))
    reject(site, "q", Rejected(ERROR), count=2)
    found = client.get("dead")
    assert found is not None and (found.body, found.properties.message_id) == (b"body", "id")
    assert {name: found.headers[name] for name in ("n", *TOLD)} == {"n": "7", **TOLD}
    assert found.headers["x-death"][0]["reason"] == "rejected"
    assert errors(site) == [TOLD]


def test_a_later_rejection_tells_its_error_in_place_of_the_first(site: Site) -> None:
    client = site.client("n1")
    client.declare("buried")
    client.delete("dead")
    client.declare("dead", dead_letter_exchange="", dead_letter_routing_key="buried")
    client.declare("q", **DEAD_LETTERS)
    sent(site, "q", BODY)
    reject(site, "q", Rejected(Error("a", "first")))
    reject(site, "dead", Rejected(Error("b", "second")))
    (found,) = came(site, "buried")
    assert (found["x-opt-rejected-condition"], found["x-opt-rejected-description"]) == ("b", "second")
    assert found["x-opt-own"] == "own"


def test_a_queue_without_a_dead_letter_exchange_keeps_nothing_of_it(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    sent(site, "q", BODY, BODY)
    reject(site, "q", Rejected(ERROR), count=2)
    assert client.depth("q") == 0 and not remarked(site)


# -- failovers, limits, transactions, releases ----------------------------------------------------------


@pytest.mark.parametrize("power", [False, True])
def test_a_rejection_on_its_way_to_a_lost_owner_comes_to_the_next(site: Site, power: bool) -> None:
    site.client("n1").declare("q", **DEAD_LETTERS)
    sent(site, "q", BODY)
    lost = owner(site)
    near = next(name for name in site.nodes if name != lost)
    link = LinkClient(site, near, receiver(0, "q"), credit(1))
    assert len(link.payloads) == 1
    site.nodes[lost].stop(power=power)
    link.send(settled(0, None, Rejected(ERROR)), d.Detach(0, True))
    site.run(8.0)
    assert errors(site, near) == [TOLD]


@pytest.mark.interpreted
def test_a_message_whose_error_has_no_room_dies_without(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.client("n1").declare("q", **DEAD_LETTERS)
    sent(site, "q", BODY)
    modify(site, "q", {"x-opt-a": "x" * 400})
    monkeypatch.setattr(annotating, "QUEUE_OCTETS", 300)
    link = reject(site, "q", Rejected(ERROR))
    assert not any(isinstance(one, d.Detach) for one in link.reads())
    (found,) = came(site, "dead")
    assert found["x-opt-a"] == "x" * 400 and not TOLD.keys() & found.keys()


@pytest.mark.parametrize("queues", [("q",), ("q", "r", "s")])
@pytest.mark.parametrize("fail", [False, True])
def test_in_a_transaction_the_error_comes_with_the_commit(
    site: Site, queues: tuple[str, ...], fail: bool
) -> None:
    """Queues of different kinds have different partitions, which prepare the transaction."""
    client = site.client("n1")
    for queue, kind in zip(queues, ("replicated", "classic", "transient"), strict=False):
        client.declare(queue, **KINDS[kind], **DEAD_LETTERS)
        sent(site, queue, BODY)
    settle_in_a_transaction(site, queues, Rejected(ERROR), fail)
    assert errors(site) == ([] if fail else [TOLD] * len(queues))
    assert sum(client.depth(queue) for queue in queues) == (len(queues) if fail else 0)


@pytest.mark.interpreted
def test_while_a_member_does_not_read_errors_they_are_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.ERRORS_OF_REJECTIONS", FORMAT_LEVEL + 1)
    site.client("n1").declare("q", **DEAD_LETTERS)
    sent(site, "q", BODY)
    reject(site, "q", Rejected(ERROR))
    assert errors(site) == [{}]
