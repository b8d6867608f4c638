"""Users, permissions and limits: the catalog's commands, logins, and RabbitMQ's access control decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster.catalog.access.control import Access, is_loopback
from cluster.catalog.access.records import LoginRules, Permission, User
from cluster.catalog.access.state import AccessState
from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command
from cluster.config.passwords import PasswordHash, parse_hash
from cluster.peers.packing import pack, unpack
from node.refusal import (
    AccessRefusedError,
    NotFoundError,
    PreconditionFailedError,
    Refusal,
    ResourceError,
)
from node.session.permissions import Right, Scope
from node.session.ports import Identity

FRONT_END = 77
HASH = str(PasswordHash.of("wonder"))


class Recorder(Observer):
    def __init__(self) -> None:
        self.removed: list[str] = []

    def vhost_removed(self, vhost: str) -> None:
        self.removed.append(f"vhost {vhost}")

    def user_removed(self, user: str) -> None:
        self.removed.append(f"user {user}")


class Hashing:
    """A hasher that answers when the test says so, so that the test can change the catalog before."""

    key = b"key"

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.compared = 0

    def hash(self, password: str, scram: bool, answer: Callable[[str], None]) -> None:
        self.waiting.append(lambda: answer(str(PasswordHash.of(password, scram))))

    def compare(
        self, stored: str | None, password: str, origin: str, user: str, answer: Callable[[bool], None]
    ) -> Callable[[], None]:
        def compare() -> None:
            self.compared += 1
            answer(stored is not None and parse_hash(stored).matches(password))

        self.waiting.append(compare)
        return lambda: self.waiting.remove(compare) if compare in self.waiting else None

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


class Desk:
    """A catalog of one node, with the users alice (administrator) and bob, and a virtual host `v`."""

    def __init__(self) -> None:
        self.seen = Recorder()
        self.state = CatalogState(self.seen)
        self.hashing = Hashing()
        self.access = Access(self.state.access, self.submit, self.hashing)
        self.requests = 0
        self.commands: list[bytes] = []
        users = {"alice": {"password_hash": HASH, "tags": ["administrator"]}}
        self.do("found_access", vhost="/", users=users)
        self.do("start_node", name="n1", front_end=FRONT_END)
        self.do("declare_vhost", vhost="v")
        self.do("put_user", user="bob", password_hash=HASH, tags=[])

    def submit(self, name: str, arguments: dict[str, Any], answer: Callable[..., None]) -> None:
        self.requests += 1
        command = encode_command(FRONT_END, self.requests, name, arguments)
        self.commands.append(command)
        [outcome] = self.state.apply(command)
        answer(outcome.value, outcome.error)

    def do(self, name: str, /, **arguments: Any) -> Any:
        answers: list[tuple[Any, Refusal | None]] = []
        self.submit(name, arguments, lambda *answer: answers.append(answer))
        [(value, refusal)] = answers
        assert refusal is None
        return value

    def call(self, method: Callable[..., None], *arguments: Any, **named: Any) -> Any:
        """The answer to a change of `Access`. Raises a refusal."""
        answers: list[tuple[Any, Refusal | None]] = []
        method(*arguments, answer=lambda *answer: answers.append(answer), **named)
        self.hashing.work()
        [(value, refusal)] = answers
        if refusal is not None:
            raise refusal
        return value

    def login(self, user: str, password: str, remote: str = "127.0.0.1") -> tuple[Identity | None, str]:
        answers: list[tuple[Identity | None, str]] = []
        self.access.authenticate(user, password, remote, lambda *answer: answers.append(answer))
        self.hashing.work()
        [answer] = answers
        return answer


# -- the catalog's part -----------------------------------------------------------------------------


def test_a_cluster_takes_over_the_configured_users_once() -> None:
    desk = Desk()
    access = desk.state.access
    assert access.users["alice"] == User("alice", HASH, ("administrator",))
    assert access.permissions["/", "alice"] == Permission(".*", ".*", ".*")
    assert not desk.do("found_access", vhost="/", users={"mallory": {"password_hash": HASH, "tags": []}})
    assert "mallory" not in access.users


@pytest.mark.requirement("A11.1")
def test_deleting_a_virtual_host_removes_all_that_is_in_it() -> None:
    desk = Desk()
    queue = {
        "vhost": "v", "name": "q", "replicas": ["n1"], "transient": False, "durable": True,
        "exclusive": False, "auto_delete": False, "arguments": {}, "semantics": 0,
        "front_end": FRONT_END, "holder": 0,
    }  # fmt: skip
    desk.do("declare_queue", **queue)
    desk.do("declare_queue", **{**queue, "vhost": "/"})
    desk.do("set_permissions", user="bob", vhost="v", configure="", write="", read="")
    desk.do("set_topic_permissions", user="bob", vhost="v", exchange="amq.topic", write="", read="")
    desk.do("delete_vhost", vhost="v")
    assert list(desk.state.vhosts) == ["/"] == list(desk.state.access.vhosts)
    assert list(desk.state.queues) == [("/", "q")]
    assert list(desk.state.access.permissions) == [("/", "alice")]
    assert not desk.state.access.topic_permissions
    assert desk.seen.removed == ["vhost v"]
    with pytest.raises(NotFoundError):
        desk.call(desk.access.delete_vhost, "v")


def test_deleting_a_user_takes_the_permissions_along() -> None:
    desk = Desk()
    desk.do("set_permissions", user="bob", vhost="v", configure="", write="", read="")
    desk.do("set_topic_permissions", user="bob", vhost="v", exchange="amq.topic", write="", read="")
    desk.call(desk.access.delete_user, "bob")
    assert list(desk.state.access.permissions) == [("/", "alice")]
    assert not desk.state.access.topic_permissions
    assert desk.seen.removed == ["user bob"]
    with pytest.raises(NotFoundError):
        desk.call(desk.access.delete_user, "bob")


@pytest.mark.requirement("F6.5")
def test_a_virtual_host_takes_no_more_queues_than_its_limit() -> None:
    desk = Desk()
    desk.call(desk.access.set_vhost_limit, "v", "max-queues", 1)
    queue = {
        "vhost": "v", "replicas": ["n1"], "transient": False, "durable": True, "exclusive": False,
        "auto_delete": False, "arguments": {}, "semantics": 0, "front_end": FRONT_END, "holder": 0,
    }  # fmt: skip
    made = desk.do("declare_queue", name="a", **queue)
    desk.do("declare_queue", name="a", **queue)
    with pytest.raises(PreconditionFailedError) as refusal:
        desk.call(lambda answer: desk.submit("declare_queue", {"name": "b", **queue}, answer))
    assert str(refusal.value) == "cannot declare queue 'b': queue limit in vhost 'v' (1) is reached"
    desk.do("delete_queue", id=made["id"])
    desk.do("declare_queue", name="b", **queue)
    desk.call(desk.access.set_vhost_limit, "v", "max-queues", -1)
    desk.do("declare_queue", name="c", **queue)


def test_limits_have_the_names_of_rabbitmqs() -> None:
    desk = Desk()
    desk.call(desk.access.set_user_limit, "bob", "max-connections", 3)
    assert desk.state.access.user("bob").limits == {"max-connections": 3}
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.set_user_limit, "bob", "max-queues", 3)
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.set_vhost_limit, "v", "max-channels", 3)
    desk.call(desk.access.set_user_limit, "bob", "max-connections", None)
    assert desk.state.access.user("bob").limits == {}


def test_who_adds_a_virtual_host_may_use_it() -> None:
    desk = Desk()
    assert desk.call(desk.access.put_vhost, "w", creator="bob", description="new", tags=["a"])
    assert desk.access.may_enter(Identity("bob"), "w")
    assert not desk.call(desk.access.put_vhost, "w", creator="alice", description="newer")
    assert not desk.access.may_enter(Identity("alice"), "w")
    properties = desk.state.access.vhost("w")
    assert (properties.description, properties.tags) == ("newer", ("a",))


def test_a_snapshot_restores_users_permissions_and_limits() -> None:
    desk = Desk()
    desk.do("set_permissions", user="bob", vhost="v", configure="c", write="w", read="r")
    desk.do("set_topic_permissions", user="bob", vhost="v", exchange="amq.topic", write="w", read="r")
    desk.do("set_vhost_limit", vhost="v", limit="max-queues", value=5)
    desk.do("declare_vhost", vhost="v", description="d", tags=["t"], default_queue_type="quorum")
    restored = CatalogState(Recorder())
    restored.restore(desk.state.snapshot())
    assert restored.snapshot() == desk.state.snapshot()
    assert restored.access.users == desk.state.access.users
    assert restored.access.vhosts == desk.state.access.vhosts
    assert restored.access.topic_permissions == desk.state.access.topic_permissions


def test_a_snapshot_from_before_there_were_users_opens() -> None:
    desk = Desk()
    old = unpack(desk.state.snapshot())
    del old["access"]
    old["version"] = 1
    restored = CatalogState(Recorder())
    restored.restore(pack(old))
    assert not restored.access.founded
    assert set(restored.access.vhosts) == {"/", "v"}
    [outcome] = restored.apply(
        encode_command(
            FRONT_END, 900, "found_access",
            {"vhost": "/", "users": {"carol": {"password_hash": HASH, "tags": []}}},
        )
    )  # fmt: skip
    assert outcome.value is True
    assert set(restored.access.users) == {"carol"}


def test_a_change_is_seen_as_one() -> None:
    state = AccessState(lambda _: None)
    before = state.version
    state.commands["put_user"](user="u", password_hash="", tags=[])
    assert state.version > before


# -- logins -----------------------------------------------------------------------------------------


def test_a_login_is_checked_once_and_remembered() -> None:
    desk = Desk()
    identity, _ = desk.login("alice", "wonder")
    assert identity == Identity("alice", ("administrator",))
    assert desk.login("alice", "wonder")[0] is not None
    assert desk.hashing.compared == 1
    assert desk.login("alice", "wrong")[0] is None


def test_a_password_that_cannot_be_hashed_is_refused_and_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    with monkeypatch.context() as short:
        short.setattr(desk.hashing, "compare", lambda *asked: asked[-1](None))
        short.setattr(desk.hashing, "hash", lambda _, scram, answer: answer(None))
        identity, reason = desk.login("alice", "wonder")
        assert identity is None and "could not be checked now" in reason
        with pytest.raises(ResourceError):
            desk.call(desk.access.set_password, "bob", password="new")
    assert desk.login("alice", "wonder")[0] is not None
    assert desk.login("bob", "wonder")[0] is not None


def test_an_unknown_user_costs_a_hash_as_well() -> None:
    desk = Desk()
    assert desk.login("nobody", "wonder") == (None, "user 'nobody' - invalid credentials")
    assert desk.hashing.compared == 1


def test_no_password_is_no_users_password() -> None:
    desk = Desk()
    desk.call(desk.access.put_user, "carol")
    assert desk.login("carol", "")[0] is None
    assert desk.login("carol", "anything")[0] is None
    answers: list[Identity | None] = []
    desk.access.admit("carol", "10.0.0.1", lambda identity, _: answers.append(identity))
    assert answers == [Identity("carol", ())]


@pytest.mark.requirement("B2.2")
def test_an_anonymous_client_comes_in_as_the_configured_user_alone() -> None:
    desk = Desk()
    assert anonymous(desk) == (None, "no user is configured for anonymous clients")
    desk.access = Access(desk.state.access, desk.submit, desk.hashing, LoginRules(("guest",), "looker"))
    assert anonymous(desk) == (None, "user 'looker' - invalid credentials")
    desk.call(desk.access.put_user, "looker", tags=["monitoring"])
    assert anonymous(desk) == (Identity("looker", ("monitoring",)), "")
    desk.access = Access(desk.state.access, desk.submit, desk.hashing, LoginRules(("looker",), "looker"))
    assert anonymous(desk) == (None, "user 'looker' can only connect via localhost")


def anonymous(desk: Desk) -> tuple[Identity | None, str]:
    """The answer to an anonymous client from another machine."""
    answers: list[tuple[Identity | None, str]] = []
    desk.access.admit_anonymous("10.1.2.3", lambda *answer: answers.append(answer))
    [answer] = answers
    return answer


def test_a_changed_password_counts_at_once() -> None:
    desk = Desk()
    assert desk.login("bob", "wonder")[0] is not None
    desk.call(desk.access.set_password, "bob", password="land")
    assert desk.login("bob", "wonder")[0] is None
    assert desk.login("bob", "land")[0] is not None
    desk.call(desk.access.delete_user, "bob")
    assert desk.login("bob", "land")[0] is None


def test_a_user_deleted_while_the_password_is_hashed_does_not_get_in() -> None:
    desk = Desk()
    answers: list[Identity | None] = []
    desk.access.authenticate("bob", "wonder", "127.0.0.1", lambda identity, _: answers.append(identity))
    desk.do("delete_user", user="bob")
    desk.hashing.work()
    assert answers == [None]


def test_guest_logs_in_from_this_machine_only() -> None:
    desk = Desk()
    desk.call(desk.access.put_user, "guest", password="guest")
    assert desk.login("guest", "guest", "127.0.0.1")[0] is not None
    assert desk.login("guest", "guest", "10.1.2.3") == (None, "user 'guest' can only connect via localhost")
    assert desk.login("bob", "wonder", "10.1.2.3")[0] is not None


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("::2", False), ("", False), ("::ffff:10.0.0.1", False), ("1.127.0.1", False),
    ],
)  # fmt: skip
def test_loopback_addresses(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


def test_no_password_is_in_the_log_of_the_catalog() -> None:
    desk = Desk()
    desk.call(desk.access.put_user, "carol", password="correct horse")
    desk.call(desk.access.set_password, "carol", password="battery staple")
    logged = b"".join(desk.commands) + desk.state.snapshot()
    assert b"horse" not in logged
    assert b"staple" not in logged
    assert "scrypt" not in repr(desk.state.access.users["carol"])


# -- decisions --------------------------------------------------------------------------------------


def test_permissions_are_patterns_that_are_searched_for() -> None:
    desk = Desk()
    access = desk.access
    desk.call(access.set_permissions, "bob", "v", "^own-", "log", "")
    assert access.authorise("bob", "v", Right.CONFIGURE, "own-queue")
    assert not access.authorise("bob", "v", Right.CONFIGURE, "an-own-queue")
    assert access.authorise("bob", "v", Right.WRITE, "the-log-exchange")
    assert not access.authorise("bob", "v", Right.READ, "own-queue")
    assert access.authorise("bob", "v", Right.READ, "")
    assert not access.authorise("alice", "v", Right.READ, "own-queue")
    assert not access.authorise("bob", "/", Right.CONFIGURE, "own-queue")


def test_a_changed_permission_counts_from_the_next_decision_on() -> None:
    desk = Desk()
    access = desk.access
    desk.call(access.set_permissions, "bob", "v", ".*", ".*", ".*")
    assert access.authorise("bob", "v", Right.WRITE, "q")
    desk.call(access.set_permissions, "bob", "v", ".*", "", ".*")
    assert not access.authorise("bob", "v", Right.WRITE, "q")
    desk.call(access.clear_permissions, "bob", "v")
    assert not access.authorise("bob", "v", Right.READ, "q")
    assert not access.may_enter(Identity("bob"), "v")


def test_refusals_read_as_rabbitmqs() -> None:
    desk = Desk()
    desk.call(desk.access.set_permissions, "bob", "v", "", "", "")
    with pytest.raises(AccessRefusedError) as refusal:
        desk.access.check_queue(Scope("bob", "v"), Right.READ, "q")
    assert str(refusal.value) == "read access to queue 'q' in vhost 'v' refused for user 'bob'"
    with pytest.raises(AccessRefusedError) as refusal:
        desk.access.check_exchange(Scope("bob", "v"), Right.WRITE, "")
    assert str(refusal.value) == "write access to exchange 'amq.default' in vhost 'v' refused for user 'bob'"


def test_topic_permissions_restrict_keys_only_where_there_are_some() -> None:
    desk = Desk()
    access = desk.access
    assert access.authorise_topic("bob", "v", Right.WRITE, "amq.topic", "any.thing")
    desk.call(access.set_topic_permissions, "bob", "v", "amq.topic", r"^{username}\.{vhost}\.", "")
    assert access.authorise_topic("bob", "v", Right.WRITE, "amq.topic", "bob.v.x")
    assert not access.authorise_topic("bob", "v", Right.WRITE, "amq.topic", "alice.v.x")
    assert not access.authorise_topic("bob", "v", Right.READ, "amq.topic", "bob.v.x")
    assert access.authorise_topic("bob", "v", Right.WRITE, "other", "alice")
    with pytest.raises(AccessRefusedError) as refusal:
        access.check_topic(Scope("bob", "v"), Right.WRITE, "amq.topic", "k")
    assert str(refusal.value) == (
        "write access to topic 'k' in exchange topic 'amq.topic' in vhost 'v' refused for user 'bob'"
    )
    desk.call(access.clear_topic_permissions, "bob", "v", None)
    assert access.authorise_topic("bob", "v", Right.WRITE, "amq.topic", "k")


def test_a_user_name_cannot_widen_a_topic_pattern() -> None:
    desk = Desk()
    desk.call(desk.access.put_user, "a.c|x", password="p")
    desk.call(desk.access.set_topic_permissions, "a.c|x", "v", "amq.topic", "^{username}$", "")
    assert desk.access.authorise_topic("a.c|x", "v", Right.WRITE, "amq.topic", "a.c|x")
    for other in ("abc", "x", "a.c"):
        assert not desk.access.authorise_topic("a.c|x", "v", Right.WRITE, "amq.topic", other)


@pytest.mark.parametrize("pattern", ["(", "[a", "x" * 2000])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    desk = Desk()
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.set_permissions, "bob", "v", pattern, "", "")
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.set_topic_permissions, "bob", "v", "e", pattern, "")
    # An invalid pattern from another release, or from definitions, permits nothing.
    desk.do("set_permissions", user="bob", vhost="v", configure=pattern[:2], write="", read="")
    assert not desk.access.authorise("bob", "v", Right.CONFIGURE, "q")


def test_a_pattern_that_would_take_for_ever_permits_nothing() -> None:
    desk = Desk()
    desk.call(desk.access.set_permissions, "bob", "v", "^(a|a)*$", "", "")
    assert not desk.access.authorise("bob", "v", Right.CONFIGURE, "a" * 200 + "b")


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_names_have_a_length(name: str) -> None:
    desk = Desk()
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.put_user, name)
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.put_vhost, name)


def test_permissions_need_a_user_and_a_virtual_host() -> None:
    desk = Desk()
    for user, vhost in (("nobody", "v"), ("bob", "nowhere")):
        with pytest.raises(NotFoundError):
            desk.call(desk.access.set_permissions, user, vhost, "", "", "")
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.set_password, "bob", password="")
    with pytest.raises(PreconditionFailedError):
        desk.call(desk.access.set_password, "bob", password_hash="md5$nonsense")
