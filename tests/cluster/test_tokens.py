"""Access tokens: which of them count, whom they let in, and that no other does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from cluster.catalog.access.control import Access
from cluster.catalog.access.records import LoginRules
from cluster.catalog.access.token_rights import grant_in
from cluster.catalog.access.tokens import LARGEST_TOKEN, TokenChecks, TokenError
from cluster.config.tables import ConfigError
from cluster.config.token_keys import TokenKey, TokenKeys
from cluster.config.token_settings import TokenKeyFiles, TokenSettings
from node.refusal import AccessRefusedError
from node.session.logins import PasswordLogin, TokenLogin
from node.session.permissions import Right, Scope
from node.session.ports import Identity
from tests.cluster.test_access import Desk
from tests.cluster.token_issuer import (
    AUDIENCE,
    EVERYTHING,
    ISSUER,
    SECRET,
    claims,
    jwk,
    pem,
    private_key,
    token,
    write_keys,
)
from tests.structure.tree import ROOT

NOW_S = 1_900_000_000
ALGORITHMS = ("RS256", "PS384", "ES256", "ES384", "ES512", "EdDSA")


def settings(**changes: Any) -> TokenSettings:
    return TokenSettings(**{"issuer": ISSUER, "audience": AUDIENCE, **changes})


def checks(directory: Path, *algorithms: str, now_s: float | None = NOW_S, **changes: Any) -> TokenChecks:
    """Checks by the keys for these algorithms, which count as well."""
    algorithms = algorithms or ("ES256",)
    published = [one for one in algorithms if one[:2] in ("RS", "ES", "Ed")]
    keys = TokenKeys(TokenKeyFiles(jwks=write_keys(directory, *published)))
    return TokenChecks(
        settings(**{"algorithms": algorithms, **changes}), keys, lambda: int((now_s or 0) * 1000)
    )


def dated(**changes: Any) -> dict[str, Any]:
    return {"exp": NOW_S + 60} | changes


def refusal(checked: TokenChecks, text: str) -> str:
    with pytest.raises(TokenError) as error:
        checked.identity(text)
    assert text not in str(error.value) or not text
    return str(error.value)


def raw(header: Any, payload: Any, signature: bytes = b"") -> str:
    """A token of any parts."""
    parts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in (header, payload)]
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in (*parts, signature))


@pytest.mark.requirement("F5.7")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "ES384", "ES512", "EdDSA"])
def test_a_token_of_the_issuer_names_its_user(tmp_path: Path, algorithm: str) -> None:
    checked = checks(tmp_path, *ALGORITHMS[:1], *ALGORITHMS[2:])
    identity = checked.identity(token(algorithm, **dated(scope=f"{EVERYTHING} quorate.tag:management")))
    assert (identity.user, identity.tags, identity.lasts) == ("alice", ("management",), 70)
    assert identity.rights is not None and identity.rights.allows("v", Right.READ, "q")


@pytest.mark.requirement("F5.7")
def test_the_scope_may_be_a_list_and_the_audience_one_of_several(tmp_path: Path) -> None:
    identity = checks(tmp_path).identity(
        token(
            **dated(aud=["shop", AUDIENCE], scope=["quorate.read:v/*", "openid"], sub=None, client_id="app")
        )
    )
    assert identity.user == "app"
    assert identity.rights is not None
    assert identity.rights.enters("v") and not identity.rights.enters("/")


@pytest.mark.requirement("F5.7")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://else.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": [ISSUER]}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": {AUDIENCE: 1}}, "another audience"),
        ({"aud": ["other", "quorate2"]}, "another audience"),
        ({"exp": NOW_S - 10}, "user 'alice' - the token has expired"),
        ({"exp": None}, "no time in its claim exp"),
        ({"exp": "tomorrow"}, "no time in its claim exp"),
        ({"exp": True}, "no time in its claim exp"),
        ({"exp": float("nan")}, "no time in its claim exp"),
        ({"exp": float("inf")}, "no time in its claim exp"),
        ({"exp": 10**300}, "no time in its claim exp"),
        ({"nbf": NOW_S + 11}, "does not count yet"),
        ({"nbf": "now"}, "no time in its claim nbf"),
        ({"sub": None}, "no name"),
        ({"sub": ""}, "no name"),
        ({"sub": ["alice"]}, "no name"),
        ({"sub": "a\nb"}, "no name"),
        ({"sub": "a" * 256}, "too long a name"),
        ({"scope": 5}, "neither a text nor a list"),
        ({"scope": [["quorate.read:*/*"]]}, "neither a text nor a list"),
        ({"scope": " ".join(f"quorate.read:v/{n}" for n in range(1001))}, "too long"),
        ({"scope": " ".join(f"quorate.tag:{n}" for n in range(1001))}, "too long"),
        ({"scope": " ".join(f"quorate.{n}" for n in range(1001))}, "more than 1000 scopes"),
    ],
)
def test_tokens_that_do_not_count(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(checks(tmp_path), token(**dated(**changes)))


@pytest.mark.requirement("F5.7")
def test_clocks_may_differ_by_the_skew(tmp_path: Path) -> None:
    checked = checks(tmp_path, clock_skew_s=30)
    assert checked.identity(token(exp=NOW_S - 29)).lasts == 1
    assert checked.identity(token(**dated(nbf=NOW_S + 30))).user == "alice"
    assert "expired" in refusal(checked, token(exp=NOW_S - 30))


@pytest.mark.requirement("F5.7")
def test_no_token_goes_without_a_signature(tmp_path: Path) -> None:
    checked = checks(tmp_path)
    for algorithm in ("none", "None", "NONE", ""):
        for key in ("ES256", None):
            header = {"alg": algorithm, "typ": "JWT"} | ({"kid": key} if key else {})
            assert "algorithm" in refusal(checked, raw(header, dated(**claims())))
    right = token(**dated())
    head, body, signature = right.split(".")
    assert "signature is wrong" in refusal(checked, f"{head}.{body}.")
    other = token(**dated(sub="root")).split(".")[1]
    assert "signature is wrong" in refusal(checked, f"{head}.{other}.{signature}")
    assert "signature is wrong" in refusal(checked, f"{head}.{body}.{signature[:-4]}AAAA")


@pytest.mark.requirement("F5.7")
def test_a_public_key_is_no_secret_of_an_hmac(tmp_path: Path) -> None:
    """The configuration takes HS256 by a secret: a token with it is refused by the other key all the same."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    keys = TokenKeys(TokenKeyFiles(jwks=write_keys(tmp_path, "RS256"), secrets={"HS256": secret}))
    taken = settings(algorithms=("RS256", "HS256"))
    checked = TokenChecks(taken, keys, lambda: NOW_S * 1000)
    assert checked.identity(token("HS256", **dated())).user == "alice"
    for public in (pem("RS256"), json.dumps(jwk("RS256")).encode(), pem("RS256").strip()):
        head = raw({"alg": "HS256", "kid": "RS256"}, claims(**dated())).rpartition(".")[0]
        made = hmac.digest(public, head.encode(), hashlib.sha256)
        forged = f"{head}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"
        assert "none that its key is for" in refusal(checked, forged)
    assert "none that its key is for" in refusal(checked, token("RS256", headers={"kid": "HS256"}, **dated()))


