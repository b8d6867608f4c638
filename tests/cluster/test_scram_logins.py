"""SCRAM verifiers in the catalog: who gets one, when nodes write them, and what strangers learn of users."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.access.control import Access
from cluster.catalog.access.records import LoginRules
from cluster.catalog.state import CatalogState
from cluster.config.passwords import PasswordHash, imported_hash, verifier_in, without_verifier
from cluster.peers.packing import unpack
from node.refusal import Refusal
from node.session.ports import Identity
from node.wire.scram import ScramError, ScramExchange, ScramStage, Verifier
from tests.cluster.test_access import HASH, Desk, Hashing, Recorder
from tests.wire.scram_client import ScramClient

SCRAM = LoginRules(scram=True)
ELSEWHERE = "10.1.2.3"


class Cluster(Desk):
    """The desk of `test_access`, in a cluster that keeps verifiers. `readable`: every member reads them."""

    def __init__(self, rules: LoginRules = SCRAM) -> None:
        super().__init__()
        self.readable = True
        self.access = self.node(rules)

    def node(self, rules: LoginRules = SCRAM, key: bytes = b"key") -> Access:
        """A node of the cluster, whose process has this key."""
        hashing = Hashing() if key != b"key" else self.hashing
        hashing.key = key
        return Access(self.state.access, self.submit, hashing, rules, lambda: self.readable)

    def stored(self, user: str) -> str:
        return self.state.access.users[user].password_hash

    def verifier(self, user: str) -> Verifier | None:
        return verifier_in(self.stored(user))


class Attempt:
    """A client's log-in by SCRAM at a node."""

    def __init__(self, access: Access, user: str, password: str) -> None:
        self.access = access
        self.exchange: ScramExchange = access.begin_scram()
        self.client = ScramClient(user, password)
        self.challenge = self.exchange.receive(self.client.first)
        self.salt = self.challenge.decode().split(",")[1]

    def end(self, remote: str = ELSEWHERE) -> tuple[Identity | None, str]:
        answers: list[tuple[Identity | None, str]] = []
        try:
            final = self.exchange.receive(self.client.final(self.challenge))
        except ScramError as error:
            return None, error.value
        exchange = self.exchange
        assert (
            self.client.believes(final)
            and exchange.stage is ScramStage.DONE
            and exchange.verifier is not None
        )
        self.access.admit_verified(
            exchange.user, exchange.verifier, remote, lambda *answer: answers.append(answer)
        )
        [answer] = answers
        return answer


# -- who has a verifier -----------------------------------------------------------------------------


@pytest.mark.requirement("B2.4")
def test_a_password_that_is_set_is_kept_with_a_verifier() -> None:
    desk = Cluster()
    assert not desk.access.offers_scram
    desk.call(desk.access.put_user, "carol", password="wonder", tags=["monitoring"])
    assert desk.access.offers_scram
    assert Attempt(desk.access, "carol", "wonder").end() == (Identity("carol", ("monitoring",)), "")
    assert Attempt(desk.access, "carol", "wander").end() == (None, "invalid-proof")
    assert desk.login("carol", "wonder")[0] is not None, "PLAIN"
    desk.call(desk.access.set_password, "carol", password="land")
    assert Attempt(desk.access, "carol", "wonder").end() == (None, "invalid-proof")
    assert Attempt(desk.access, "carol", "land").end()[0] is not None
    desk.call(desk.access.set_password, "carol", password_hash=HASH)
    assert Attempt(desk.access, "carol", "wonder").end() == (None, "invalid-proof")


def test_without_the_setting_no_verifier_is_kept() -> None:
    desk = Cluster(LoginRules())
    desk.call(desk.access.put_user, "carol", password="wonder")
    desk.call(desk.access.put_user, "dave", password_hash=str(PasswordHash.of("wonder", True)))
    desk.login("carol", "wonder")
    assert desk.verifier("carol") is desk.verifier("dave") is None and not desk.access.offers_scram
    assert b"decoy" not in b"".join(desk.commands) + desk.state.snapshot()


def test_users_of_a_time_with_verifiers_do_not_log_in_by_them_without_the_setting() -> None:
    desk = Cluster()
    desk.call(desk.access.put_user, "carol", password="wonder")
    assert not desk.node(LoginRules()).offers_scram


