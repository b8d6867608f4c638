"""Which addresses may connect: bounds on peers that have not logged in, and on those that keep failing.

0-9-1 §4.10.2 wants a failed negotiation paused, logged and closed; here an address that fails again and
again is not even listened to for a while. An address is not one client: behind it may be a whole network, or
all programs of this machine. So what is exempt, as loopback is, is never blocked, nor is an address at which
a client is logged in: whoever fails there waits for the pauses and for the turns of hashing, and locks out
no other.

Pure: `now` is in seconds of any monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

IPV6_NETWORK_BITS: Final = 64
"""What one customer gets: whoever has one IPv6 address has as many as there are in such a network."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    """`sockets` in all, `strangers` of them not logged in, so many of these at one address.

    An address that failed `failures` times within `window` seconds is blocked for `block` seconds; 0
    failures: never. Of at most `addresses` this is known. Addresses in the networks `never_blocked` are not.
    """

    sockets: int = 12_000
    strangers: int = 2000
    strangers_per_address: int = 1000
    failures: int = 30
    window: float = 60.0
    block: float = 60.0
    addresses: int = 10_000
    never_blocked: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(slots=True)
class Failures:
    """Failed negotiations of an address since `since`. `blocked_until` is set once there are too many."""

    since: float
    count: int = 0
    blocked_until: float = 0.0


class Gate:
    """The sockets of a node, strangers and clients, and the failures of addresses."""

    def __init__(self, limits: GateLimits) -> None:
        self.sockets = 0
        self.strangers = 0
        self.refused = 0
        self.blocked = 0
        """Connections refused because their address is blocked; part of `refused`."""
        self._limits = limits
        self._by_origin: dict[str, int] = {}
        self._residents: dict[str, int] = {}
        """Clients that are logged in, by origin."""
        self._failures: dict[str, Failures] = {}

    def admit(self, address: str, now: float) -> bool:
        """A socket comes in, a stranger's at first; False: close it without a word."""
        if self.blocks(address, now):
            self.refused += 1
            self.blocked += 1
            return False
        origin = origin_of(address)
        limits = self._limits
        here = self._by_origin.get(origin, 0)
        if (
            self.sockets >= limits.sockets
            or self.strangers >= limits.strangers
            or here >= limits.strangers_per_address
        ):
            self.refused += 1
            return False
        self.sockets += 1
        self.strangers += 1
        self._by_origin[origin] = here + 1
        return True

    def blocks(self, address: str, now: float) -> bool:
        """Whether the address has failed too often."""
        origin = origin_of(address)
        failures = self._failures.get(origin)
        return failures is not None and now < failures.blocked_until and origin not in self._residents

    def vouched(self, address: str) -> None:
        """A stranger has logged in."""
        self._no_stranger(address)
        origin = origin_of(address)
        self._residents[origin] = self._residents.get(origin, 0) + 1

    def _no_stranger(self, address: str) -> None:
        self.strangers -= 1
        origin = origin_of(address)
        here = self._by_origin[origin] - 1
        if here:
            self._by_origin[origin] = here
        else:
            del self._by_origin[origin]

    def left(self, address: str, *, stranger: bool) -> None:
        """A socket that was admitted is closed."""
        self.sockets -= 1
        if stranger:
            self._no_stranger(address)
            return
        origin = origin_of(address)
        here = self._residents[origin] - 1
        if here:
            self._residents[origin] = here
        else:
            del self._residents[origin]

    def failed(self, address: str, now: float) -> bool:
        """A negotiation of the address failed; whether that was once too often, and it is blocked now."""
        limits = self._limits
        origin = origin_of(address)
        if not limits.failures or origin in self._residents or self._is_exempt(address):
            return False
        failures = self._failures.get(origin)
        if failures is None or now - failures.since > limits.window:
            self._failures.pop(origin, None)
            failures = Failures(now)
            self._make_room()
            self._failures[origin] = failures
        if now < failures.blocked_until:
            # A socket that was in before.
            return False
        failures.count += 1
        if failures.count < limits.failures:
            return False
        failures.blocked_until = now + limits.block
        failures.since = failures.blocked_until
        failures.count = 0
        return True

    def _is_exempt(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._limits.never_blocked)

    def _make_room(self) -> None:
        """Forget the address whose failures are the oldest, if as many are known as may be."""
        if len(self._failures) >= self._limits.addresses:
            del self._failures[next(iter(self._failures))]


def origin_of(address: str) -> str:
    """What is held responsible: an IPv4 address, or the network that an IPv6 address is in."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback:
        return address
    network = int(parsed) >> (128 - IPV6_NETWORK_BITS) << (128 - IPV6_NETWORK_BITS)
    return f"{IPv6Address(network)}/{IPV6_NETWORK_BITS}"