@pytest.mark.requirement("F5.7")
def test_algorithms_and_keys_that_are_not_configured(tmp_path: Path) -> None:
    checked = checks(tmp_path, "ES256", "RS256", algorithms=("ES256",))
    assert "none that the configuration takes" in refusal(checked, token("RS256", **dated()))
    assert "names no key" in refusal(checked, token(headers={"kid": "gone"}, **dated()))
    assert "names no key" in refusal(checked, jwt.encode(claims(**dated()), private_key("ES256"), "ES256"))
    assert "names no key" in refusal(checked, token("ES256", headers={"kid": "../../etc/passwd"}, **dated()))
    stranger = ec.generate_private_key(ec.SECP256R1())
    signed = jwt.encode(claims(**dated()), stranger, "ES256", headers={"kid": "ES256", "jwk": jwk("ES256")})
    assert "signature is wrong" in refusal(checked, signed)


def test_a_token_without_a_key_id_goes_by_the_only_key(tmp_path: Path) -> None:
    signed = jwt.encode(claims(**dated()), private_key("ES256"), "ES256")
    assert checks(tmp_path).identity(signed).user == "alice"


@pytest.mark.requirement("F5.7")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "eyJ..",
        "eyJ.eyJ.x",
        "a.b.c",
        raw({"alg": "ES256", "kid": 7}, {}),
        raw({"alg": ["ES256"], "kid": "ES256"}, {}),
        raw({"alg": {"a": 1}, "kid": ["ES256"]}, {}),
        raw(["ES256"], {}),
        raw(b"[" * 5000, {}),
        raw(b'{"alg":' + b"[" * 5000, {}),
        raw({"alg": "ES256", "kid": "ES256", "crit": ["exp"]}, claims()),
        raw({"alg": "ES256", "kid": "ES256", "b64": False}, claims()),
        raw({"alg": "ES256", "kid": "ES256"}, b"\xff\xfe", b"\0" * 64),
        "eyJ\udcff.eyJ.x",
        "eyJ" + "x" * LARGEST_TOKEN + "..",
        "eyJ" + "." * 5000,
    ],
)
def test_garbage_is_refused(tmp_path: Path, text: str) -> None:
    refusal(checks(tmp_path), text)


def signed(payload: bytes) -> str:
    return jwt.PyJWS().encode(payload, private_key("ES256"), "ES256", {"kid": "ES256"})


