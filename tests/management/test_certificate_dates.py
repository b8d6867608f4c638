"""When certificates expire (F5, F7)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.certificate_dates import expiry_dates, not_after
from tests.processes.certificates import Authority


def test_the_dates_are_those_in_the_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "a node", addresses=("127.0.0.1",))
    text = pair.certificate.read_text(encoding="ascii") + authority.certificate.read_text(encoding="ascii")
    expected = [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(text.encode())]
    assert expiry_dates("some words before\n" + text) == expected
    assert len(expected) >= 2


def element(kind: int, contents: bytes) -> bytes:
    assert len(contents) < 128
    return bytes((kind, len(contents))) + contents


@pytest.mark.parametrize(
    ("kind", "text", "date"),
    [
        (0x17, "491231235959Z", datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (0x17, "500101000000Z", datetime(1950, 1, 1, tzinfo=UTC)),
        (0x18, "20500101000000Z", datetime(2050, 1, 1, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("version", [b"", element(0xA0, b"\2\1\2")])
def test_years_of_two_digits_end_in_2049(kind: int, text: str, date: datetime, version: bytes) -> None:
    validity = element(0x30, element(0x17, b"260101000000Z") + element(kind, text.encode()))
    before = element(2, b"\1") + element(0x30, b"") + element(0x30, b"")
    assert not_after(element(0x30, element(0x30, version + before + validity))) == date


@given(st.binary(max_size=80))
def test_octets_that_are_no_certificate_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        not_after(data)


def test_a_file_without_certificates_has_no_dates() -> None:
    assert expiry_dates("") == []
