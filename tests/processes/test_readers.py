"""Readers of streams over HTTP and on the command line, on three real nodes (F8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from scripts.metrics_page import fetch
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until
from tests.processes.shell import Shell

pytestmark = pytest.mark.requirement("F8.3")

DURABLE = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def stream(cluster: Cluster, name: str) -> str:
    """A stream with ten messages of 100 octets, that keeps ten by itself."""
    connection = cluster[0].connect()
    publisher = connection.channel()
    publisher.confirm_delivery()
    arguments = {"x-queue-type": "stream", "x-max-length-bytes": 1000}
    publisher.queue_declare(name, durable=True, arguments=arguments)
    for number in range(10):
        publisher.basic_publish("", name, b"%0100d" % number, DURABLE)
    connection.close()
    return name


def path(stream: str, *rest: str) -> str:
    return path_of("readers", "/", stream, *rest)


def put(api: Management, stream: str, reader: str, **body: Any) -> Any:
    told = api.call("PUT", path(stream, reader), body)
    assert told.status == 200, told
    return told.value


def test_a_reader_is_made_advanced_shown_and_deleted(cluster: Cluster, channel: Connect, stream: str) -> None:
    one, far = Management(cluster[0]), Management(cluster[2])
    made = put(one, stream, "job", max_lag={"messages": 100, "seconds": 3600})
    assert made["max_lag"] == {"messages": 100, "octets": None, "seconds": 3600.0}
    assert (made["vhost"], made["stream"], made["reader"]) == ("/", stream, "job")
    assert made["lag"]["messages"] == 10 and made["lag"]["octets"] > 1000 and made["lost"] == 0
    plan = one.get("log", "/", stream, "plan", query="rows=4")
    assert (plan["from_count"], plan["end_count"]) == (0, 4)
    for api in (far, one, far):
        told = api.call("POST", path(stream, "job", "advance"), {"to": plan["end"]})
        assert told.status == 200 and told.value["position"] == plan["end"]
        assert told.value["lag"]["messages"] == 6
    back = far.call("POST", path(stream, "job", "advance"), {"to": plan["from"]}).value
    assert back["position"] == plan["end"]
    # The default of the configuration, and another reader that holds nothing.
    assert put(far, stream, "other", **{"from": "latest"})["max_lag"]["octets"] == 1 << 30
    shown = one.get("readers", "/", stream)
    assert [row["reader"] for row in shown] == ["job", "other"]
    assert one.get("readers", "/", stream, "job")["position"] == plan["end"]
    assert [row["reader"] for row in far.get("readers") if row["stream"] == stream] == ["job", "other"]
    assert [row["reader"] for row in far.get("readers", "/") if row["stream"] == stream] == ["job", "other"]
    assert far.call("DELETE", path(stream, "other")).status == 204
    assert far.call("DELETE", path(stream, "other")).status == 404
    channel(1).queue_delete(stream)
    assert one.call("GET", path(stream)).status == 404


def test_retention_waits_for_a_reader_and_says_what_it_has_passed(
    cluster: Cluster, channel: Connect, stream: str
) -> None:
    api, publisher = Management(cluster[1]), channel(0)
    publisher.confirm_delivery()
    put(api, stream, "job", max_lag={"messages": 20})
    plan = api.get("log", "/", stream, "plan", query="rows=3")
    for number in range(10):
        publisher.basic_publish("", stream, b"%0100d" % number, DURABLE)
    assert api.get("readers", "/", stream, "job")["lag"]["messages"] == 20
    for number in range(5):
        publisher.basic_publish("", stream, b"%0100d" % number, DURABLE)
    until(lambda: api.get("readers", "/", stream, "job")["lost"] == 5, "retention has passed five")
    gone = api.call("GET", path_of("log", "/", stream, "plan") + f"?from={plan['end']}&from_count=3")
    assert gone.status == 410 and gone.value["lost"] == 2 and "2 messages behind" in gone.value["reason"]
    owner = cluster.owner(stream)
    labels = f'{{reader="job",stream="{stream}",vhost="/"}}'

    def measured() -> bool:
        pages = fetch(owner.http)
        queues, node = pages["/metrics/queues"], pages["/metrics"]
        return (
            f"quorate_reader_lag_messages{labels} 20.0" in queues
            and f"quorate_reader_lost_messages{labels} 5.0" in queues
            and "quorate_readers_overtaken_total 0.0" not in node
            and stream not in node
        )

    until(measured, "the metrics tell it")
    assert "reader_overtaken" in cluster.logs(400)


def test_the_reader_outlives_its_owner(cluster: Cluster, stream: str) -> None:
    api = Management(cluster[0])
    put(api, stream, "job", max_lag={"messages": 1000})
    plan = api.get("log", "/", stream, "plan", query="rows=4")
    api.call("POST", path(stream, "job", "advance"), {"to": plan["end"]})
    owner = cluster.owner(stream)
    owner.kill()
    other = Management(cluster.others(owner)[0])

    def there() -> bool:
        told = other.call("GET", path(stream, "job"))
        return told.status == 200 and told.value["position"] == plan["end"]

    until(there, "another owner has the reader")
    owner.start()
    cluster.wait_ready()


def test_what_requests_about_readers_are_refused(
    cluster: Cluster, channel: Connect, stream: str, name: str
) -> None:
    api = Management(cluster[0])
    channel(0).queue_declare(f"{name}-queue", durable=True)
    end = api.get("log", "/", stream, "plan")["end"]
    behind = f"{end[:8]}{int(end[8:], 16) + 9:016x}"
    other = f"{int(end[:8], 16) + 1:08x}{end[8:]}"
    for body, reason in (
        ({"form": "earliest"}, "there is no field form; these are: from, max_lag"),
        ({"from": "yesterday"}, "from, 'yesterday', is no position"),
        ({"from": other}, "bookmark of another queue"),
        ({"from": behind}, f"behind the end of the stream, {end}"),
        ({"max_lag": 5}, "max_lag is no object with some of messages, octets, seconds"),
        ({"max_lag": {}}, "max_lag is no object with some of"),
        ({"max_lag": {"bytes": 5}}, "max_lag: there is no limit bytes; these are: messages, octets, seconds"),
        ({"max_lag": {"octets": 0}}, "max_lag: octets, 0, is no number from 1 to"),
        ({"max_lag": {"seconds": 1.5}}, "max_lag: seconds, 1.5, is no number from 1 to"),
        ({"max_lag": {"messages": True}}, "max_lag: messages, True, is no number from 1 to"),
        ({"max_lag": {"messages": 1 << 63}}, "is no number from 1 to"),
    ):
        assert reason in refused(api.call("PUT", path(stream, "job"), body), 400, "bad_request")
    put(api, stream, "job")
    advance = path(stream, "job", "advance")
    for body, reason in (
        ({}, "key_missing,to"),
        ({"to": "latest"}, "to, 'latest', is no bookmark"),
        ({"to": other}, "bookmark of another queue"),
        ({"to": behind}, "behind the end of the stream"),
        ({"to": end, "at": 1}, "there is no field at; these are: to"),
    ):
        assert reason in refused(api.call("POST", advance, body), 400, "bad_request")
    long = path(stream, "r" * 256)
    assert "1 to 255 octets" in refused(api.call("PUT", long, {}), 400, "bad_request")
    refused(api.call("POST", path(stream, "none", "advance"), {"to": end}), 404, "Object Not Found")
    refused(api.call("GET", path(stream, "none")), 404, "Object Not Found")
    refused(api.call("PUT", path("nothing", "job"), {}), 404, "Object Not Found")
    no_stream = api.call("PUT", path(f"{name}-queue", "job"), {})
    assert "is no stream" in refused(no_stream, 400, "bad_request")


def test_the_right_to_read_counts(cluster: Cluster, channel: Connect, stream: str, name: str) -> None:
    api, user = Management(cluster[0]), f"{name}-user"
    put(api, stream, "job")
    api.call("PUT", path_of("users", user), {"password": "p", "tags": "management"})
    mine = Management(cluster[0], user, "p")

    def allowed(**changed: Any) -> Callable[[], int]:
        rights = {"configure": "", "write": "", "read": f"^{stream}$", **changed}
        api.call("PUT", path_of("permissions", "/", user), rights)
        return lambda: mine.call("PUT", path(stream, "job"), {}).status

    status = allowed()
    until(lambda: status() == 200, "the user may read the stream")
    assert [row["reader"] for row in mine.get("readers")] == ["job"]

    def refuses(**changed: Any) -> None:
        status = allowed(**changed)
        until(lambda: status() == 401, "the user may not read all of the stream")
        assert mine.get("readers") == []
        assert mine.call("GET", path(stream)).status == 401
        assert mine.call("DELETE", path(stream, "job")).status == 401

    refuses(read="")
    refuses(read_filter="x = 1")


def test_the_commands_make_show_and_delete_readers(cluster: Cluster, stream: str) -> None:
    shell = Shell(cluster)
    shell.do("readers", "set", stream, "job", "--messages", "50", "--seconds", "60")
    shell.do("readers", "set", stream, "late", "--from", "latest")
    [job, late] = shell.rows("readers", "list", "--stream", stream)
    assert (job["lag"]["messages"], late["lag"]["messages"]) == (10, 0)
    assert job["max_lag"] == {"messages": 50, "octets": None, "seconds": 60.0}
    shown = shell.do("readers", "list")
    assert "50 messages, 60.0 seconds" in shown and stream in shown and "max lag" in shown
    wrong = shell.run("readers", "set", stream, "job", "--messages", "0")
    assert wrong.exit_code == 2 and "a number above 0" in wrong.stderr
    shell.do("readers", "delete", stream, "late")
    assert len(shell.rows("readers", "list", "--stream", stream)) == 1
