"""A node that knows a password to be right hashes it no more (docs/decisions/0019-log-ins-remembered.md)."""

from __future__ import annotations

import time
from statistics import median

from pika import spec

from tests.conformance.raw import RawClient
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node

USERS = 9


def password_of(user: str) -> dict[str, str]:
    return {"password": f"secret of {user}", "tags": ""}


def login_s(node: Node, user: str) -> float:
    """Seconds from the words with the password to the answer that the user is in."""
    client = RawClient(node.amqp)
    client.start()
    begun = time.perf_counter()
    client.send(client.start_ok(f"\0{user}\0secret of {user}"))
    client.method(spec.Connection.Tune, 0)
    taken = time.perf_counter() - begun
    client.vanish()
    return taken


def test_the_second_log_in_waits_for_no_hash(cluster: Cluster, name: str) -> None:
    """But it does where the user has been changed since. A hash takes tens of milliseconds of a processor,
    and the rest of a log-in takes one or two, however busy the machine is.
    """
    api, node = Management(cluster[1]), cluster[0]
    users = [f"{name}-{number}" for number in range(USERS)]
    try:
        for user in users:
            assert api.call("PUT", path_of("users", user), password_of(user)).status == 201
        first = median([login_s(node, user) for user in users])
        second = median([login_s(node, user) for _ in range(3) for user in users])
        print(f"first log-in {first * 1000:.2f} ms, second {second * 1000:.2f} ms")
        assert second * 4 < first
        # The same password again, with another salt.
        for user in users:
            assert api.call("PUT", path_of("users", user), password_of(user)).status == 204
        assert second * 4 < median([login_s(node, user) for user in users])
    finally:
        for user in users:
            api.call("DELETE", path_of("users", user))
