"""Views over queues over HTTP, on real nodes: definitions, rows, followers, rights and refusals (D15)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until
from tests.processes.shell import Shell

BY_CUSTOMER = {
    "filter": "/price >= 0",
    "group_by": ["/customer"],
    "fields": {"customer": "/customer", "orders": "COUNT(*)", "total": "SUM(/price)", "most": "MAX(/price)"},
}


@pytest.fixture
def queue(cluster: Cluster, channel: Connect, name: str) -> Iterator[str]:
    """A queue with three orders, and a consumer's worth of views that go with it."""
    one = channel(0)
    one.confirm_delivery()
    one.queue_declare(name, durable=True)
    for body in (b'{"customer": "a", "price": 1.5}', b'{"customer": "b", "price": 2}', b'{"price": -1}'):
        one.basic_publish("", name, body)
    yield name
    one.queue_delete(name)


def put(api: Management, view: str, queue: str, /, **body: Any) -> Any:
    return api.call("PUT", path_of("views", "/", view), {"queue": queue, **BY_CUSTOMER, **body})


def read(api: Management, view: str, query: str = "") -> dict[str, Any]:
    """The rows of a view that lags behind no more."""
    found: list[dict[str, Any]] = []

    def complete() -> bool:
        found.append(api.get("views", "/", view, query=query))
        return bool(found[-1]["complete"])

    until(complete, "the view is complete")
    return found[-1]


@pytest.mark.requirement("D15.2", "D15.3")
def test_a_view_is_defined_read_followed_and_deleted(
    cluster: Cluster, channel: Connect, queue: str, name: str
) -> None:
    one, far = Management(cluster[0]), Management(cluster[2])
    assert put(one, name, queue).status == 201
    definition = {"vhost": "/", "name": name, "queue": queue, **BY_CUSTOMER}
    assert definition in far.get("views", "/") and definition in far.get("views")
    shown = read(far, name)
    assert {key: shown[key] for key in definition} == definition
    first, second = ({"customer": "a", "orders": 1, "total": 1.5, "most": 1.5},
                     {"customer": "b", "orders": 1, "total": 2, "most": 2})  # fmt: skip
    assert shown["rows"] == [first, second] and (shown["behind"], shown["at_once"]) == (0, True)
    consumer = channel(1)
    consumer.basic_qos(prefetch_count=1)
    consumer.basic_consume(queue, lambda *_: None)
    until(lambda: read(far, name)["rows"] == [second], "the leased order leaves the rows")
    followed: list[Any] = []
    query = f"after={read(far, name)['version']}&wait=20"
    follower = threading.Thread(target=lambda: followed.append(far.get("views", "/", name, query=query)))
    follower.start()
    consumer.connection.close()
    follower.join(20)
    assert first in followed[0]["rows"] and second in followed[0]["rows"]
    assert put(one, name, queue, group_by=[], fields={"n": "COUNT(/price)"}, filter="").status == 204
    assert read(far, name)["rows"] == [{"n": 3}]
    assert far.call("DELETE", path_of("views", "/", name)).status == 204
    assert one.call("GET", path_of("views", "/", name)).status == 404
    assert one.call("DELETE", path_of("views", "/", name)).status == 404


@pytest.mark.requirement("D15.2")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"fields": {"n": "SUM(/price +)"}}, "'v': field 'n': the expression ends too early at column 13"),
        ({"fields": {"n": "MEDIAN(/price)"}}, "there is no function MEDIAN at column 1"),
        ({"fields": {"n": "/price"}}, "field 'n' is neither an aggregate nor an expression of group_by"),
        ({"fields": {"n": f"SUM({'/a + ' * 2000}1)"}}, "has more than 8192 octets at column 8193"),
        ({"filter": "/price >"}, "filter: the expression ends too early at column 9"),
        ({"group_by": "/customer"}, "group_by is no list of texts"),
        ({"group_by": [1]}, "group_by is no list of texts"),
        ({"fields": ["COUNT(*)"]}, "fields is no object of texts"),
        ({"fields": {"": "COUNT(*)"}}, "with names of 1 to 255 octets"),
        ({"fields": {}}, "a view has 1 to 64 fields"),
        ({"queue": "nowhere-at-all"}, "no queue 'nowhere-at-all' in vhost '/' that a view could be over"),
        ({"queue": 7}, "no queue '7' in vhost"),
    ],
)  # fmt: skip
def test_wrong_definitions_are_refused(cluster: Cluster, queue: str, body: Any, reason: str) -> None:
    reply = put(Management(cluster[1]), "v", queue, **body)
    assert reason in refused(reply, 400, "bad_request")
    assert Management(cluster[1]).call("GET", path_of("views", "/", "v")).status == 404


