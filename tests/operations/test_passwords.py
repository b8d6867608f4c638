"""Password hashes and logins."""

import pytest

from cluster.passwords import Logins, PasswordHash

HASH = PasswordHash.of("wonder")


def test_a_hash_reads_as_it_is_written_and_matches_its_password_only() -> None:
    again = PasswordHash.parse(str(HASH))
    assert again == HASH
    assert again.matches("wonder")
    assert not again.matches("Wonder")
    assert str(HASH) not in repr(HASH)


def test_two_hashes_of_one_password_differ() -> None:
    assert PasswordHash.of("wonder") != HASH


def test_the_hash_of_rfc_7914_matches() -> None:
    """RFC 7914 section 12, third vector."""
    digest = (
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )
    vector = PasswordHash.parse(f"scrypt$16384$8$1${b'SodiumChloride'.hex()}${digest}")
    assert vector.matches("pleaseletmein")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "scrypt$1$2$3",
        "md5$16384$8$1$00$00",
        "scrypt$x$8$1$00$00",
        "scrypt$16384$8$1$zz$00",
        "scrypt$16385$8$1$00$00",
        "scrypt$1073741824$8$1$00$00",
        "scrypt$16384$8$1$$00",
    ],
)
def test_what_is_no_hash_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        PasswordHash.parse(text)
    assert not text or text not in str(refusal.value)


def test_a_login_is_remembered_once_it_was_right() -> None:
    logins = Logins({"alice": HASH})
    assert not logins.remembered("alice", "wonder")
    assert not logins.check("alice", "wrong")
    assert not logins.check("bob", "wonder")
    assert logins.check("alice", "wonder")
    assert logins.remembered("alice", "wonder")
    assert logins.check("alice", "wonder")
    assert not logins.remembered("alice", "wrong")
    assert not logins.check("alice", "wrong")
    assert logins.remembered("alice", "wonder")
