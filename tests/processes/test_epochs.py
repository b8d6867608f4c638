"""Epochs of a sink over HTTP, on three real nodes, with the pipeline's own client (F8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.log.nodes import LogApiError
from pipeline.log.sinks import DROP, FAIL, BranchWriter, RowError, SinkClient, SinkPlace, Staged
from pipeline.message.encoding import encode_content, encode_properties
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until

pytestmark = pytest.mark.requirement("F8.4")

COUNT = 3000


def raw(body: bytes, **properties: Any) -> bytes:
    return encode_content(encode_properties(properties, {"n": "1"}), body)


def client(cluster: Cluster, *places: int, user: str = "guest", password: str = "guest") -> SinkClient:
    return SinkClient([cluster[place].http for place in places or (0, 1, 2)], user, password)


def write(
    sink: SinkClient, name: str, epoch: int, task: int, attempt: int, *bodies: bytes, **wishes: Any
) -> Staged:
    place = SinkPlace("/", name, epoch, wishes.get("unroutable", FAIL), 40_000)
    writer = BranchWriter(sink, place, task, attempt)
    for body in bodies:
        writer.write("", wishes.get("key", name), raw(body))
    return writer.finish()


def test_epochs_are_seen_once_and_whole_at_every_node(cluster: Cluster, channel: Connect, name: str) -> None:
    """Also with the rights of any client, and every refusal with its reason."""
    consumer = channel(0)
    consumer.queue_declare(name, durable=True)

    def depth() -> int:
        return int(consumer.queue_declare(name, passive=True).method.message_count)

    sinks = [client(cluster, place) for place in range(3)]
    sinks[0].make("/", name)
    bodies = [b"%06d" % number for number in range(2 * COUNT)]
    staged = [
        write(sinks[1], name, 0, 0, 11, *bodies[:COUNT]),
        write(sinks[2], name, 0, 1, 12, *bodies[COUNT:]),
    ]
    lost = write(sinks[0], name, 0, 1, 13, b"of an attempt that lost")
    assert lost.rows == 1 and [one.rows for one in staged] == [COUNT, COUNT]
    assert all(one.branches > 3 for one in staged) and depth() == 0
    shown, branches = sinks[0].show("/", name), 1 + sum(one.branches for one in staged)
    assert shown["committed"] is None and shown["epochs"][0]["branches"] == branches
    for sink in sinks:
        sink.commit("/", name, 0, staged)
        assert depth() == 2 * COUNT and sink.show("/", name)["committed"] == 0
    assert sinks[1].abort("/", name, 0) == "committed"
    again = write(sinks[1], name, 0, 0, 14, *bodies[:COUNT])
    assert again.rows == COUNT and sinks[2].show("/", name)["epochs"] == []
    found = [consumer.basic_get(name, auto_ack=True) for _ in range(2 * COUNT)]
    assert sorted(body for *_, body in found) == bodies and depth() == 0
    method, properties, _ = found[0]
    assert (method.redelivered, properties.delivery_mode, properties.headers) == (False, 2, {"n": "1"})

    _check_refusals(cluster, sinks[0], name)
    _check_rights(cluster, name)
    sinks[0].forget("/", name)
    sinks[0].forget("/", name)
    with pytest.raises(LogApiError, match="HTTP status 404"):
        sinks[2].show("/", name)


def _check_refusals(cluster: Cluster, sink: SinkClient, name: str) -> None:
    with pytest.raises(
        RowError, match="row 0 of the task: row 0 is unroutable: no queue takes"
    ) as unroutable:
        write(sink, name, 1, 0, 1, b"1", key="nowhere")
    assert unroutable.value.row == 0
    dropped = write(sink, name, 1, 0, 1, b"1", b"2", key="nowhere", unroutable=DROP)
    assert (dropped.rows, dropped.unroutable) == (2, 2)
    with pytest.raises(LogApiError, match="branch 0 of attempt 2 at task 1 is not staged"):
        sink.commit("/", name, 1, [dropped, Staged(1, 2, 1, 1, 0)])
    assert sink.abort("/", name, 1) == "dropped"
    api, path = Management(cluster[0]), path_of("sinks", "/", name)
    stage = f"{path}/epochs/1/branches/0/1/0"
    reply = api.call("POST", stage, b"qblk")
    assert refused(reply, 400, "bad_request") == "octet 4: a block that is cut short"
    assert reply.value["octet"] == 4
    large = api.call("POST", stage, bytes(24 * 1024 * 1024 + 1))
    assert "25165824 are allowed" in refused(large, 400, "bad_request")
    for wrong, text in {
        f"{path}/epochs/x/branches/0/1/0": "epoch, 'x', is no number",
        f"{path}/epochs/1/branches/{1 << 32}/1/0": "task, '4294967296', is no number",
        f"{stage}?unroutable=maybe": "unroutable is fail or drop",
        f"{stage}?unroutible=drop": "there is no parameter unroutible",
        f"{path}/epochs/1/commit": "key_missing,branches",
    }.items():
        assert text in refused(api.call("POST", wrong), 400, "bad_request")
    commit = f"{path}/epochs/1/commit"
    for branches in ([[1, 2]], [[1, 2, -1]], [[1, 1, 1], [1, 2, 1]], [[0, 1, 100_001]], "x"):
        assert "branches" in refused(api.call("POST", commit, {"branches": branches}), 400, "bad_request")
    for after in (-1, "0", 1.5, True):
        reply = api.call("POST", commit, {"branches": [], "after": after})
        assert "after: " in refused(reply, 400, "bad_request")
    with pytest.raises(LogApiError, match="the last committed epoch is 0: another job") as caught:
        sink.commit_after("/", name, 1, [], None)
    facts = caught.value.facts
    assert (caught.value.status, facts["error"], facts["committed"]) == (409, "overtaken", 0)
    refused(api.call("GET", path_of("sinks", "/", "nothing")), 404, "Object Not Found")


def _check_rights(cluster: Cluster, name: str) -> None:
    api, user = Management(cluster[0]), f"{name}-user"
    api.call("PUT", path_of("users", user), {"password": "p", "tags": "management"})

    def allowed(configure: str, write: str) -> Callable[[], int]:
        rights = {"configure": configure, "write": write, "read": ""}
        api.call("PUT", path_of("permissions", "/", user), rights)
        mine, path = Management(cluster[0], user, "p"), path_of("sinks", "/", name)
        return lambda: mine.call("GET", path).status

    status = allowed("", "^sink[.]")
    until(lambda: status() == 200, "the user may write the ledger")
    mine = client(cluster, 0, user=user, password="p")
    with pytest.raises(LogApiError, match="HTTP status 401"):
        write(mine, name, 1, 0, 1, b"1")
    with pytest.raises(LogApiError, match="HTTP status 401"):
        mine.make("/", f"{name}-other")
    status = allowed("", "^amq[.]default$")
    until(lambda: status() == 401, "the user may not write the ledger")
    with pytest.raises(LogApiError, match="HTTP status 401"):
        mine.commit("/", name, 1, [])