@pytest.mark.parametrize(
    "query",
    ["after=x", "after=1.2.3", "after=1.2&wait=x", "after=1.2&wait=21", "after=-1.0", "after=1.2&wait=nan"],
)  # fmt: skip
def test_wrong_followers_are_refused(cluster: Cluster, queue: str, name: str, query: str) -> None:
    api = Management(cluster[0])
    assert put(api, name, queue).status == 201
    refused(api.call("GET", path_of("views", "/", name) + "?" + query), 400, "bad_request")


@pytest.mark.requirement("D15.2")
def test_the_rights_for_views(cluster: Cluster, queue: str, name: str) -> None:
    api = Management(cluster[0])
    assert api.call("PUT", path_of("users", name), {"password": "p", "tags": "management"}).status == 201
    user = Management(cluster[1], name, "p")
    path = path_of("views", "/", name)

    def permit(configure: str, read: str, **filters: str) -> None:
        body = {"configure": configure, "write": "", "read": read, **filters}
        assert api.call("PUT", path_of("permissions", "/", name), body).status in (201, 204)

    permit("", ".*")
    refused(put(user, name, queue), 401, "not_authorised")
    permit(".*", "")
    assert put(user, name, queue).status == 201
    refused(user.call("GET", path), 401, "not_authorised")
    permit("", ".*", read_filter="/price > 1")
    refused(user.call("GET", path), 401, "not_authorised")
    refused(user.call("DELETE", path), 401, "not_authorised")
    permit("", ".*", read_filter="")
    assert len(read(user, name)["rows"]) == 2
    permit(f"^{queue}$", ".*")
    assert user.call("DELETE", path).status == 204
    assert api.call("DELETE", path_of("users", name)).status == 204


@pytest.mark.requirement("D15.2")
def test_views_from_the_command_line_and_in_definitions(cluster: Cluster, queue: str, name: str) -> None:
    one, two = Shell(cluster, 0), Shell(cluster, 1)
    fields = ("customer=/customer", "total=SUM(/price)")
    one.do("views", "set", name, queue, *fields, "--group-by", "/customer", "--filter", "/price > 1")
    (row,) = two.rows("views", "list", "--vhost", "/")
    assert (row["name"], row["queue"], row["filter"]) == (name, queue, "/price > 1")
    table = f"rows (2)\n  customer  total\n  a{' ' * 9}1.5\n  b{' ' * 9}2\n"
    until(lambda: two.do("views", "show", name) == table, "the view is complete")
    assert two.rows("views", "show", name)
    saved = json.loads(two.do("definitions", "export"))
    assert [view["name"] for view in saved["views"]] == [name]
    one.do("views", "delete", name)
    assert two.do("views", "list") == "views (0)\n"
    assert "views" not in json.loads(two.do("definitions", "export"))
    two.do("definitions", "import", input=json.dumps(saved))
    assert one.rows("views", "list") == saved["views"]
    broken = {**saved["views"][0], "filter": "/price >"}
    failed = one.run("definitions", "import", input=json.dumps({"views": [broken]}))
    assert (failed.exit_code, "filter: the expression ends too early at column 9" in failed.stderr) == (
        1,
        True,
    )
    wrong = one.run("views", "set", name, queue, "total")
    assert (wrong.exit_code, "total: write it as FIELD=EXPRESSION" in wrong.stderr) == (2, True)


def test_an_exclusive_queue_has_no_views(cluster: Cluster, channel: Connect, name: str) -> None:
    channel(0).queue_declare(name, exclusive=True)
    reason = refused(put(Management(cluster[0]), name, name), 400, "bad_request")
    assert reason == f"queue '{name}' in vhost '/' is exclusive, and has no views"
