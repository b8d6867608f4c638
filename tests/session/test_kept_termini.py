"""Termini that the node keeps without their link (AMQP 1.0, part 3, sections 3.5.3, 3.5.5 and 3.5.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.session.amqp10.subscriptions import EXCLUSIVE
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TerminusDurability, TerminusExpiryPolicy
from node.wire.amqp10.retention import (
    MOST_TIMEOUT_S,
    UNTIL_DETACH,
    Keeping,
    LinkEnd,
    Retention,
    granted,
    keeping,
)
from tests.session.attached import Client, NodeBroker
from tests.session.test_dynamic_nodes import dynamic_receiver, dynamic_sender, terminus
from tests.wire.amqp10.peer import error_in
from tests.wire.amqp10.performatives import begin, credit, receiver

NAME = "amq.gen-1"
ADDRESS = f"/queues/{NAME}"

Attaching = Callable[..., d.Attach]

both = pytest.mark.parametrize("attaching", [dynamic_receiver, dynamic_sender], ids=["source", "target"])


def kept(policy: TerminusExpiryPolicy) -> Retention:
    return Retention(TerminusDurability.NONE, policy, 0)


# -- what is granted ----------------------------------------------------------------------------------


@pytest.mark.requirement("B11.7", "B11.8", "B11.9", "B11.10")
@pytest.mark.parametrize("policy", TerminusExpiryPolicy)
@pytest.mark.parametrize("timeout", [0, 30])
@pytest.mark.parametrize("may_last", [True, False])
def test_a_terminus_is_kept_as_asked_or_for_less(
    policy: TerminusExpiryPolicy, timeout: int, may_last: bool
) -> None:
    asked = d.Source("/exchanges/e", TerminusDurability.CONFIGURATION, policy, timeout)
    found = granted(asked, may_last=may_last)
    lasting = policy is TerminusExpiryPolicy.NEVER or timeout > 0
    if not lasting:
        assert found == kept(policy)
    elif not may_last:
        assert found == kept(TerminusExpiryPolicy.CONNECTION_CLOSE)
    elif policy is TerminusExpiryPolicy.NEVER:
        assert found == Retention(TerminusDurability.CONFIGURATION, policy, 0) and found.lasts
    else:
        wanted = Retention(TerminusDurability.CONFIGURATION, TerminusExpiryPolicy.LINK_DETACH, 30)
        assert found == wanted and found.lasts


@pytest.mark.requirement("B11.4", "B11.5")
@pytest.mark.parametrize(
    ("asked", "durable"),
    [
        (TerminusDurability.NONE, TerminusDurability.NONE),
        (TerminusDurability.CONFIGURATION, TerminusDurability.CONFIGURATION),
        (TerminusDurability.UNSETTLED_STATE, TerminusDurability.CONFIGURATION),
    ],
)
def test_the_configuration_is_durable_and_the_unsettled_state_is_not(
    asked: TerminusDurability, durable: TerminusDurability
) -> None:
    source = d.Source("/exchanges/e", asked, TerminusExpiryPolicy.NEVER)
    assert granted(source, may_last=True).durable is durable


def test_a_timeout_has_an_upper_bound() -> None:
    asked = d.Source("/exchanges/e", timeout=2**32 - 1)
    assert granted(asked, may_last=True).timeout_s == MOST_TIMEOUT_S < 2**32 // 1000


@pytest.mark.requirement("B11.7", "B11.8", "B11.9", "B11.10")
@pytest.mark.parametrize(
    ("retention", "fates"),
    [
        (UNTIL_DETACH, "gone gone gone gone"),
        (kept(TerminusExpiryPolicy.SESSION_END), "kept_by_session gone gone gone"),
        (kept(TerminusExpiryPolicy.CONNECTION_CLOSE), "kept gone gone kept"),
        (kept(TerminusExpiryPolicy.NEVER), "kept gone kept kept"),
        (Retention(TerminusDurability.NONE, TerminusExpiryPolicy.LINK_DETACH, 9), "kept gone kept kept"),
    ],
    ids=["link-detach", "session-end", "connection-close", "never", "timeout"],
)
def test_how_long_a_terminus_is_kept(retention: Retention, fates: str) -> None:
    found = [keeping(retention, end) for end in LinkEnd]
    assert found == [Keeping[fate.upper()] for fate in fates.split()]


# -- dynamic nodes --------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("policy", "gone_by"),
    [
        pytest.param("link-detach", 1, marks=pytest.mark.requirement("B11.7")),
        pytest.param("session-end", 2, marks=pytest.mark.requirement("B11.8")),
        pytest.param("connection-close", 3, marks=pytest.mark.requirement("B11.9")),
    ],
)
def test_a_dynamic_node_lives_as_long_as_its_terminus(
    client: Client, broker: NodeBroker, attaching: Attaching, policy: str, gone_by: int
) -> None:
    attach = client.send(attaching(expiry_policy=TerminusExpiryPolicy(policy)))[0]
    found = terminus(attach)
    assert (found.expiry_policy, found.timeout, found.durable) == (policy, 0, TerminusDurability.NONE)
    for number, end in enumerate([d.Detach(0, False), d.End(), d.Close()], 1):
        client.send(end)
        assert (broker.deleted == [NAME]) is (number >= gone_by) or number == 3
    assert not broker.holders, "the broker deletes what is left with the connection"


@pytest.mark.requirement("B11.8")
@both
def test_a_peer_goes_on_with_its_dynamic_node(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    client.send(attaching())
    client.send(d.Detach(0, False))
    asked = attaching()
    end = asked.source if asked.role is d.Role.RECEIVER else asked.target
    end.address, end.dynamic = ADDRESS, False
    again = client.send(asked)[0]
    assert terminus(again).address == ADDRESS and broker.declared == [EXCLUSIVE] and broker.deleted == []
    client.send(d.Detach(0, True))
    assert broker.deleted == [NAME], "a peer that closes the link ends the node"
    client.send(d.End())
    assert broker.deleted == [NAME]


@pytest.mark.requirement("B11.9")
def test_another_session_of_the_connection_goes_on_with_a_terminus(
    client: Client, broker: NodeBroker
) -> None:
    closing = TerminusExpiryPolicy.CONNECTION_CLOSE
    client.send(dynamic_receiver(expiry_policy=closing))
    client.send(d.Detach(0, False))
    client.send(d.End())
    client.send(begin())
    asked = receiver(0, source=d.Source(expiry_policy=closing))
    asked.source = None
    (attach,) = client.send(asked)[-1:]
    assert (attach.source.address, attach.source.expiry_policy) == (ADDRESS, closing)
    assert broker.deleted == [] and list(broker.consumed.values()) == [NAME]


@pytest.mark.requirement("B11.8")
def test_a_link_that_goes_before_it_is_attached_leaves_its_terminus(
    client: Client, broker: NodeBroker
) -> None:
    asked = receiver(0, source=d.Source("/exchanges/e"))
    client.send(asked)
    client.send(d.Detach(0, False))
    client.send(asked, d.Detach(0, False))
    assert broker.deleted == [] and not broker.consumers
    assert client.send(asked)[0].source.address == "/exchanges/e"
    assert list(broker.consumed.values()) == [NAME]
    client.send(d.End())
    assert broker.deleted == [NAME]


def test_a_link_without_a_source_needs_a_terminus_that_is_kept(client: Client, broker: NodeBroker) -> None:
    asked = receiver(0)
    asked.source = None
    attach, detach = client.send(asked)
    assert attach.source is None and detach.closed
    assert error_in(detach, d.Detach).condition == "amqp:not-found"
    assert broker.declared == []


@both
def test_a_link_whose_peer_wants_a_new_node_has_both_until_they_end(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    client.send(attaching())
    client.send(d.Detach(0, False))
    assert terminus(client.send(attaching())[0]).address == "/queues/amq.gen-2"
    client.send(d.Detach(0, True))
    assert broker.deleted == ["amq.gen-2"]
    client.send(d.End())
    assert broker.deleted == ["amq.gen-2", NAME] and not broker.consumers


def test_a_session_that_ends_keeps_nothing_of_its_own(client: Client, broker: NodeBroker) -> None:
    client.send(dynamic_receiver(0), dynamic_receiver(1))
    client.send(d.Detach(1, False), credit(1))
    client.send(d.End())
    assert sorted(broker.deleted) == ["amq.gen-1", "amq.gen-2"] and not broker.consumers