@pytest.mark.requirement("F5.7")
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[" * 9000,
        b'{"a":' * 2000,
        b"[]",
        b"null",
        b'"eyJ"',
        b"1" * 9000,
        b"\xff",
        b'{"iss":' + b"9" * 9000 + b"}",
    ],
)
def test_signed_garbage_is_refused(tmp_path: Path, payload: bytes) -> None:
    refusal(checks(tmp_path), signed(payload))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(ANY_JSON, st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "scope", "client_id"]))
def test_any_claim_is_taken_or_refused(value: Any, claim: str) -> None:
    checked = fuzzed()
    text = signed(json.dumps(claims(**dated()) | {claim: value}).encode())
    try:
        identity = checked.identity(text)
    except TokenError as error:
        assert text not in str(error)
    else:
        assert identity.user and identity.lasts > 0


class OneKey:
    """The public key for ES256, and no file."""

    def find(self, key_id: str | None) -> TokenKey:
        return TokenKey(private_key("ES256").public_key(), frozenset({"ES256"}))


def fuzzed() -> TokenChecks:
    keys: Any = OneKey()
    return TokenChecks(settings(), keys, lambda: NOW_S * 1000)


# -- the files of keys ----------------------------------------------------------------------------


def mistake(**files: Any) -> str:
    with pytest.raises(ConfigError) as error:
        TokenKeys(TokenKeyFiles(**files))
    return str(error.value)


def test_keys_are_read_from_pem_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(pem("RS256"))
    keys = TokenKeys(TokenKeyFiles(public_keys={"one": path}))
    found = keys.find("one")
    assert (
        found is not None
        and found.algorithms >= {"RS256", "PS512"}
        and not found.algorithms & {"HS256", "ES256"}
    )
    assert not keys.files.changed
    path.write_bytes(pem("EdDSA"))
    os.utime(path, ns=(1, 1))
    assert keys.files.changed
    keys.reload()
    found = keys.find("one")
    assert found is not None and found.algorithms == {"EdDSA"} and not keys.files.changed
    path.write_bytes(b"torn")
    with pytest.raises(ConfigError):
        keys.reload()
    assert keys.find("one") == found
    path.unlink()
    assert not keys.files.changed