@pytest.mark.requirement("B2.4")
def test_a_user_from_before_gets_a_verifier_with_the_next_right_password() -> None:
    desk = Cluster()
    assert Attempt(desk.access, "bob", "wonder").end() == (None, "invalid-proof")
    desk.login("bob", "wrong")
    assert desk.verifier("bob") is None
    assert desk.login("bob", "wonder")[0] is not None
    assert Attempt(desk.access, "bob", "wonder").end() == (Identity("bob"), "")
    written = len(desk.commands)
    assert desk.login("bob", "wonder")[0] is not None and len(desk.commands) == written


def test_a_verifier_that_could_not_be_made_or_kept_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Cluster()
    with monkeypatch.context() as short:
        short.setattr(desk.hashing, "hash", lambda _, scram, answer: answer(None))
        assert desk.login("bob", "wonder")[0] is not None
    with monkeypatch.context() as alone:
        alone.setattr(
            desk.access, "_submit", lambda _, arguments, answer: answer(None, Refusal("no majority"))
        )
        assert desk.login("bob", "wonder")[0] is not None
    assert desk.verifier("bob") is None
    desk.login("bob", "wonder")
    assert desk.verifier("bob") is not None


def test_a_verifier_that_comes_meanwhile_makes_no_password_wrong() -> None:
    desk = Cluster()
    node = desk.node(key=b"another process")
    answers: list[Identity | None] = []
    for access in (desk.access, node):
        access.authenticate("bob", "wonder", ELSEWHERE, lambda identity, _: answers.append(identity))
    desk.hashing.work()
    made = desk.stored("bob")
    assert desk.verifier("bob") is not None and made.startswith(HASH)
    assert isinstance(node._hasher, Hashing)
    node._hasher.work()
    assert answers == [Identity("bob")] * 2 and desk.stored("bob") == made
    assert desk.access.recognises("bob", "wonder") and node.recognises("bob", "wonder")


def test_a_password_that_changes_meanwhile_stays_changed() -> None:
    desk = Cluster()
    desk.access.authenticate("bob", "wonder", ELSEWHERE, lambda *_: None)
    desk.hashing.waiting.pop(0)()
    desk.do("set_password", user="bob", password_hash=(changed := str(PasswordHash.of("land"))))
    desk.hashing.work()
    assert desk.stored("bob") == changed and not desk.state.access.decoy_key


