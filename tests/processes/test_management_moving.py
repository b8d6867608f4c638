"""Moving messages between queues and partitions between owners over HTTP, on real nodes (F7)."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until


def filled(connect: Connect, name: str, count: int, arguments: dict[str, Any] | None = None) -> str:
    """A queue with so many messages, each with its number as its body."""
    channel = connect(0)
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.tx_select()
    for number in range(count):
        properties = pika.BasicProperties(delivery_mode=2, headers={"number": number})
        channel.basic_publish("", name, b"%d" % number, properties)
    channel.tx_commit()
    return name


def bodies(connect: Connect, name: str) -> list[bytes]:
    """Take all messages out of a queue."""
    channel = connect(1)
    left = channel.queue_declare(name, passive=True).method.message_count
    found: list[bytes] = []
    while left > len(found):
        for _, _, body in channel.consume(name, auto_ack=True):
            found.append(body)
            if left == len(found):
                break
    channel.cancel()
    return found


def move(api: Management, name: str, body: Any) -> Any:
    return api.call("POST", path_of("queues", "/", name, "move"), body)


def test_messages_move_in_their_order_with_their_properties(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    source, destination = filled(channel, f"{name}-from", 200), filled(channel, f"{name}-to", 0)
    api = Management(cluster[1])
    some = move(api, source, {"destination": destination, "count": 40}).value
    assert (some["moved"], some["drained"], some["refused"]) == (40, False, False)
    method, properties, body = channel(2).basic_get(destination, auto_ack=True)
    assert (method.routing_key, properties.headers, body) == (source, {"number": 0}, b"0")
    rest = move(api, source, {"destination": destination}).value
    assert (rest["moved"], rest["drained"], rest["refused"], rest["next"]) == (160, True, False, None)
    assert bodies(channel, destination) == [b"%d" % number for number in range(1, 200)]
    assert bodies(channel, source) == []
    # The moved messages were removed from the source, and no consumer has them.
    assert api.get("queues", "/", source)["messages"] == 0


def test_what_the_other_queue_refuses_stays(cluster: Cluster, channel: Connect, name: str) -> None:
    full = {"x-max-length": 5, "x-overflow": "reject-publish"}
    source, destination = filled(channel, f"{name}-from", 20), filled(channel, f"{name}-to", 0, full)
    reply = move(Management(cluster[0]), source, {"destination": destination})
    assert reply.value["refused"] and reply.value["moved"] == 5 and not reply.value["drained"]
    kept, moved = bodies(channel, source), bodies(channel, destination)
    assert len(moved) == reply.value["moved"]
    assert sorted([*kept, *moved], key=int) == [b"%d" % number for number in range(20)]


def test_messages_move_to_another_virtual_host(cluster: Cluster, channel: Connect, name: str) -> None:
    api = Management(cluster[0])
    assert api.call("PUT", path_of("vhosts", name)).status == 201
    assert api.call("PUT", path_of("queues", name, "there"), {"durable": True}).status == 201
    source = filled(channel, name, 3)
    body = {"destination": "there", "destination_vhost": name}
    assert move(Management(cluster[2]), source, body).value["moved"] == 3
    assert api.get("queues", name, "there")["messages_ready"] == 3
    assert api.call("DELETE", path_of("vhosts", name)).status == 204


def test_a_move_that_could_lose_something_is_refused(cluster: Cluster, channel: Connect, name: str) -> None:
    source = filled(channel, name, 1)
    forgetful = filled(channel, f"{name}-forgets", 1, {"x-semantics": "at-most-once"})
    api = Management(cluster[0])
    for queue, body, reason in (
        (source, {}, "[{key_missing,destination}]"),
        (source, {"destination": source}, "the destination is the queue itself"),
        (source, {"destination": "x"}, "there is no queue 'x' in vhost '/' to move messages to"),
        (source, {"destination": forgetful, "count": 0}, "count must be from 1 to 10000"),
        (
            forgetful,
            {"destination": source},
            f"messages of queue '{forgetful}' in vhost '/' cannot be moved or brought back: "
            "it removes each before it delivers it",
        ),
    ):
        assert refused(move(api, queue, body), 400, "bad_request") == reason
    refused(move(api, "nothing-here", {"destination": source}), 404, "not_found")
    assert bodies(channel, source) == [b"0"] and bodies(channel, forgetful) == [b"0"]


def test_a_user_moves_what_may_be_read_to_where_may_be_written(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    api = Management(cluster[0])
    source, destination = filled(channel, f"{name}-from", 2), filled(channel, f"{name}-to", 0)
    user = {"password": "moving things", "tags": "management"}
    assert api.call("PUT", path_of("users", name), user).status == 201
    mine = Management(cluster[0], name, "moving things")
    for write, read in (("^$", ".*"), (".*", "^$")):
        rights = {"configure": "", "write": write, "read": read}
        api.call("PUT", path_of("permissions", "/", name), rights)
        refused(move(mine, source, {"destination": destination}), 401, "not_authorised")
    rights = {"configure": "", "write": f"^{name}-to$", "read": f"^{name}-from$"}
    api.call("PUT", path_of("permissions", "/", name), rights)
    filtered = {**rights, "write_filter": "kind = 'a'"}
    api.call("PUT", path_of("permissions", "/", name), filtered)
    # The user may not publish these messages.
    assert move(mine, source, {"destination": destination}).value["moved"] == 0
    filtered = {**rights, "read_filter": "kind = 'a'", "write_filter": ""}
    api.call("PUT", path_of("permissions", "/", name), filtered)
    assert move(mine, source, {"destination": destination}).value["moved"] == 0
    api.call("PUT", path_of("permissions", "/", name), {**rights, "read_filter": ""})
    assert move(mine, source, {"destination": destination}).value["moved"] == 2
    assert api.call("DELETE", path_of("users", name)).status == 204


# -- partitions -----------------------------------------------------------------------------------


def partition(api: Management, id: int) -> dict[str, Any]:
    (row,) = (row for row in api.get("partitions") if row["id"] == id)
    return dict(row)


def test_a_partition_is_handed_over(own_cluster: Cluster, own_channel: Connect, name: str) -> None:
    filled(own_channel, name, 10)
    api = Management(own_cluster[0])
    id = api.get("queues", "/", name)["partition"]
    row = until(lambda: partition(api, id) if partition(api, id)["owner"] else None, "it has an owner")
    assert row["members"] == ["n1", "n2", "n3"] and row["kind"] == "replicated" and row["queues"] >= 1
    assert set(row["replicas"]) == {"n1", "n2", "n3"} - {row["owner"]}
    heir = next(iter(row["replicas"]))
    until(lambda: not any(partition(api, id)["replicas"].values()), "every replica has the log")
    path = path_of("partitions", str(id), "owner")
    assert api.call("PUT", path, {"node": heir}).status == 204
    after = until(
        lambda: partition(api, id) if partition(api, id)["owner"] == heir else None, "the heir owns it"
    )
    assert after["term"] > row["term"]
    assert api.call("PUT", path, {"node": heir}).status == 204
    until(lambda: api.get("queues", "/", name).get("messages_ready") == 10, "the queue is there as it was")
    assert bodies(own_channel, name) == [b"%d" % number for number in range(10)]


def test_only_replicas_that_run_become_owners(cluster: Cluster) -> None:
    api = Management(cluster[0])
    catalog = partition(api, 0)
    assert catalog["kind"] == "catalog" and catalog["members"] == ["n1", "n2", "n3"]
    reason = refused(api.call("PUT", "/partitions/0/owner", {"node": "n9"}), 400, "bad_request")
    assert reason == "node n9 has no replica of partition 0"
    refused(api.call("PUT", "/partitions/0/owner", {}), 400, "bad_request")
    for id in ("999999", "x", "-1"):
        refused(api.call("PUT", f"/partitions/{id}/owner", {"node": "n1"}), 404, "Object Not Found")
    refused(Management(cluster[0], None).call("GET", "/partitions"), 401, "not_authorized")


# -- pages of other origins -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Sec-Fetch-Site": "same-origin"}, 204),
        ({"Sec-Fetch-Site": "none"}, 204),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://proxy.example", "Sec-Fetch-Site": "same-origin"}, 204),
    ],
)
def test_changes_are_not_taken_from_pages_of_other_origins(
    cluster: Cluster, channel: Connect, name: str, headers: dict[str, str], status: int
) -> None:
    api = Management(cluster[0])
    queue = filled(channel, "visited", 0)
    reply = api.call("DELETE", path_of("queues", "/", queue, "contents"), headers=headers)
    assert reply.status == status
    own = {"Origin": api.url}
    assert api.call("DELETE", path_of("queues", "/", queue, "contents"), headers=own).status == 204
    assert "access-control-allow-origin" not in api.call("GET", "/whoami", headers=headers).headers
