"""The files of the TLS port, and names in certificates."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from cluster.config.certificates import Certificates, name_in
from cluster.config.tables import ConfigError, TlsSettings
from tests.processes.certificates import Authority

CERTIFICATE: dict[str, Any] = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", 'Mills, "A" + B'),),
        (("organizationalUnitName", "#1"), ("userId", "7")),
        (("commonName", "alice"),),
    ),
    "subjectAltName": (
        ("DNS", "a.example"), ("DNS", "b.example"), ("email", "alice@example"), ("URI", "urn:alice"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("common_name", "alice"),
        ("distinguished_name", r"CN=alice,OU=\#1+UID=7,O=Mills\, \"A\" \+ B,C=DE"),
        ("san_dns", "a.example"),
        ("san_email", "alice@example"),
        ("san_uri", "urn:alice"),
    ],
)
def test_names_in_a_certificate(source: str, name: str) -> None:
    assert name_in(CERTIFICATE, source) == name
    assert name_in({}, source) == ""


def test_two_common_names_name_no_user() -> None:
    twice = {"subject": ((("commonName", "alice"),), (("commonName", "root"),))}
    assert name_in(twice, "common_name") == ""


def settings(directory: Path, **changes: Any) -> TlsSettings:
    pair = Authority(directory).issue("server", "a node", addresses=("127.0.0.1",))
    return TlsSettings(**{"certificate": pair.certificate, "key": pair.key, **changes})


def test_contexts_are_strict(tmp_path: Path) -> None:
    context = Certificates(settings(tmp_path)).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION
    strict = settings(tmp_path, ca=tmp_path / "ca.pem", verify="required", minimum_version="1.3")
    context = Certificates(strict).context
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED)


def test_files_that_change_are_noticed_and_bad_ones_change_nothing(tmp_path: Path) -> None:
    certificates = Certificates(settings(tmp_path))
    first = certificates.context
    assert not certificates.files.changed
    (tmp_path / "server.pem").write_text("rubbish", encoding="utf-8")
    os.utime(tmp_path / "server.pem", ns=(1, 1))
    assert certificates.files.changed
    with pytest.raises(ConfigError):
        certificates.reload()
    assert certificates.context is first
    assert not certificates.files.changed, "the same files are not tried again and again"
    (tmp_path / "server.pem").unlink()
    assert not certificates.files.changed
    settings(tmp_path)
    os.utime(tmp_path / "server.pem", ns=(2, 2))
    assert certificates.files.changed
    certificates.reload()
    assert certificates.context is not first


def test_a_key_that_all_users_can_read_is_refused(tmp_path: Path) -> None:
    open_to_all = settings(tmp_path)
    open_to_all.key.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Certificates(open_to_all)


@pytest.mark.parametrize("missing", ["certificate", "key", "ca"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        Certificates(settings(tmp_path, **{missing: tmp_path / "nowhere.pem"}))


def test_verifying_needs_an_authority(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ca is missing"):
        settings(tmp_path, verify="optional")