def test_some_users_keep_the_hash_that_they_have() -> None:
    """Hashes of RabbitMQ stay, and so does the hash of a password that SASLprep prohibits."""
    desk = Cluster()
    bell = "a\x07b"
    desk.call(desk.access.put_user, "bell", password=bell)
    imported = imported_hash("", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    desk.call(desk.access.put_user, "rabbit", password_hash=imported)
    before = desk.stored("bell"), desk.stored("rabbit"), len(desk.commands)
    for _ in range(2):
        assert desk.login("bell", bell)[0] is not None
        assert desk.login("rabbit", "test12")[0] is not None
    assert (desk.stored("bell"), desk.stored("rabbit"), len(desk.commands)) == before


def test_a_hash_with_a_verifier_moves_between_clusters() -> None:
    desk, other = Cluster(), Cluster()
    desk.call(desk.access.put_user, "carol", password="wonder")
    other.call(other.access.put_user, "carol", password_hash=desk.stored("carol"))
    assert Attempt(other.access, "carol", "wonder").end()[0] is not None


# -- other releases ---------------------------------------------------------------------------------


def test_no_verifier_is_written_before_every_member_reads_it() -> None:
    desk = Cluster()
    desk.readable = False
    desk.call(desk.access.put_user, "carol", password="wonder")
    desk.call(desk.access.put_user, "dave", password_hash=str(PasswordHash.of("wonder", True)))
    desk.login("bob", "wonder")
    assert not any(word in b"".join(desk.commands) for word in (b"SCRAM", b"decoy", b"replaces"))
    assert desk.login("dave", "wonder")[0] is not None
    desk.readable = True
    assert desk.login("bob", "wonder")[0] is not None
    assert Attempt(desk.access, "bob", "wonder").end()[0] is not None


def test_a_member_that_goes_back_while_a_password_is_hashed_gets_no_verifier() -> None:
    desk = Cluster()
    answers: list[Refusal | None] = []
    desk.access.put_user("carol", lambda _, refusal: answers.append(refusal), password="wonder")
    desk.access.authenticate("bob", "wonder", ELSEWHERE, lambda *_: None)
    desk.hashing.waiting.pop(1)()
    desk.readable = False
    desk.hashing.work()
    assert answers == [None] and desk.login("carol", "wonder")[0] is not None
    assert b"SCRAM" not in b"".join(desk.commands)


def test_a_snapshot_has_the_key_of_decoys_once_there_is_one() -> None:
    desk = Cluster()
    assert "decoy_key" not in unpack(desk.state.snapshot())["access"]
    desk.call(desk.access.put_user, "carol", password="wonder")
    restored = CatalogState(Recorder())
    restored.restore(desk.state.snapshot())
    assert restored.access.decoy_key == desk.state.access.decoy_key != ""
    assert restored.access.users == desk.state.access.users
    old = Desk().state.snapshot()
    restored.restore(old)
    assert restored.access.decoy_key == ""


def test_the_founders_of_a_cluster_may_have_verifiers() -> None:
    desk, state = Cluster(), CatalogState(Recorder())
    founders: dict[str, dict[str, Any]] = {
        name: {**desk.access.kept(str(PasswordHash.of("wonder", True))), "tags": []} for name in ("x", "y")
    }
    state.access.put_vhost("/", {})
    assert state.access.found(founders, "/")
    access = Access(state.access, desk.submit, desk.hashing, SCRAM)
    assert access.offers_scram and Attempt(access, "x", "wonder").end()[0] is not None


# -- what strangers learn ---------------------------------------------------------------------------


def test_nodes_give_an_unknown_user_the_same_salt_and_a_wrong_password_the_same_answer() -> None:
    desk = Cluster()
    desk.call(desk.access.put_user, "carol", password="wonder")
    desk.call(desk.access.put_user, "nobody-now", password_hash="")
    nodes = desk.access, desk.node(key=b"another process")
    desk.call(desk.access.put_user, "dave", password="wonder")
    salts: set[str] = set()
    for user in ("carol", "bob", "nobody", "nobody-now", "x" * 300):
        here, there, again = (Attempt(node, user, "wrong") for node in (*nodes, nodes[0]))
        assert here.salt == there.salt == again.salt
        assert len(here.challenge) == len(Attempt(nodes[0], "carol", "").challenge)
        assert here.end() == there.end() == (None, "invalid-proof")
        salts.add(here.salt)
    assert len(salts) == 5


def test_no_two_exchanges_have_one_nonce() -> None:
    desk = Cluster()
    nodes = desk.access, desk.node(key=b"another process")
    challenges = {Attempt(node, "carol", "").challenge for node in nodes for _ in range(50)}
    nonces = {challenge.split(b",")[0] for challenge in challenges}
    assert len(nonces) == 100


def test_a_proof_counts_while_the_verifier_is_the_users() -> None:
    desk = Cluster()
    desk.call(desk.access.put_user, "carol", password="wonder")
    late = Attempt(desk.access, "carol", "wonder")
    desk.call(desk.access.set_password, "carol", password="wonder")
    assert late.end() == (None, "user 'carol' - invalid credentials")
    late = Attempt(desk.access, "carol", "wonder")
    desk.call(desk.access.delete_user, "carol")
    assert late.end() == (None, "user 'carol' - invalid credentials")


def test_guest_comes_from_this_machine_by_scram_too() -> None:
    desk = Cluster()
    desk.call(desk.access.put_user, "guest", password="guest")
    assert Attempt(desk.access, "guest", "guest").end() == (
        None,
        "user 'guest' can only connect via localhost",
    )
    assert Attempt(desk.access, "guest", "guest").end("127.0.0.1")[0] is not None


# -- the text of a hash -----------------------------------------------------------------------------


def test_the_text_of_a_hash_has_its_verifier() -> None:
    made = PasswordHash.of("wonder", scram=True)
    assert made.verifier is not None and PasswordHash.parse(str(made)) == made
    assert verifier_in(str(made)) == made.verifier
    plain = PasswordHash.parse(without_verifier(str(made)))
    assert plain.verifier is None and plain.matches("wonder") and verifier_in(str(plain)) is None
    assert without_verifier(str(plain)) == str(plain)
    assert repr(made) == "PasswordHash(...)"


@pytest.mark.parametrize("rest", ["", "4096", "4096$00$00$00", "x$y"])
def test_a_hash_with_a_wrong_verifier_is_refused(rest: str) -> None:
    with pytest.raises(ValueError) as refused:
        PasswordHash.parse(f"{HASH}$SCRAM-SHA-256${rest}")
    assert HASH not in str(refused.value)
