"""When certificates expire: read out of their DER, of which Python's ssl shows only those of peers.

X.509 (RFC 5280 §4.1): Certificate { TBSCertificate { [0] version, serialNumber, signature, issuer,
validity { notBefore, notAfter }, subject, ... } ... }.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import Final

SEQUENCE: Final = 0x30
EXPLICIT_VERSION: Final = 0xA0
UTC_TIME: Final = 0x17
LONG_FORM: Final = 0x80

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def expiry_dates(pem: str) -> list[datetime]:
    """notAfter of every certificate in a file. Raises ValueError for one that is malformed."""
    return [not_after(ssl.PEM_cert_to_DER_cert(found)) for found in _PEM.findall(pem)]


def not_after(der: bytes) -> datetime:
    """Raises ValueError."""
    try:
        _, certificate, _ = _element(der, 0)
        _, tbs, _ = _element(certificate, 0)
        at = 0
        kind, _, behind = _element(tbs, at)
        if kind == EXPLICIT_VERSION:
            at = behind
        for _ in ("serialNumber", "signature", "issuer"):
            at = _element(tbs, at)[2]
        _, validity, _ = _element(tbs, at)
        kind, text, _ = _element(validity, _element(validity, 0)[2])
        return _time(kind, text.decode("ascii"))
    except IndexError:
        raise ValueError("a certificate is cut short") from None


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag, contents, and the position behind the element that begins at `at`."""
    kind, length, start = data[at], data[at + 1], at + 2
    if length & LONG_FORM:
        octets = length & ~LONG_FORM
        length, start = int.from_bytes(data[start : start + octets], "big"), start + octets
    return kind, data[start : start + length], start + length


def _time(kind: int, text: str) -> datetime:
    """UTCTime has two digits for the year, which are of 1950 to 2049 (RFC 5280 §4.1.2.5.1)."""
    if kind == UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
