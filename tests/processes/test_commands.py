"""The commands that try a cluster out, against real nodes."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until


def quorate(*arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would."""
    command = [sys.executable, "-m", "cluster", *arguments]
    return subprocess.run(command, input=input, capture_output=True, text=True, timeout=60)


def test_publish_on_one_node_then_get_and_consume_on_others(cluster: Cluster, name: str) -> None:
    sent = quorate("publish", "--url", cluster[0].url, "--queue", name, "first", "second", "third")
    assert sent.returncode == 0
    assert sent.stderr.startswith("3 of 3 ")
    looked = quorate("queues", "browse", name, "--url", cluster[1].http, "--count", "2")
    assert (looked.returncode, looked.stdout) == (0, "first\nsecond\n")
    got = quorate("get", "--url", cluster[1].url, "--queue", name, "--count", "2")
    assert (got.returncode, got.stdout) == (0, "first\nsecond\n")
    consumed = quorate("consume", "--url", cluster[2].url, "--queue", name, "--count", "1")
    assert (consumed.returncode, consumed.stdout) == (0, "third\n")
    nothing = quorate("get", "--url", cluster[0].url, "--queue", name)
    assert (nothing.returncode, nothing.stdout) == (3, "")


def test_lines_of_standard_input_and_random_bodies(cluster: Cluster, name: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(300))
    assert quorate("publish", "--url", cluster[1].url, "--queue", name, input=lines).returncode == 0
    consumed = quorate("consume", "--url", cluster[0].url, "--queue", name, "--count", "300")
    assert (consumed.returncode, consumed.stdout) == (0, lines)
    many = quorate("publish", "--url", cluster[1].url, "--queue", name, "--size", "100", "--count", "1500")
    assert many.returncode == 0
    assert many.stderr.startswith("1500 of 1500 ")
    counted = quorate("consume", "--url", cluster[2].url, "--queue", name, "--quiet", "--idle", "0.5")
    assert counted.returncode == 0
    assert counted.stderr.startswith("1500 ")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_node_shows_the_same_status(cluster: Cluster, name: str, place: int) -> None:
    assert quorate("publish", "--url", cluster[2].url, "--queue", name, "waits").returncode == 0
    shown = quorate("status", "--url", cluster[place].http, "--json")
    status = json.loads(shown.stdout)
    nodes = [(node["name"], node["pid"], node["ready"]) for node in status["nodes"]]
    assert nodes == [(node.name, node.pid, True) for node in cluster.nodes]
    row = next(row for row in status["queues"] if row["name"] == name)
    assert (row["vhost"], row["ready"], row["leased"]) == ("/", 1, 0)
    partition = next(one for one in status["partitions"] if one["id"] == row["partition"])
    assert partition["owner"] == row["owner"]
    assert partition["replicas"] == ["n1", "n2", "n3"]
    table = quorate("status", "--url", cluster[place].http)
    assert table.returncode == 0
    assert name in table.stdout


def test_a_refusal_says_what_was_refused_and_by_whom(cluster: Cluster, name: str) -> None:
    refused = quorate("get", "--url", cluster[0].url, "--queue", f"{name}-absent")
    assert refused.returncode == 1
    assert f"no queue '{name}-absent'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_publish_at_a_rate(cluster: Cluster, name: str) -> None:
    began = time.monotonic()
    sent = quorate(
        "publish", "--url", cluster[0].url, "--queue", name, "--size", "10", "--count", "50", "--rate", "50"
    )
    assert "50 of 50 confirmed" in sent.stderr
    assert time.monotonic() - began >= 0.9


