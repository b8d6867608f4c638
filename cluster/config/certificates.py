"""The node's TLS certificate, read again when its files change, and user names in clients' certificates."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.config.tables import ConfigError, TlsSettings
from cluster.config.watched_files import WatchedFiles

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_SAN_KINDS: Final = {"san_dns": "DNS", "san_email": "email", "san_uri": "URI"}

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""RFC 4514 §3."""


class Certificates:
    """Implements `node.session.tls_port.ServerIdentity`. Raises ConfigError for files that cannot be used."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        paths = (settings.certificate, settings.key, settings.ca)
        self.files = WatchedFiles("node.tls", [path for path in paths if path is not None])
        self.reload()

    def name_in(self, certificate: Mapping[str, Any]) -> str:
        return name_in(certificate, self._settings.user_from)

    def reload(self) -> None:
        """Read the files again, for new connections. Raises ConfigError, and keeps the certificate then."""
        self.files.note()
        self.context = self._load()

    def _load(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[settings.minimum_version]
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.verify_mode = _VERIFY[settings.verify]
        if settings.key.stat().st_mode & 0o007:
            raise ConfigError(
                f"node.tls.key: {settings.key} can be read by every account: chmod 600 {settings.key}"
            )
        try:
            # An encrypted key must fail here, not ask a terminal for its passphrase.
            context.load_cert_chain(settings.certificate, settings.key, password=_no_passphrase)
            if settings.ca is not None:
                context.load_verify_locations(settings.ca)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ConfigError(
                f"node.tls: {settings.certificate}, {settings.key}, {settings.ca or 'no CA'}: "
                f"cannot be used: {reason}"
            ) from error
        return context


def _no_passphrase() -> str:
    raise ValueError("the key is encrypted, and a node asks for no passphrase: store the key without one")


def name_in(certificate: Mapping[str, Any], source: str) -> str:
    """The user whom a certificate names; empty if it names none.

    `certificate` is as `ssl.SSLSocket.getpeercert` returns it, `source` a value of `TlsSettings.user_from`. A
    certificate with several common names is ambiguous, and names no user. Of several alternative names of one
    kind the first counts.
    """
    subject: list[tuple[str, str]] = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
    if source == "common_name":
        names = [value for name, value in subject if name == "commonName"]
        return names[0] if len(names) == 1 else ""
    if source == "distinguished_name":
        return distinguished_name(certificate.get("subject", ()))
    kind = _SAN_KINDS[source]
    return next((value for found, value in certificate.get("subjectAltName", ()) if found == kind), "")


def distinguished_name(names: Sequence[Sequence[tuple[str, str]]]) -> str:
    """A distinguished name of a certificate as text (RFC 4514)."""
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in rdn)
        for rdn in reversed(names)
    )


def _escaped(value: str) -> str:
    """RFC 4514 §2.4."""
    text = "".join(f"\\{char}" if char in ',+"\\<>;' else char for char in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text
