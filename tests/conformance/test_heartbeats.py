"""The specification's sentences about heartbeats (§4.2.7)."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from pika import frame, spec

from tests.conformance.conftest import Connect
from tests.conformance.raw import RawClient, method, octets
from tests.conformance.test_negotiation import events
from tests.processes.nodes import Node

INTERVAL_S = 1
BEAT = octets(spec.FRAME_HEARTBEAT, 0, b"")
SLACK_S = 0.6
"""The tolerance of intervals on a busy machine, in seconds."""


def beats(client: RawClient, count: int) -> list[float]:
    """When so many heartbeats came, each answered by one."""
    came: list[float] = []
    while len(came) < count:
        assert isinstance(client.frame(), frame.Heartbeat)
        came.append(time.monotonic())
        client.send(BEAT)
    return came


@pytest.mark.sentence("4.2.7-4", "4.2.7-5")
def test_heartbeats_come_at_the_agreed_interval(node: Node) -> None:
    """From Tune-Ok on: the connection need not be open."""
    client = RawClient(node.amqp)
    client.log_in()
    client.send((0, spec.Connection.TuneOk(0, 131_072, INTERVAL_S)))
    began = time.monotonic()
    came = [began, *beats(client, 3)]
    assert all(later - earlier < INTERVAL_S + SLACK_S for earlier, later in pairwise(came))
    client.send(BEAT, BEAT, (0, spec.Connection.Open("/")), BEAT)
    assert client.until(spec.Connection.OpenOk, 0)
    client.vanish()


@pytest.mark.requirement("A8.1", "A8.2")
@pytest.mark.sentence("4.2.7-4", "4.2.7-6", "4.2.7-7")
def test_two_silent_intervals_close_the_connection_without_a_word(node: Node, connect: Connect) -> None:
    before = len(events(node, "heartbeat_missed"))
    client = connect(1, heartbeat=INTERVAL_S)
    for octet in BEAT[:6]:
        # A frame that does not end keeps the connection alive for three intervals: any octet will do.
        client.send(bytes((octet,)))
        client.frame()
    last = time.monotonic()
    client.send(BEAT[6:])
    found = client.rest()
    assert time.monotonic() - last > 2 * INTERVAL_S - SLACK_S / 2
    assert found and all(isinstance(one, frame.Heartbeat) for one in found)
    assert len(events(node, "heartbeat_missed")) == before + 1


@pytest.mark.requirement("A8.3")
@pytest.mark.sentence("4.2.7-8")
def test_heartbeats_go_on_while_the_connection_is_closed(connect: Connect) -> None:
    client = connect(1, heartbeat=INTERVAL_S)
    client.send(method(0, spec.Connection.TuneOk(0, 131_072, 0)))
    assert client.method(spec.Connection.Close, 0).reply_code == 503
    beats(client, 2)
    client.send((0, spec.Connection.CloseOk()))
    assert all(isinstance(one, frame.Heartbeat) for one in client.rest())
