"""basic.get gets one message, or Empty, whatever else happens meanwhile (A17)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.kinds import client, declared
from tests.site import Client, Site

__all__ = ["client", "declared"]

pytestmark = pytest.mark.requirement("A17.5")
NO_ACK = pytest.mark.parametrize("no_ack", [True, False])
BODIES = [b"%d" % number for number in range(8)]


def found(*clients: Client) -> list[bytes]:
    """The messages that the clients get."""
    answers = [each.got() for each in clients]
    return [one.body for one in answers if one is not None]


@NO_ACK
@pytest.mark.parametrize("there", [0, 1, 3, 5])
def test_of_gets_at_once_as_many_find_something_as_there_are_messages(
    client: Client, declared: Any, no_ack: bool, there: int
) -> None:
    queue = declared()
    others = [client.site.client("n1") for _ in range(3)] if queue == "q" else []
    client.confirms(client.publish(queue, *BODIES[:there]))
    asking = [client, *others]
    for each in asking:
        each.ask(queue, no_ack=no_ack)
    assert found(*asking) == BODIES[: min(there, len(asking))]
    assert client.bodies(queue) == BODIES[len(asking) : there]


@NO_ACK
@pytest.mark.parametrize("pause_s", [0.0, 0.0005, 0.002])
def test_what_comes_while_a_get_is_answered_is_there_for_the_next(no_ack: bool, pause_s: float) -> None:
    """Before and after the removal of the message is committed."""
    site = Site("n1", "n2", "n3")
    publisher, getter = site.client("n1"), site.client("n2")
    publisher.declare("q")
    publisher.confirms(publisher.publish("q", BODIES[0]))
    getter.ask("q", no_ack=no_ack)
    for body in BODIES[1:]:
        publisher.publish("q", body)
        site.run(pause_s)
    assert found(getter) == BODIES[:1]
    site.run(0.1)
    assert getter.bodies("q") == BODIES[1:]


@NO_ACK
def test_a_get_behind_one_that_is_being_answered_has_the_next_or_none(no_ack: bool) -> None:
    site = Site("n1", "n2", "n3")
    getters = [site.client(name) for name in ("n2", "n2", "n3")]
    getters[0].declare("q")
    getters[0].confirms(getters[0].publish("q", *BODIES[:2]))
    for each in getters:
        each.ask("q", no_ack=no_ack)
        site.run(0.0003)
    assert sorted(found(*getters)) == BODIES[:2]
    assert getters[0].depth("q") == 0
