"""The server's side of SCRAM-SHA-256: the RFC's example, refused messages, and verifiers."""

from __future__ import annotations

import hashlib
from base64 import b64decode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.wire.saslprep import ProhibitedTextError, saslprep
from node.wire.scram import (
    ITERATIONS,
    LARGEST_NONCE,
    LEAST_ITERATIONS,
    SALT_BYTES,
    ScramError,
    ScramExchange,
    ScramStage,
    Verifier,
    parse_final,
    parse_first,
)
from tests.wire.scram_client import ScramClient, hi

RFC_7677 = (
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
"""The example of RFC 7677, section 3: user "user", password "pencil"."""

PENCIL = Verifier.of("pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def begun(verifier: Verifier = PENCIL) -> ScramExchange:
    return ScramExchange(lambda _: verifier, SERVER_NONCE)


def refusal(exchange: ScramExchange, message: bytes) -> str:
    with pytest.raises(ScramError) as refused:
        exchange.receive(message)
    assert str(refused.value) == f"SCRAM-SHA-256: {refused.value.value}"
    return refused.value.value


# -- the exchange -----------------------------------------------------------------------------------


@pytest.mark.requirement("B2.4")
def test_the_example_of_rfc_7677() -> None:
    exchange = begun()
    first, challenge, final, verified = RFC_7677
    assert exchange.receive(first) == challenge
    assert (exchange.stage, exchange.user) == (ScramStage.FINAL, "user")
    assert exchange.receive(final) == verified
    assert exchange.stage is ScramStage.DONE
    assert refusal(exchange, final) == "other-error"


@pytest.mark.requirement("B2.4")
@pytest.mark.parametrize("gs2", ["n,,", "y,,", "n,a=us=2Cer=3D=C3=A9,"])
def test_a_client_of_its_own_code_logs_in(gs2: str) -> None:
    user = "us,er=é"
    client = ScramClient(user, "pencil", gs2=gs2.replace("=C3=A9", "é"))
    exchange = ScramExchange({user: PENCIL}.__getitem__, SERVER_NONCE)
    assert exchange.receive(b"") == b"", "sasl-init had no response yet"
    final = exchange.receive(client.final(exchange.receive(client.first)))
    assert client.believes(final) and exchange.stage is ScramStage.DONE
    assert exchange.user == user and exchange.verifier is PENCIL


def test_a_client_may_begin_late_once() -> None:
    exchange = begun()
    assert exchange.receive(b"") == b""
    assert refusal(exchange, b"") == "invalid-encoding"


def test_extensions_that_the_server_may_ignore_are_signed_too() -> None:
    client = ScramClient("user", "pencil")
    client.bare += ",x=of,y=two"
    exchange = begun()
    challenge = exchange.receive(client.first)
    assert client.believes(exchange.receive(client.final(challenge, ",z=1")))


@pytest.mark.requirement("B2.4")
@pytest.mark.parametrize("wrong", ["Pencil", "", "pencil "])
def test_a_wrong_password_is_an_invalid_proof(wrong: str) -> None:
    client, exchange = ScramClient("user", wrong), begun()
    final = client.final(exchange.receive(client.first))
    assert refusal(exchange, final) == "invalid-proof"
    assert refusal(exchange, final) == "other-error", "the exchange is over"


@pytest.mark.requirement("B2.4")
@pytest.mark.parametrize(
    ("message", "value"),
    [
        (b"p=tls-unique,,n=user,r=x", "channel-binding-not-supported"),
        (b"n,,m=must,n=user,r=x", "extensions-not-supported"),
        (b"n,,n=user,r=x,m=must", "extensions-not-supported"),
        (b"n,a=root,n=user,r=x", "other-error"),
        (b"n,,n=user,r=" + b"x" * (LARGEST_NONCE + 1), "no-resources"),
        (b"n,,n=\xff,r=x", "invalid-username-encoding"),
        ("n,,n=a\u0007,r=x".encode(), "invalid-username-encoding"),
        ("n,,n=\u00ad,r=x".encode(), "invalid-username-encoding"),
        (b"n,,n=us=2er,r=x", "invalid-encoding"),
        (b"n,,n=us=,r=x", "invalid-encoding"),
        (b"n,,n=user", "invalid-encoding"),
        (b"n,,r=x,n=user", "invalid-encoding"),
        (b"n,,n=,r=x", "invalid-encoding"),
        (b"n,,n=user,r=", "invalid-encoding"),
        (b"n,,n=user,r=\x7f", "invalid-encoding"),
        (b"n,,n=us\0er,r=x", "invalid-encoding"),
        (b"n,,n=user,r=x,", "invalid-encoding"),
        (b"n,,n=user,r=x,1=x", "invalid-encoding"),
        (b"n,user,n=user,r=x", "other-error"),
        (b"x,,n=user,r=x", "invalid-encoding"),
        (b"n,", "invalid-encoding"),
        (b"n=user,r=x", "invalid-encoding"),
    ],
)
def test_a_first_message_that_breaks_the_rules(message: bytes, value: str) -> None:
    assert refusal(begun(), message) == value


@pytest.mark.requirement("B2.4")
@pytest.mark.parametrize(
    ("change", "value"),
    [
        ((b"c=biws", b"c=eSws"), "channel-bindings-dont-match"),
        ((b"c=biws", b"c=biwsAA=="), "channel-bindings-dont-match"),
        ((b"hNlF$k0", b"hNlF$k1"), "other-error"),
        ((b"hNlF$k0", b""), "other-error"),
        ((b"hNlF$k0", b"\xff"), "other-error"),
        ((b",p=", b",m=must,p="), "extensions-not-supported"),
        ((b"p=dH", b"p=eH"), "invalid-proof"),
        ((b"ndVQ=", b"ndV="), "invalid-encoding"),
        ((b"ndVQ=", b"nd!Q="), "invalid-encoding"),
        ((b"p=dHzb", b"p="), "invalid-encoding"),
        ((b"c=biws,r", b"r"), "invalid-encoding"),
        ((b"c=biws,", b""), "invalid-encoding"),
        ((b",p=", b",q="), "invalid-encoding"),
        ((RFC_7677[2], b""), "invalid-encoding"),
    ],
)
def test_a_final_message_that_breaks_the_rules(change: tuple[bytes, bytes], value: str) -> None:
    exchange = begun()
    exchange.receive(RFC_7677[0])
    assert refusal(exchange, RFC_7677[2].replace(*change)) == value


def test_the_challenge_fits_into_a_sasl_frame() -> None:
    """Of 512 octets (part 5, section 5.3.1), 12 of them around the challenge."""
    exchange = ScramExchange(lambda name: Verifier.decoy(b"key", name), b"x" * 24)
    challenge = exchange.receive(b"n,,n=user,r=" + b"x" * LARGEST_NONCE)
    assert len(challenge) <= 500


# -- the parsers ------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.encode)
PIECES = st.sampled_from(
    [
        b"n",
        b"y",
        b"p=x",
        b"a=u",
        b"n=user",
        b"r=nonce",
        b"m=x",
        b"c=biws",
        b"p=" + b"A" * 43 + b"=",
        b"=",
        b"",
    ]
)
MESSAGES = st.lists(PIECES | TEXT | st.binary(max_size=5), max_size=8).map(b",".join) | st.binary(max_size=60)


@given(MESSAGES)
@example(RFC_7677[0])
@example(b"n,a==3D,n==3D,r=x")
def test_any_octets_are_a_first_message_or_refused(message: bytes) -> None:
    try:
        header, bare, name, nonce = parse_first(message)
    except ScramError:
        return
    assert header + bare == message and header[:1] in (b"n", b"y") and header.count(b",") == 2
    assert name and 0 < len(nonce) <= LARGEST_NONCE
    assert b"r=" + nonce in bare.split(b",")


@given(MESSAGES)
@example(RFC_7677[2])
def test_any_octets_are_a_final_message_or_refused(message: bytes) -> None:
    try:
        rest, binding, nonce, proof = parse_final(message)
    except ScramError:
        return
    assert message.startswith(rest + b",p=") and len(proof) == 32
    assert rest.split(b",")[:2] == [b"c=" + binding, b"r=" + nonce]


@given(st.lists(MESSAGES | st.sampled_from(RFC_7677), max_size=4))
def test_only_the_right_proof_ends_an_exchange(messages: list[bytes]) -> None:
    exchange = begun()
    for message in messages:
        try:
            answer = exchange.receive(message)
        except ScramError:
            return
        assert (exchange.stage is ScramStage.DONE) == (message == RFC_7677[2] and answer == RFC_7677[3])


# -- verifiers --------------------------------------------------------------------------------------


def test_hi_is_pbkdf2() -> None:
    assert hi(b"pencil", b"salt", 30) == hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 30)


def test_a_verifier_is_read_as_it_was_written_and_never_shown() -> None:
    assert Verifier.parse(str(PENCIL)) == PENCIL
    assert repr(PENCIL) == "Verifier(...)"
    assert LEAST_ITERATIONS >= 4096 and Verifier.of("x", b"salt").iterations == ITERATIONS >= LEAST_ITERATIONS


KEYS = "$".join(["00" * 32] * 2)


@pytest.mark.parametrize(
    "text",
    [
        "", "4096", "4096$00$00$00", f"x$00${KEYS}", f"4096$zz${KEYS}", f"4095$00${KEYS}", f"4096$${KEYS}",
        f"10000001$00${KEYS}", f"4096$00${KEYS}$00",
    ],
)  # fmt: skip
def test_a_text_that_is_no_verifier_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        Verifier.parse(text)
    assert text == "" or text not in str(refused.value)


def test_a_decoy_looks_like_a_verifier_and_stays_the_same() -> None:
    decoy, real = Verifier.decoy(b"key", "nobody"), Verifier.of("x", b"s" * SALT_BYTES)
    assert decoy == Verifier.decoy(b"key", "nobody")
    assert len({decoy.salt, *(Verifier.decoy(*of).salt for of in ((b"key", "no"), (b"yek", "nobody")))}) == 3
    assert (len(decoy.salt), decoy.iterations) == (len(real.salt), real.iterations)
    assert len({decoy.stored_key, decoy.server_key, decoy.salt}) == 3


# -- SASLprep ---------------------------------------------------------------------------------------


@pytest.mark.requirement("B2.4")
@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"),
        ("a\u00a0b", "a b"), ("", ""), ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
    ],
)  # fmt: skip
def test_the_examples_of_rfc_4013(text: str, prepared: str) -> None:
    assert saslprep(text) == saslprep(text, stored=True) == prepared


@pytest.mark.parametrize(
    "text",
    [
        "\u0007",
        "\u0627\u0031",
        "\u0031\u0627",
        "\u0627a\u0628",
        "\ud800",
        "\u202e",
        "\ufdd0",
        "\ue000",
        "\u200e",
    ],
)
def test_prohibited_text(text: str) -> None:
    with pytest.raises(ProhibitedTextError) as refused:
        saslprep(text)
    assert text not in str(refused.value)


def test_a_character_that_unicode_3_2_does_not_know_is_no_part_of_a_password_that_is_kept() -> None:
    assert saslprep("\U0001f600") == "\U0001f600"
    with pytest.raises(ProhibitedTextError):
        Verifier.of("\U0001f600", b"salt")


@pytest.mark.parametrize("password", ["", "\u00ad", "\udcff"])
def test_a_password_of_which_nothing_is_left_has_no_verifier(password: str) -> None:
    with pytest.raises(ProhibitedTextError):
        Verifier.of(password, b"salt")


@given(st.text(max_size=20))
def test_prepared_text_stays_as_it_is(text: str) -> None:
    try:
        prepared = saslprep(text)
    except ProhibitedTextError:
        return
    assert saslprep(prepared) == prepared
