"""Why a message is where it is, by the command and over HTTP, on real nodes (X8)."""

from __future__ import annotations

import json
import time
from typing import Any

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until
from tests.processes.test_commands import quorate

DURABLE = pika.BasicProperties(delivery_mode=2)


def taken(connect: Connect, queue: str, place: int = 1) -> tuple[Any, Any, str]:
    """A channel, a delivery that it has, and the bookmark of the message."""
    channel = connect(place)
    channel.basic_qos(prefetch_count=1)
    for method, properties, _ in channel.consume(queue, arguments={"x-tell": True}):
        return channel, method, properties.headers["x-bookmark"]
    raise AssertionError("no message comes")


def bookmark_of(connect: Connect, queue: str) -> str:
    """The bookmark of the queue's first message, which goes back."""
    channel, method, bookmark = taken(connect, queue)
    channel.cancel()
    channel.basic_nack(method.delivery_tag, requeue=True)
    until(lambda: channel.queue_declare(queue, passive=True).method.message_count == 1, "it is back")
    return bookmark


@pytest.fixture
def kept(channel: Connect, name: str) -> str:
    """A queue with a history and a message, whose dead letters go to another queue."""
    publisher = channel(0)
    publisher.confirm_delivery()
    publisher.queue_declare(f"{name}-dead", durable=True)
    arguments = {
        "x-history": "7D", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead",
    }  # fmt: skip
    publisher.queue_declare(name, durable=True, arguments=arguments)
    publisher.basic_publish("", name, b"a", DURABLE)
    return name


@pytest.mark.requirement("X8.1", "X8.2", "X8.3", "X8.5", "X8.6", "X8.7")
def test_the_command_tells_the_life_of_a_message(cluster: Cluster, channel: Connect, kept: str) -> None:
    bookmark = bookmark_of(channel, kept)
    consumer, method, again = taken(channel, kept, 2)
    assert again == bookmark
    channel(0).basic_publish("", kept, b"b", DURABLE)
    url = ("--url", cluster[2].http)
    told = quorate("explain", bookmark, *url, "--json")
    assert (told.returncode, told.stderr) == (0, "")
    [life] = json.loads(told.stdout)["lives"]
    assert [one["event"] for one in life["events"]] == ["published", "leased", "returned", "leased"]
    published, leased, returned, leased_again = life["events"]
    assert (published["routing_key"], published["by"]) == (kept, {"node": "n1"})
    assert (leased["to"]["node"], returned["how"], returned["by"]) == ("n2", "cancelled", {"node": "n2"})
    assert leased_again["to"]["tag"] == method.consumer_tag
    assert leased_again["to"]["user"] == "guest"
    assert all(len(one["digest"]) == 64 for one in life["events"])
    assert abs(published["time"] / 1000 - time.time()) < 60
    [now] = [one for one in life["now"] if one["queue"] == kept]
    assert (now["place"], now["to"]) == ("leased", {"node": "n3"})
    consumer.basic_reject(method.delivery_tag, requeue=False)
    consumer.cancel()
    until(lambda: len(Management(cluster[1]).get("explain", bookmark)["lives"]) == 2, "the message moves")
    shown = quorate("explain", bookmark, *url)
    assert (shown.returncode, shown.stderr) == (0, "")
    for text in ("published", "leased", "rejected", "moved", f"{kept}-dead", "how=cancelled", "now ready in"):
        assert text in shown.stdout


def test_what_is_refused(cluster: Cluster, channel: Connect, kept: str) -> None:
    api, bookmark = Management(cluster[1]), bookmark_of(channel, kept)
    assert "no bookmark" in refused(api.call("GET", path_of("explain", "x")), 400, "bad_request")
    refused(api.call("GET", path_of("explain", "fffffff0" + bookmark[8:])), 404, "Object Not Found")
    refused(api.call("GET", path_of("explain", bookmark[:8] + "f" * 16)), 404, "Object Not Found")
    told = quorate("explain", "x", "--url", cluster[0].http)
    assert told.returncode == 1 and "no bookmark" in told.stderr
    channel(0).queue_declare(f"{kept}-memory", durable=False)
    channel(0).basic_publish("", f"{kept}-memory", b"a")
    memory = bookmark_of(channel, f"{kept}-memory")
    refused(api.call("GET", path_of("explain", memory)), 400, "bad_request")


@pytest.mark.requirement("X8.6")
@pytest.mark.settings({"journal": {"snapshot_bytes": 65536}})
def test_a_message_that_the_log_has_passed_is_gone(
    own_cluster: Cluster, own_channel: Connect, name: str
) -> None:
    """The answer names the oldest message."""
    publisher = own_channel(0)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True, arguments={"x-history": 1000})
    publisher.basic_publish("", name, b"a", DURABLE)
    first = bookmark_of(own_channel, name)
    api, path = Management(own_cluster[1]), path_of("explain", first)
    assert api.call("GET", path).status == 200

    def gone() -> bool:
        for _ in range(20):
            publisher.basic_publish("", name, b"x" * 400_000, DURABLE)
        publisher.queue_purge(name)
        return api.call("GET", path).status == 410

    until(gone, "the log has passed the message", 60)
    publisher.basic_publish("", name, b"y", DURABLE)
    oldest = refused(api.call("GET", path), 410, "gone").split()[-1]
    assert oldest > first and oldest[:8] == first[:8]
    assert api.call("GET", path_of("explain", oldest)).status == 200


def test_the_rights_to_read_count(cluster: Cluster, channel: Connect, kept: str, name: str) -> None:
    bookmark, api = bookmark_of(channel, kept), Management(cluster[0])
    user = f"{name}-user"
    api.call("PUT", path_of("users", user), {"password": "p", "tags": "management"})
    mine, path = Management(cluster[0], user, "p"), path_of("explain", bookmark)
    assert mine.call("GET", path).status == 404
    rights = {"configure": "", "write": "", "read": ""}
    api.call("PUT", path_of("permissions", "/", user), rights)
    until(lambda: mine.call("GET", path).status == 401, "the user may enter the virtual host")
    readable = {**rights, "read": f"^{kept}$"}
    api.call("PUT", path_of("permissions", "/", user), {**readable, "read_filter": "x = 1"})
    assert mine.call("GET", path).status == 401
    api.call("PUT", path_of("permissions", "/", user), {**readable, "read_filter": ""})
    until(lambda: mine.call("GET", path).status == 200, "the user may read the queue")
    consumer, method, _ = taken(channel, kept)
    consumer.basic_reject(method.delivery_tag, requeue=False)
    consumer.cancel()
    until(lambda: mine.get("explain", bookmark)["hidden"] == 1, "the user may not read the other queue")
    assert len(mine.get("explain", bookmark)["lives"]) == 1


@pytest.mark.requirement("X8.7")
def test_the_digests_of_all_replicas(cluster: Cluster, channel: Connect, kept: str) -> None:
    api = Management(cluster[1])
    partition = next(one["partition"] for one in api.get("explain", bookmark_of(channel, kept))["lives"])
    told = api.get("partitions", str(partition), "digests")
    assert told["equal"] is True
    assert {one["node"] for one in told["replicas"]} == {"n1", "n2", "n3"}
    assert len({one["digest"] for one in told["replicas"]}) == 1
    for absent in ("x", "9999999", "1" * 30):
        refused(api.call("GET", path_of("partitions", absent, "digests")), 404, "Object Not Found")
    others = {one["id"] for one in api.get("partitions") if one["kind"] == "transient"}
    reply = api.call("GET", path_of("partitions", str(min(others)), "digests"))
    assert "keeps no history" in refused(reply, 400, "bad_request")
