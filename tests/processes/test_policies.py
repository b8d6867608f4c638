"""Policies over HTTP and from the command line, and what becomes of queues and exchanges (A24, F7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until
from tests.processes.shell import Shell


@pytest.fixture
def policy(cluster: Cluster, name: str) -> Iterator[str]:
    yield name
    for path in ("policies", "operator-policies"):
        Management(cluster[0]).call("DELETE", path_of(path, "/", name))


def shown(api: Management, name: str) -> Any:
    row = api.get("queues", "/", name)
    return row["policy"], row["operator_policy"], row["effective_policy_definition"]


@pytest.mark.requirement("F7.1")
def test_a_policy_counts_from_when_it_is_set_until_it_is_deleted(
    cluster: Cluster, channel: Connect, policy: str
) -> None:
    one, api, far = channel(0), Management(cluster[1]), Management(cluster[2])
    one.confirm_delivery()
    one.queue_declare(policy, durable=True)
    for octets in (b"a", b"b", b"c"):
        one.basic_publish("", policy, octets)
    path = path_of("policies", "/", policy)
    body = {"pattern": f"^{policy}$", "definition": {"max-length": 2}, "priority": 1, "apply-to": "queues"}
    assert api.call("PUT", path, body).status == 201
    assert far.get("policies", "/", policy) == {"vhost": "/", "name": policy, **body}
    assert {"vhost": "/", "name": policy, **body} in far.get("policies")
    until(lambda: one.queue_declare(policy, passive=True).method.message_count == 2, "one is dropped")
    assert shown(far, policy) == (policy, None, {"max-length": 2})
    limit = {**body, "definition": {"max-length": 1}}
    assert api.call("PUT", path_of("operator-policies", "/", policy), limit).status == 201
    until(lambda: one.queue_declare(policy, passive=True).method.message_count == 1, "another one is")
    assert shown(far, policy) == (policy, policy, {"max-length": 1})
    assert api.call("PUT", path, body).status == 204
    assert api.call("DELETE", path).status == 204
    assert api.call("DELETE", path).status == 404
    assert shown(far, policy) == (None, policy, {"max-length": 1})


@pytest.mark.requirement("F7.1")
def test_a_policy_gives_an_exchange_its_alternate(cluster: Cluster, channel: Connect, policy: str) -> None:
    one, api = channel(0), Management(cluster[1])
    one.confirm_delivery()
    one.exchange_declare(policy, "direct")
    one.queue_declare(f"{policy}-q", durable=True)
    one.queue_bind(f"{policy}-q", "amq.fanout")
    body = {"pattern": policy, "definition": {"alternate-exchange": "amq.fanout"}, "apply-to": "exchanges"}
    assert api.call("PUT", path_of("policies", "/", policy), body).status == 201
    assert api.get("exchanges", "/", policy)["policy"] == policy
    one.basic_publish(policy, "nowhere", b"x", mandatory=True)
    assert one.basic_get(f"{policy}-q", auto_ack=True)[2] == b"x"
    one.exchange_delete(policy)
    one.queue_delete(f"{policy}-q")


@pytest.mark.requirement("F7.1")
@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("policies", {"pattern": "("}, "invalid regular expression"),
        ("policies", {"definition": {}}, "must define something"),
        ("policies", {"definition": {"max-lenth": 1}}, "max-lenth is not a recognised policy setting"),
        ("policies", {"definition": {"max-length": "1"}}, "not a valid value of max-length"),
        ("policies", {"definition": {"message-ttl": -1}}, "value_negative"),
        ("policies", {"definition": {"overflow": "spill"}}, "invalid_overflow"),
        ("policies", {"apply-to": "everything"}, "apply-to"),
        ("policies", {"priority": "high"}, "not_integer"),
        ("operator-policies", {"definition": {"dead-letter-exchange": "x"}}, "recognised operator policy"),
        ("operator-policies", {"apply-to": "exchanges"}, "operator policies"),
    ],
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(
    cluster: Cluster, policy: str, path: str, body: dict[str, Any], words: str
) -> None:
    whole = {"pattern": ".*", "definition": {"max-length": 1}, **body}
    reply = Management(cluster[0]).call("PUT", path_of(path, "/", policy), whole)
    assert words in str(refused(reply, 400, "bad_request"))


@pytest.mark.requirement("F7.2", "F7.3", "F7.5")
def test_policies_from_the_command_line_and_in_definitions(cluster: Cluster, policy: str) -> None:
    one, two = Shell(cluster, 0), Shell(cluster, 1)
    one.do(
        "policies", "set", policy, f"^{policy}", "max-length=5", "overflow=reject-publish", "--priority", "3"
    )
    one.do("policies", "set", policy, f"^{policy}", "message-ttl=60000", "--operator")
    (row,) = (row for row in two.rows("policies", "list", "--vhost", "/") if row["name"] == policy)
    assert (row["definition"], row["priority"], row["apply-to"]) == (
        {"max-length": 5, "overflow": "reject-publish"}, 3, "queues",
    )  # fmt: skip
    assert policy in two.do("policies", "list", "--operator")
    saved = two.do("definitions", "export")
    for options in ((), ("--operator",)):
        one.do("policies", "delete", policy, *options)
        assert policy not in two.do("policies", "list", *options)
    two.do("definitions", "import", input=saved)
    assert [one.rows("policies", "list", *options)[-1]["name"] for options in ((), ("--operator",))] == [
        policy, policy,
    ]  # fmt: skip
    assert json.loads(one.do("definitions", "export"))["policies"] == json.loads(saved)["policies"]
    wrong = one.run("policies", "set", policy, ".*", "max-length")
    assert (wrong.exit_code, "KEY=VALUE max-length" in wrong.stderr) == (2, True)
