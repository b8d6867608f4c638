"""Addresses host:port, as they stand in the configuration."""

from __future__ import annotations

import ipaddress
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, PlainSerializer


class Address(NamedTuple):
    """Host and port of a listener. `host` is a name or an address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect. The only name that counts as loopback is "localhost"."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: object) -> Address:
        """The address written as "host:port" or "[IPv6]:port"; raises ValueError."""
        if isinstance(text, Address):
            return text
        if not isinstance(text, str):
            raise ValueError('must be a string "host:port"')
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not host or (":" in host and not bracketed):
            raise ValueError('must be "host:port", such as "127.0.0.1:5672" or "[::1]:5672"')
        if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError(f"port {port!r} is not a number from 1 to 65535")
        return cls(host[1:-1] if bracketed else host, int(port))


AddressField = Annotated[
    Address, BeforeValidator(Address.parse), PlainSerializer(str, return_type=str, when_used="always")
]
