"""The catalog's commands: equal on every replica, carried out once, refused with the right code."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.definitions import (
    FIRST_LOCAL_ID,
    REPLY_QUEUE_PREFIX,
    LocalName,
    PartitionDefinition,
    PartitionKind,
    QueueDefinition,
    parse_local_queue_name,
)
from cluster.catalog.observer import Observer
from cluster.catalog.recent_requests import RECENT_REQUESTS, RecentRequests
from cluster.catalog.state import CatalogState, CommandOutcome, encode_command, encode_commands
from node.refusal import NotFoundError, PreconditionFailedError, ResourceLockedError

FRONT_END = 77


class Recorder(Observer):
    def __init__(self) -> None:
        self.added: list[int] = []
        self.removed: list[int] = []
        self.queues_removed: list[str] = []

    def partition_added(self, partition: PartitionDefinition) -> None:
        self.added.append(partition.id)

    def partition_removed(self, partition: PartitionDefinition) -> None:
        self.removed.append(partition.id)

    def queue_removed(self, queue: QueueDefinition) -> None:
        self.queues_removed.append(queue.name)


class Catalog:
    """A catalog with a virtual host and one started node."""

    def __init__(self) -> None:
        self.seen = Recorder()
        self.state = CatalogState(self.seen)
        self.requests = 0
        self.do("declare_vhost", vhost="/")
        self.do("start_node", name="n1", front_end=FRONT_END)

    def outcome(self, name: str, arguments: dict[str, Any]) -> CommandOutcome:
        self.requests += 1
        [outcome] = self.state.apply(encode_command(FRONT_END, self.requests, name, arguments))
        return outcome

    def do(self, name: str, /, **arguments: Any) -> Any:
        outcome = self.outcome(name, arguments)
        assert outcome.error is None
        return outcome.value

    def refusal(self, name: str, /, **arguments: Any) -> Exception:
        error = self.outcome(name, arguments).error
        assert error is not None
        return error


def queue(name: str = "q", **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "vhost": "/", "name": name, "replicas": ["n1", "n2", "n3"], "transient": False, "durable": True,
        "exclusive": False, "auto_delete": False, "arguments": {}, "semantics": 0,
        "front_end": FRONT_END, "holder": 0,
    }  # fmt: skip
    return {**fields, **changes}


def binding(source: str, destination: str, key: str = "") -> dict[str, Any]:
    return {
        "vhost": "/", "source": source, "kind": "queue", "destination": destination, "key": key,
        "arguments": {},
    }  # fmt: skip


def test_queues_with_the_same_replicas_share_a_partition() -> None:
    catalog = Catalog()
    first = catalog.do("declare_queue", **queue("a"))
    second = catalog.do("declare_queue", **queue("b"))
    third = catalog.do("declare_queue", **queue("c", replicas=["n2", "n3", "n1"]))
    assert first["partition"] == second["partition"] != third["partition"]
    assert len({first["id"], second["id"], third["id"]}) == 3


@pytest.mark.requirement("A16.2")
def test_redeclaring_says_which_argument_differs() -> None:
    catalog = Catalog()
    once = catalog.do("declare_queue", **queue())
    assert catalog.do("declare_queue", **queue()) == {**once, "created": False}
    error = catalog.refusal("declare_queue", **queue(durable=False))
    assert isinstance(error, PreconditionFailedError)
    assert str(error) == (
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"
    )
    error = catalog.refusal("declare_queue", **queue(arguments={"x-max-length": 5}))
    assert str(error) == (
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': "
        "received the value '5' of type 'signedint' but current is none"
    )


@pytest.mark.requirement("A16.2")
def test_arguments_that_mean_nothing_to_a_queue_are_not_compared() -> None:
    catalog = Catalog()
    once = catalog.do("declare_queue", **queue(arguments={"x-max-length": 5, "x-ha-policy": "all"}))
    assert (
        catalog.do("declare_queue", **queue(arguments={"x-max-length": 5, "note": "b"}))["id"] == once["id"]
    )
    error = catalog.refusal("declare_queue", **queue(arguments={"x-max-length": 6}))
    assert str(error).endswith("received '6' but current is '5'")


@pytest.mark.requirement("A16.2")
@pytest.mark.parametrize(
    ("declared", "replicas", "again", "equal"),
    [
        (None, ["n1", "n2", "n3"], "quorum", True),
        (None, ["n1", "n2", "n3"], "classic", False),
        (None, ["n1"], "classic", True),
        ("classic", ["n1"], None, True),
        ("classic", ["n1"], "quorum", False),
    ],
)
def test_a_queue_type_is_compared_where_one_is_asked_for(
    declared: str | None, replicas: list[str], again: str | None, equal: bool
) -> None:
    catalog = Catalog()

    def of(type_: str | None) -> dict[str, Any]:
        return queue(replicas=replicas, arguments={} if type_ is None else {"x-queue-type": type_})

    catalog.do("declare_queue", **of(declared))
    error = catalog.outcome("declare_queue", of(again)).error
    assert (error is None) is equal
    assert equal or "inequivalent arg 'x-queue-type'" in str(error)


@pytest.mark.requirement("A15.5")
def test_an_exclusive_queue_is_locked_to_its_connection_and_goes_with_it() -> None:
    catalog = Catalog()
    catalog.do("declare_queue", **queue(exclusive=True, transient=True, holder=4))
    catalog.do("declare_queue", **queue(exclusive=True, transient=True, holder=4))
    for other in (queue(exclusive=True, transient=True, holder=5), queue(transient=True, holder=4)):
        error = catalog.refusal("declare_queue", **other)
        assert isinstance(error, ResourceLockedError)
        assert str(error).startswith("cannot obtain exclusive access to locked queue 'q' in vhost '/'.")
    catalog.do("release_holder", front_end=FRONT_END, holder=4)
    assert catalog.seen.queues_removed == ["q"]


@pytest.mark.requirement("A15.7")
def test_bindings_die_with_their_queue() -> None:
    catalog = Catalog()
    made = catalog.do("declare_queue", **queue())
    catalog.do("bind", **binding("amq.fanout", "q"))
    exchanges = catalog.state.vhost("/").exchanges
    assert exchanges.route("amq.fanout", "") == {"q"}
    assert catalog.do("delete_queue", id=made["id"]) is True
    assert exchanges.bindings() == []
    assert catalog.do("delete_queue", id=made["id"]) is False


@pytest.mark.requirement("A15.7")
@pytest.mark.parametrize("end", ["unbind", "delete_queue", "delete_exchange"])
def test_nothing_is_kept_of_bindings_that_go_with_an_auto_delete_exchange(end: str) -> None:
    catalog = Catalog()
    made = catalog.do("declare_queue", **queue())
    for name in ("first", "second"):
        exchange = {"name": name, "kind": "direct", "auto_delete": True}
        catalog.do("declare_exchange", vhost="/", exchange=exchange)
    catalog.do("bind", **{**binding("amq.direct", "first"), "kind": "exchange"})
    catalog.do("bind", **{**binding("first", "second"), "kind": "exchange"})
    catalog.do("bind", **binding("second", "q"))
    ends: dict[str, dict[str, Any]] = {
        "unbind": binding("second", "q"),
        "delete_queue": {"id": made["id"]},
        "delete_exchange": {"vhost": "/", "name": "second", "if_unused": False},
    }
    catalog.do(end, **ends[end])
    host = catalog.state.vhosts["/"]
    assert (host.exchanges.bindings(), host.arguments) == ([], {})


def test_a_restarted_node_has_lost_what_was_in_its_memory() -> None:
    catalog = Catalog()
    catalog.do("declare_queue", **queue("durable"))
    catalog.do("declare_queue", **queue("transient", durable=False, transient=True, replicas=["n1"]))
    partition = catalog.state.table.transient(FRONT_END)
    assert partition is not None
    local = LocalName.of(FRONT_END, partition.id, FIRST_LOCAL_ID, "/").text()
    catalog.do("bind", **binding("amq.direct", local, "key"))
    catalog.do("start_node", name="n1", front_end=FRONT_END + 1)
    assert catalog.seen.queues_removed == ["transient"]
    assert catalog.seen.removed == [partition.id]
    assert catalog.state.vhost("/").exchanges.bindings() == []
    fresh = catalog.state.table.transient(FRONT_END + 1)
    assert fresh is not None
    assert fresh.kind is PartitionKind.TRANSIENT


def test_queues_that_a_node_had_in_memory_are_removed_by_their_numbers() -> None:
    catalog = Catalog()
    lost = [catalog.do("declare_queue", **queue(name, transient=True, durable=False))["id"] for name in "ab"]
    catalog.do("delete_queues", ids=lost)
    assert catalog.seen.queues_removed == ["a", "b"]
    again = catalog.do("declare_queue", **queue("a", transient=True, durable=False))
    catalog.do("delete_queues", ids=lost)
    assert catalog.state.queue("/", "a").id == again["id"]


def test_a_command_that_is_sent_twice_is_carried_out_once() -> None:
    catalog = Catalog()
    command = encode_command(FRONT_END, 500, "declare_queue", queue())
    assert catalog.state.apply(command)
    assert catalog.state.apply(command) == []


def test_commands_of_one_entry_are_carried_out_in_order_and_each_once() -> None:
    catalog, other = Catalog(), Catalog()
    declared = encode_command(FRONT_END, 500, "declare_queue", queue())
    refused = encode_command(FRONT_END, 501, "bind", binding("nowhere", "q"))
    deleted = encode_command(FRONT_END, 502, "delete_queue", {"id": 1})
    outcomes = catalog.state.apply(encode_commands([declared, refused, declared, deleted]))
    assert [outcome.request for outcome in outcomes] == [500, 501, 502]
    assert isinstance(outcomes[1].error, NotFoundError)
    assert catalog.state.queues == {}
    for command in (declared, refused, deleted):
        other.state.apply(command)
    assert catalog.state.snapshot() == other.state.snapshot()


def test_the_latest_requests_are_remembered() -> None:
    recent = RecentRequests()
    for request in range(RECENT_REQUESTS):
        assert recent.add(request)
    assert not recent.add(0)
    assert recent.add(RECENT_REQUESTS)
    assert recent.to_plain() == list(range(1, RECENT_REQUESTS + 1))
    assert recent.add(0)


def test_a_refusal_leaves_the_catalog_as_it_was() -> None:
    catalog = Catalog()
    before = catalog.state.snapshot()
    error = catalog.outcome("bind", binding("nowhere", "q")).error
    assert isinstance(error, NotFoundError)
    restored = CatalogState(Recorder())
    restored.restore(before)
    assert restored.queues == catalog.state.queues


def test_a_snapshot_restores_everything() -> None:
    catalog = Catalog()
    catalog.do("declare_queue", **queue("a", arguments={"x-queue-type": "quorum"}))
    exchange = {
        "name": "e", "kind": "topic", "durable": True, "auto_delete": False, "internal": False,
        "alternate": None,
    }  # fmt: skip
    catalog.do("declare_exchange", vhost="/", exchange=exchange)
    catalog.do("bind", **binding("e", "a", "x.*"))
    view = {"name": "v", "queue": "a", "filter": "", "group_by": ["/c"], "fields": {"n": "COUNT(*)"}}
    assert catalog.do("put_view", vhost="/", view=view)
    restored = CatalogState(Recorder())
    restored.restore(catalog.state.snapshot())
    assert restored.snapshot() == catalog.state.snapshot()
    assert restored.views.terms_over("/", "a") == catalog.state.views.terms_over("/", "a") != ()
    assert restored.vhost("/").exchanges.route("e", "x.y") == {"a"}
    assert restored.apply(encode_command(FRONT_END, catalog.requests, "declare_vhost", {"vhost": "z"})) == []


def test_a_replica_that_was_restored_lists_later_bindings_in_the_same_order() -> None:
    catalog = Catalog()
    catalog.do("declare_queue", **queue("a", arguments={"x-queue-type": "quorum"}))
    catalog.do("bind", **binding("amq.direct", "a"))
    catalog.do("bind", **binding("amq.fanout", "a"))
    catalog.do("unbind", **binding("amq.direct", "a"))
    restored = CatalogState(Recorder())
    restored.restore(catalog.state.snapshot())
    catalog.do("bind", **binding("amq.direct", "a"))
    command = encode_command(FRONT_END, catalog.requests, "bind", binding("amq.direct", "a"))
    restored.apply(command)
    assert restored.snapshot() == catalog.state.snapshot()


def test_local_queue_names_tell_where_the_queue_is() -> None:
    name = LocalName.of(5, 6, 7, "/")
    assert parse_local_queue_name(name.text()) == name
    assert parse_local_queue_name(name.text(REPLY_QUEUE_PREFIX)) == name
    assert name != LocalName.of(5, 6, 7, "other")
    for name in (
        "amq.gen-", "amq.gen-1.2.3", "amq.gen-x.y.z.w", "other", "amq.gen-JzTY20BRgKO",
        "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.1.2.3", "amq.rabbitmq.reply-to-1.2.3.4",
    ):  # fmt: skip
        assert parse_local_queue_name(name) is None