def test_a_set_of_keys_has_keys_for_signatures_and_others(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    rows = [
        jwk("ES256", use="sig", alg="ES256"),
        jwk("RS256", alg="RS256"),
        jwk("ES384", use="enc"),
        jwk("ES512", alg="ES256"),
        {"kty": "new", "kid": "x"},
    ]
    path.write_text(json.dumps({"keys": rows}))
    keys = TokenKeys(TokenKeyFiles(jwks=path))
    one, two = keys.find("ES256"), keys.find("RS256")
    assert one is not None and one.algorithms == {"ES256"}
    assert two is not None and two.algorithms == {"RS256"}
    assert keys.find("ES384") is keys.find("ES512") is keys.find("x") is keys.find(None) is None


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert "No such file" in mistake(jwks=path)
    for text in ("", "[]", "{}", '{"keys": 5}', '{"keys": [5]}', "[" * 100_000):
        path.write_text(text)
        assert "no JSON Web Key Set" in mistake(jwks=path)
    path.write_text('{"keys": []}')
    assert "no key that signs" in mistake(jwks=path)
    path.write_text(json.dumps({"keys": [{"kty": "oct", "k": "AAAA", "kid": "a"}]}))
    assert "a secret stands among public keys" in mistake(jwks=path)
    path.write_text(json.dumps({"keys": [jwk("ES256"), jwk("ES256")]}))
    assert 'two keys have the id "ES256"' in mistake(jwks=path)
    path.write_text(json.dumps({"keys": [jwk("ES256") | {"x": "AAAA"}]}))
    assert "cannot be used" in mistake(jwks=path)
    path.write_text(json.dumps({"keys": [jwk("ES256") | {"kid": 7}]}))
    assert "an id that is no text" in mistake(jwks=path)
    path.write_text("x" * (1024 * 1024 + 1))
    assert "octets at most" in mistake(jwks=path)
    small = rsa.generate_private_key(65537, 1024).public_key()
    path.write_bytes(small.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert "neither RSA of 2048 bits" in mistake(public_keys={"a": path})
    path.write_text("a secret of too few octets")
    path.chmod(0o600)
    assert "less than 32 octets" in mistake(secrets={"a": path})
    path.chmod(0o644)
    assert "chmod 600" in mistake(secrets={"a": path})


def test_tables_without_keys_or_with_one_twice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set jwks, public_keys or secrets"):
        TokenKeyFiles()
    with pytest.raises(ValueError, match="stands in public_keys and in secrets"):
        TokenKeyFiles(public_keys={"a": tmp_path}, secrets={"a": tmp_path})
    with pytest.raises(ValueError):
        settings(algorithms=("none",))


# -- log-ins --------------------------------------------------------------------------------------


class TokenDesk(Desk):
    """The desk of `test_access`, at a node that takes tokens."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.access = Access(
            self.state.access, self.submit, self.hashing, LoginRules(), tokens=checks(directory)
        )

    def enters(self, login: Any, remote: str = "10.1.2.3") -> tuple[Identity | None, str]:
        """The answer to a log-in, which comes at once."""
        answers: list[tuple[Identity | None, str]] = []
        self.access.log_in(login, remote, lambda *answer: answers.append(answer))
        [answer] = answers
        return answer


@pytest.mark.requirement("F5.7")
def test_a_token_stands_for_the_password_of_any_user(tmp_path: Path) -> None:
    desk = TokenDesk(tmp_path)
    text = token(**dated(sub="carol", scope="quorate.read:v/q*"))
    for login in (TokenLogin(text), PasswordLogin("", text), PasswordLogin("bob", text)):
        identity, reason = desk.enters(login)
        assert identity is not None and (identity.user, reason) == ("carol", "")
        assert text not in repr(login)
    assert desk.access.recognises("bob", text) and not desk.hashing.waiting
    assert identity is not None
    assert desk.access.may_enter(identity, "v")
    assert not desk.access.may_enter(identity, "/") and not desk.access.may_enter(identity, "gone")


@pytest.mark.requirement("F5.7")
def test_the_rights_of_a_token_take_the_place_of_the_users(tmp_path: Path) -> None:
    desk = TokenDesk(tmp_path)
    desk.do("set_permissions", user="bob", vhost="v", configure=".*", write=".*", read=".*")
    scope = "quorate.read:v/q quorate.write:v/amq.default quorate.write:v/t/k.*"
    identity, _ = desk.enters(TokenLogin(token(**dated(sub="bob", scope=scope))))
    assert identity is not None
    by_token, by_password = Scope("bob", "v", identity.rights), Scope("bob", "v")
    access = desk.access
    access.check_queue(by_token, Right.READ, "q")
    access.check_exchange(by_token, Right.WRITE, "")
    access.check_topic(by_token, Right.WRITE, "t", "k.x")
    access.check_queue(by_password, Right.CONFIGURE, "q")
    with pytest.raises(
        AccessRefusedError, match=r"^configure access to queue 'q' in vhost 'v' refused for user 'bob'$"
    ):
        access.check_queue(by_token, Right.CONFIGURE, "q")
    with pytest.raises(AccessRefusedError, match="write access to topic 'x' in exchange topic 't'"):
        access.check_topic(by_token, Right.WRITE, "t", "x")


@pytest.mark.requirement("F5.7")
def test_wrong_tokens_let_no_one_in_and_are_no_passwords(tmp_path: Path) -> None:
    desk = TokenDesk(tmp_path)
    stale = token(exp=NOW_S - 60)
    for login in (TokenLogin(stale), PasswordLogin("alice", stale)):
        assert desk.enters(login) == (None, "user 'alice' - the token has expired")
    identity, reason = desk.enters(TokenLogin("wonder"))
    assert identity is None and "malformed" in reason
    assert not desk.hashing.waiting


def test_loopback_users_come_from_this_machine_with_tokens_too(tmp_path: Path) -> None:
    desk = TokenDesk(tmp_path)
    login = TokenLogin(token(**dated(sub="guest")))
    assert desk.enters(login) == (None, "user 'guest' can only connect via localhost")
    identity, _ = desk.enters(login, "127.0.0.1")
    assert identity is not None


def test_a_node_without_the_table_takes_no_tokens() -> None:
    desk = Desk()
    answers: list[Any] = []
    desk.access.log_in(TokenLogin(token()), "127.0.0.1", lambda *answer: answers.append(answer))
    assert answers == [(None, "the configuration takes no tokens")]
    assert not desk.access.recognises("alice", token())
    assert desk.login("alice", token())[0] is None


# -- the document ---------------------------------------------------------------------------------


def test_the_document_configures_tokens_and_its_scopes_grant_rights() -> None:
    text = (ROOT / "docs/access.md").read_text(encoding="utf-8")
    section = text.split("## Access tokens\n")[1].split("\n## ")[0]
    tables = tomllib.loads(section.split("```toml\n")[1].split("```")[0])
    assert TokenSettings(**tables["cluster"]["tokens"]).audience == "quorate"
    assert TokenKeyFiles(**tables["node"]["tokens"]).public_keys.keys() == {"key-2026"}
    scopes = re.findall(r"^\| `quorate\.([^`]*)` \|", section, re.MULTILINE)
    assert [scope for scope in scopes if grant_in(scope) is None] == ["tag:management"]
