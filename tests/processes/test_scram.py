"""Log-ins by SCRAM-SHA-256 at real nodes. The client of AMQP 1.0 is the test's own: those in tests/clients do
not have the mechanism.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from cluster.config.formats import VERIFIERS_IN_HASHES
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.frames import Frame, FrameParser
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, until
from tests.wire.amqp10.performatives import LARGE, octets_of
from tests.wire.scram_client import ScramClient

WAIT_S: Final = 20.0
MECHANISM: Final = "SCRAM-SHA-256"
OK: Final = d.SaslCode.OK
REFUSED: Final = d.SaslCode.AUTH


class Login:
    """A connection to a node that has got the node's mechanisms."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._parser = FrameParser(LARGE)
        self._received: list[Any] = []
        self.send(SASL_HEADER)
        assert self.reads() == SASL_HEADER
        self.mechanisms: tuple[str, ...] = self.reads().sasl_server_mechanisms

    def send(self, *sent: Any) -> None:
        self._socket.sendall(octets_of(*sent))

    def reads(self) -> Any:
        """The next performative or header."""
        while not self._received:
            octets = self._socket.recv(4096)
            assert octets, "the node has closed the connection"
            self._received += self._parser.receive(octets)
        one = self._received.pop(0)
        return one.performative if isinstance(one, Frame) else one.encode()

    def challenge(self, client: ScramClient, *, late: bool = False) -> bytes:
        """The node's challenge; `late`: sent after an empty one, as to a client whose sasl-init is empty."""
        self.send(d.SaslInit(MECHANISM, None if late else client.first))
        if late:
            assert self.reads() == d.SaslChallenge(b"")
            self.send(d.SaslResponse(client.first))
        challenge: bytes = self.reads().challenge
        return challenge

    def scram(self, user: str, password: str, *, late: bool = False) -> d.SaslCode:
        client = ScramClient(user, password)
        self.send(d.SaslResponse(client.final(self.challenge(client, late=late))))
        outcome = self.reads()
        assert (outcome.additional_data is None) == (outcome.code is not OK)
        assert outcome.code is not OK or client.believes(outcome.additional_data)
        return d.SaslCode(outcome.code)


@contextmanager
def begun(node: Node) -> Iterator[Login]:
    with socket.create_connection(node.amqp, WAIT_S) as connected:
        yield Login(connected)


def wait_for_formats(cluster: Cluster) -> None:
    """Until each node knows that every member reads verifiers."""

    def level() -> int:
        return min(int(row["formats"]) for row in cluster.status()["nodes"])

    until(lambda: level() >= VERIFIERS_IN_HASHES, lambda: f"level {VERIFIERS_IN_HASHES}, now {level()}")


def logs_in(node: Node, user: str, password: str) -> bool:
    with begun(node) as login:
        return login.scram(user, password) is OK


def put_user(node: Node, name: str, **fields: str) -> None:
    reply = Management(node).call("PUT", f"/users/{name}", {"tags": "", **fields})
    assert reply.status in (201, 204), reply


@pytest.mark.requirement("B2.4")
@pytest.mark.settings({"scram": True, "strangers": {"pause_s": 0.0}})
def test_a_user_logs_in_by_scram_at_every_node(own_cluster: Cluster) -> None:
    first = own_cluster[0]
    wait_for_formats(own_cluster)
    put_user(first, "alice", password="wonder")
    for number, node in enumerate(own_cluster.nodes):
        with begun(node) as login:
            assert login.mechanisms == ("PLAIN", MECHANISM)
            assert login.scram("alice", "wonder", late=number == 1) is OK
            login.send(AMQP_HEADER, d.Open("client"))
            assert login.reads() == AMQP_HEADER
        for user, password in (("alice", "wander"), ("nobody", "wonder"), ("", "wonder")):
            with begun(node) as login:
                if user:
                    assert login.scram(user, password) is REFUSED
                else:
                    login.send(d.SaslInit(MECHANISM, b"n,,n=,r=x"))
                    assert login.reads() == d.SaslOutcome(REFUSED)
    assert len({salt(node, "nobody") for node in own_cluster.nodes}) == 1
    log = first.local.log_file.read_text(encoding="utf-8")
    assert "user 'nobody' - SCRAM-SHA-256: invalid-proof" in log
    assert not any(secret in log for secret in ("wonder", "wander", "n=alice", ",p="))


@pytest.mark.requirement("B2.4")
@pytest.mark.settings({"scram": True, "strangers": {"pause_s": 0.0}})
def test_a_founder_logs_in_by_scram_after_a_log_in_by_password(
    own_cluster: Cluster,
) -> None:
    node = own_cluster[1]
    wait_for_formats(own_cluster)
    with node.connect():
        until(lambda: MECHANISM in offered(node), "the user guest has a verifier")
        assert logs_in(node, "guest", "guest")
    own_cluster[2].kill()
    own_cluster[2].start()
    own_cluster.wait_ready()
    assert logs_in(own_cluster[2], "guest", "guest"), "from its log, or from a snapshot of another node"
    assert not logs_in(own_cluster[2], "guest", "wrong")


def test_scram_is_not_offered_unless_the_configuration_says_so(cluster: Cluster) -> None:
    node = cluster[0]
    assert offered(node) == ("PLAIN",)
    with begun(node) as login:
        login.send(d.SaslInit(MECHANISM, ScramClient("guest", "guest").first))
        assert login.reads() == d.SaslOutcome(REFUSED)


def offered(node: Node) -> tuple[str, ...]:
    with begun(node) as login:
        return login.mechanisms


def salt(node: Node, user: str) -> bytes:
    client = ScramClient(user, "")
    with begun(node) as login:
        client.final(login.challenge(client))
    return client.salt
