"""Password hashes, ours and RabbitMQ's."""

import base64
import hashlib

import pytest

from cluster.config.passwords import (
    SCRYPT,
    PasswordHash,
    exported_hash,
    imported_hash,
    parse_hash,
)

HASH = PasswordHash.of("wonder")

LONGEST = 1 << 22
"""The largest product of n, r and p."""


def test_a_hash_reads_as_it_is_written_and_matches_its_password_only() -> None:
    again = PasswordHash.parse(str(HASH))
    assert again == HASH
    assert again.matches("wonder")
    assert not again.matches("Wonder")
    assert str(HASH) not in repr(HASH)


def test_two_hashes_of_one_password_differ() -> None:
    assert PasswordHash.of("wonder") != HASH


def test_a_decoy_is_no_passwords_and_costs_as_much_to_check() -> None:
    decoy = PasswordHash.decoy()
    assert (decoy.n, decoy.r, decoy.p) == (HASH.n, HASH.r, HASH.p)
    assert (len(decoy.salt), len(decoy.digest)) == (len(HASH.salt), len(HASH.digest))
    assert not any(decoy.matches(password) for password in ("", "wonder"))


def test_the_hash_of_rfc_7914_matches() -> None:
    """RFC 7914 section 12, third vector."""
    digest = (
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )
    vector = PasswordHash.parse(f"scrypt$16384$8$1${b'SodiumChloride'.hex()}${digest}")
    assert vector.matches("pleaseletmein")


@pytest.mark.parametrize("n", [2, 4, 16, 1 << 15])
@pytest.mark.parametrize("r", [1, 2, 32])
@pytest.mark.parametrize("p", [1, 16])
def test_a_hash_with_any_parameters_that_are_read_can_be_checked(n: int, r: int, p: int) -> None:
    p = min(p, LONGEST // (n * r))
    read = PasswordHash.parse(f"scrypt${n}${r}${p}$00$00112233")
    assert not read.matches("wonder")


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
        "scrypt$1048576$8$1$00$00",
        "scrypt$65536$1$1$00$00",
        "scrypt$32768$32$5$00$00",
        "scrypt$16384$8$1$$00",
    ],
)
def test_what_is_no_hash_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        PasswordHash.parse(text)
    assert not text or text not in str(refusal.value)


@pytest.mark.parametrize(
    ("algorithm", "encoded"),
    [
        # RabbitMQ's documentation, "Password Hashing": user with password `test12`, salt 908D C60A.
        ("rabbit_password_hashing_sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
        ("", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
    ],
)
def test_the_hash_of_rabbitmqs_documentation_matches(algorithm: str, encoded: str) -> None:
    text = imported_hash(algorithm, encoded)
    assert parse_hash(text).matches("test12")
    assert not parse_hash(text).matches("test13")
    assert exported_hash(text) == ("rabbit_password_hashing_sha256", encoded)
    assert encoded not in repr(parse_hash(text))


@pytest.mark.parametrize("digest", ["sha256", "sha512", "md5"])
def test_rabbitmqs_other_digests(digest: str) -> None:
    octets = b"salt" + hashlib.new(digest, b"saltsecret").digest()
    text = imported_hash(f"rabbit_password_hashing_{digest}", base64.b64encode(octets).decode())
    assert parse_hash(text).matches("secret")
    assert not parse_hash(text).matches("Secret")


def test_our_own_hash_survives_export_and_import() -> None:
    assert imported_hash(*exported_hash(str(HASH))) == str(HASH)
    assert imported_hash(*exported_hash("")) == ""


@pytest.mark.parametrize(
    ("algorithm", "encoded"),
    [("rabbit_password_hashing_sha256", "c2hvcnQ="), ("rot13", "c2hvcnQ="), ("", "~~"), (SCRYPT, "c2hvcnQ=")],
)
def test_what_is_no_hash_of_another_broker_is_refused_without_showing_it(
    algorithm: str, encoded: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        imported_hash(algorithm, encoded)
    assert encoded not in str(refusal.value)