@pytest.mark.requirement("D3.4", "D3.5")
def test_a_lease_is_renewed_by_the_bookmark_that_its_consumer_was_told(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    at_consumer = channel(0)
    at_consumer.queue_declare(name, durable=True, arguments={"x-lease-period": 120_000})
    at_consumer.basic_publish("", name, b"long work", pika.BasicProperties(delivery_mode=2))
    told = {"x-tell": True}
    method, properties, _ = next(at_consumer.consume(name, arguments=told, inactivity_timeout=30))
    bookmark, until = properties.headers["x-bookmark"], properties.headers["x-locked-until"]
    api = Management(cluster[1])
    path = path_of("queues", "/", name) + "/renew"
    renewed = api.call("POST", path, {"bookmarks": [bookmark]}).value
    assert renewed["renewed"] == [bookmark] and renewed["locked_until"] > until
    at_consumer.basic_ack(method.delivery_tag)
    at_consumer.connection.close()
    told_by_command = quorate("queues", "renew", name, bookmark, "--url", cluster[2].http)
    assert told_by_command.returncode == 0
    assert told_by_command.stderr == f"{bookmark} is under no lease that ends earlier\n"
    assert "has 24 hexadecimal digits" in refused(
        api.call("POST", path, {"bookmarks": ["x"]}), 400, "bad_request"
    )
    refused(api.call("POST", path, {"bookmarks": "x"}), 400, "bad_request")


@pytest.mark.requirement("D15.1", "X4.1", "X4.2")
def test_messages_are_moved_from_queue_to_queue(cluster: Cluster, channel: Connect, name: str) -> None:
    publisher, other = channel(0), f"{name}-other"
    for queue in (name, other):
        publisher.queue_declare(queue, durable=True)
    for number in range(6):
        publisher.basic_publish("", name, b'{"n": %d}' % number, pika.BasicProperties(delivery_mode=2))
    url = ("--url", cluster[2].http)
    found = quorate("queues", "browse", name, "--filter", "/n > 3", "--count", "9", *url)
    assert [line.split(" ", 1)[1] for line in found.stdout.splitlines()] == ['{"n": 4}', '{"n": 5}']
    unread = quorate("queues", "browse", name, "--filter", "/n >", *url)
    assert unread.returncode and "column" in unread.stderr
    bookmark = found.stdout.split(" ", 1)[0]
    named = quorate("queues", "move", name, other, bookmark, "--dry-run", *url)
    unless = "would be moved, but for those that consumers have\n"
    assert (named.returncode, named.stdout) == (0, f"1 {unless}")
    tried = quorate("queues", "move", name, other, "--filter", "/n < 3", "--dry-run", *url)
    assert (tried.returncode, tried.stdout, tried.stderr) == (0, f"3 {unless}", "")
    moved = quorate("queues", "move", name, other, "--filter", "/n < 3", *url)
    assert (moved.returncode, moved.stdout, moved.stderr) == (0, "3 moved\n", "")
    copied = quorate("queues", "move", name, other, "--all", "--copy", *url)
    assert (copied.returncode, copied.stdout, copied.stderr) == (0, "3 copied\n", "")
    bodies = [publisher.basic_get(other, auto_ack=True)[2] for _ in range(6)]
    assert bodies == [b'{"n": %d}' % number for number in range(6)]
    api, path = Management(cluster[1]), path_of("queues", "/", name) + "/move"
    body = {"destination": other, "count": 2}
    first = api.call("POST", path, body).value
    assert first["moved"] == 2 and first["next"] and not first["drained"]
    rest = api.call("POST", path, {**body, "first": first["next"], "last": first["last"]}).value
    assert rest["moved"] == 1 and rest["next"] is None and rest["drained"]
    missing = quorate("queues", "move", name, "absent", "--all", *url)
    assert missing.returncode and "no queue 'absent'" in missing.stderr
    unnamed = quorate("queues", "move", name, other, *url)
    assert unnamed.returncode == 2 and "--all" in unnamed.stderr
    settle = path_of("queues", "/", name) + "/settle"
    wrong: tuple[dict[str, object], ...] = (
        {"action": "move", "filter": "TRUE"},
        {"filter": "TRUE", "limit": 0},
    )
    for one in wrong:
        refused(api.call("POST", settle, one), 400, "bad_request")


@pytest.mark.requirement("D8.1", "D8.2", "D8.3", "D8.5")
def test_messages_are_settled_by_bookmark_and_by_filter(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    at_consumer = channel(0)
    at_consumer.queue_declare(name, durable=True)
    for number in range(5):
        at_consumer.basic_publish("", name, b'{"n": %d}' % number, pika.BasicProperties(delivery_mode=2))
    at_consumer.basic_qos(prefetch_count=2)
    deliveries = at_consumer.consume(name, arguments={"x-tell": True}, inactivity_timeout=30)
    taken = [next(deliveries) for _ in range(2)]
    first, second = (properties.headers["x-bookmark"] for _, properties, _ in taken)
    api, path = Management(cluster[1]), path_of("queues", "/", name) + "/settle"
    settled = api.call("POST", path, {"bookmarks": [first]}).value
    assert settled["settled"] == 1 and settled["bookmarks"] == {first: "settled"}
    again = quorate("queues", "settle", name, first, second, "--as", "cancel", "--url", cluster[2].http)
    assert (again.returncode, again.stdout, again.stderr) == (0, "1 settled\n", f"{first} gone\n")
    expired = quorate(
        "queues", "settle", name, "--as", "expire", "--filter", "/n > 2", "--url", cluster[2].http
    )
    assert (expired.returncode, expired.stdout, expired.stderr) == (0, "2 settled\n", "")
    # The tags are still good.
    at_consumer.basic_ack(taken[1][0].delivery_tag, multiple=True)
    left = api.call("POST", path, {"filter": "TRUE"}).value
    assert left["settled"] == 2 and "bookmarks" not in left
    wrong = api.call("POST", path, {"bookmarks": [first, "x"]})
    assert "'x' is no bookmark" in refused(wrong, 400, "bad_request")
    assert "column" in refused(api.call("POST", path, {"filter": "a ="}), 400, "bad_request")
    bodies: tuple[dict[str, object], ...] = (
        {},
        {"bookmarks": "x"},
        {"bookmarks": [first], "filter": "a"},
        {"filter": "a", "action": "x"},
    )
    for body in bodies:
        refused(api.call("POST", path, body), 400, "bad_request")


@pytest.mark.requirement("X4.3")
def test_dead_letters_are_published_anew(cluster: Cluster, channel: Connect, name: str) -> None:
    """By the command, and over HTTP: they go where they were published first."""
    publisher, dead, exchange = channel(0), f"{name}-dead", f"{name}-orders"
    publisher.queue_declare(dead, durable=True)
    dying = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel(1).queue_declare(name, durable=True, arguments=dying)
    publisher.exchange_declare(exchange, "topic")
    publisher.queue_bind(name, exchange, "eu.#")
    for number in range(6):
        persistent = pika.BasicProperties(delivery_mode=2, headers={"n": number})
        publisher.basic_publish(exchange, f"eu.{number}", b"%d" % number, persistent)
    for method, _, _ in publisher.consume(name):
        publisher.basic_nack(method.delivery_tag, requeue=False)
        if method.routing_key == "eu.5":
            break
    publisher.cancel()
    url = ("--url", cluster[2].http)
    until(lambda: publisher.queue_declare(dead, passive=True).method.message_count == 6, "6 dead letters")
    tried = quorate("queues", "replay", dead, "--all", "--dry-run", *url)
    assert (tried.returncode, tried.stdout) == (
        0,
        "6 would be published, but for those that consumers have\n",
    )
    some = quorate("queues", "replay", dead, "--filter", "n < 2", *url)
    assert (some.returncode, some.stdout, some.stderr) == (0, "2 published\n", "")
    for number in range(2):
        method, properties, body = publisher.basic_get(name, auto_ack=True)
        assert (method.exchange, method.routing_key, body) == (exchange, f"eu.{number}", b"%d" % number)
        assert properties.headers == {"n": number}
    api, path = Management(cluster[1]), path_of("queues", "/", dead) + "/replay"
    first = api.call("POST", path, {"count": 1}).value
    assert (first["replayed"], first["unrouted"], first["drained"]) == (1, 0, False)
    refused(api.call("POST", path, {"exchange": ["x"]}), 400, "bad_request")
    lost = quorate("queues", "replay", dead, "--all", "--routing-key", "us", *url)
    assert lost.returncode and lost.stdout == "0 published\n" and f"3 stay in {dead}" in lost.stderr
    rest = quorate("queues", "replay", dead, "--all", "--exchange", "", "--routing-key", name, *url)
    assert (rest.returncode, rest.stdout, rest.stderr) == (0, "3 published\n", "")
    assert [publisher.basic_get(name, auto_ack=True)[2] for _ in range(4)] == [b"2", b"3", b"4", b"5"]


@pytest.mark.requirement("X4.5")
def test_messages_are_brought_back(cluster: Cluster, channel: Connect, name: str) -> None:
    """By the command, and over HTTP: what was acknowledged and purged is in the queue again."""
    publisher, stream = channel(0), f"{name}-log"
    publisher.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    publisher.queue_declare(name, durable=True, arguments={"x-underlying-topic": stream})
    for number in range(6):
        persistent = pika.BasicProperties(delivery_mode=2, headers={"n": number})
        publisher.basic_publish("", name, b"%d" % number, persistent)
    assert publisher.basic_get(name, auto_ack=True)[2] == b"0"
    assert publisher.queue_purge(name).method.message_count == 5
    url = ("--url", cluster[2].http)
    tried = quorate("queues", "undo", name, "--all", "--dry-run", *url)
    assert (tried.returncode, tried.stdout) == (0, "6 would be brought back\n")
    none = quorate("queues", "undo", name, "--until", "1h", *url)
    assert (none.returncode, none.stdout, none.stderr) == (0, "0 brought back\n", "")
    some = quorate("queues", "undo", name, "--filter", "n < 2", "--since", "1h", *url)
    assert (some.returncode, some.stdout, some.stderr) == (0, "2 brought back\n", "")
    api, path = Management(cluster[1]), path_of("queues", "/", name) + "/undo"
    first = api.call("POST", path, {"count": 1}).value
    assert (first["undone"], first["drained"], first["refused"]) == (1, False, False)
    shown_first = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto", "filter": "TRUE"}
    shown = api.call("POST", path_of("queues", "/", name) + "/get", shown_first).value
    bookmarks = [one["bookmark"] for one in shown]
    again = api.call("POST", path, {"bookmarks": bookmarks}).value
    assert (again["undone"], {*again["bookmarks"].values()}) == (0, {"in_queue"})
    told = quorate("queues", "undo", name, bookmarks[0], *url)
    assert (told.returncode, told.stdout, told.stderr) == (0, "0 brought back\n", "1 in queue\n")
    rest = quorate("queues", "undo", name, "--all", *url)
    assert (rest.returncode, rest.stdout, rest.stderr) == (0, "3 brought back\n", "")
    assert [publisher.basic_get(name, auto_ack=True)[2] for _ in range(6)] == [b"%d" % n for n in range(6)]
    refused(api.call("POST", path, {"since": "yesterday"}), 400, "bad_request")
    refused(api.call("POST", path_of("queues", "/", stream) + "/undo", {}), 400, "bad_request")
