"""Any sequence of changes to users, permissions and virtual hosts leaves all replicas with one catalog."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command

FRONT_END = 7

users = st.sampled_from(["alice", "bob", "guest", ""])
vhosts = st.sampled_from(["/", "v", "w"])
patterns = st.sampled_from(["", ".*", "^q", "("])
tags = st.lists(st.sampled_from(["administrator", "own"]), max_size=2)
limits = st.sampled_from(["max-connections", "max-queues", "max-channels", "max-odd"])
keys = st.sampled_from(["k", "l"])
values = st.one_of(st.none(), st.integers(-1, 3))


def command(name: str, **arguments: Any) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


def queue(name: str, vhost: str) -> dict[str, Any]:
    return {
        "vhost": vhost, "name": name, "replicas": ["n1"], "transient": False, "durable": True,
        "exclusive": False, "auto_delete": False, "arguments": {}, "semantics": 0, "front_end": FRONT_END,
        "holder": 0,
    }  # fmt: skip


commands = st.one_of(
    command("put_user", user=users, password_hash=st.just("h"), tags=tags),
    command("set_password", user=users, password_hash=st.sampled_from(["", "h", "i"])),
    command("put_user", user=users, password_hash=st.just("h"), tags=tags, decoy_key=keys),
    command(
        "set_password",
        user=users, password_hash=st.just("j"), decoy_key=keys, replaces=st.sampled_from(["", "h", "i"]),
    ),
    command("set_user_tags", user=users, tags=tags),
    command("delete_user", user=users),
    command("set_user_limit", user=users, limit=limits, value=values),
    command("declare_vhost", vhost=vhosts, creator=users, description=st.sampled_from(["", "d"]), tags=tags),
    command("delete_vhost", vhost=vhosts),
    command("set_vhost_limit", vhost=vhosts, limit=limits, value=values),
    command(
        "set_permissions", user=users, vhost=vhosts, configure=patterns, write=patterns, read=patterns
    ),
    command("clear_permissions", user=users, vhost=vhosts),
    command(
        "set_topic_permissions",
        user=users, vhost=vhosts, exchange=st.sampled_from(["x", "y"]), write=patterns, read=patterns,
    ),
    command(
        "clear_topic_permissions", user=users, vhost=vhosts, exchange=st.sampled_from([None, "x"])
    ),
    command("found_access", vhost=vhosts, users=st.just({"root": {"password_hash": "h", "tags": []}})),
    st.builds(queue, st.sampled_from(["q", "r"]), vhosts).map(lambda fields: ("declare_queue", fields)),
)  # fmt: skip


@given(st.lists(commands, max_size=30), st.integers(0, 30))
def test_replicas_agree_also_one_that_begins_with_a_snapshot(
    sequence: list[tuple[str, dict[str, Any]]], at: int
) -> None:
    first, late = CatalogState(Observer()), CatalogState(Observer())
    for number, (name, arguments) in enumerate(sequence, 1):
        if number == at:
            late.restore(first.snapshot())
        data = encode_command(FRONT_END, number, name, arguments)
        [outcome] = first.apply(data)
        if number >= at:
            [told] = late.apply(data)
            assert (told.value, str(told.error)) == (outcome.value, str(outcome.error))
    if at <= len(sequence):
        assert late.snapshot() == first.snapshot()
    check_consistent(first)


def check_consistent(state: CatalogState) -> None:
    """The catalog has no permissions or limits of users and virtual hosts that do not exist."""
    access = state.access
    assert set(access.vhosts) == set(state.vhosts)
    assert {vhost for vhost, _ in state.queues} <= set(state.vhosts)
    for vhost, user in (*access.permissions, *access.topic_permissions):
        assert vhost in state.vhosts
        assert user in access.users
    assert all(access.topic_permissions.values())
    for name, properties in access.vhosts.items():
        assert sum(vhost == name for vhost, _ in state.queues) >= 0
        assert all(value >= 0 for value in properties.limits.values())
