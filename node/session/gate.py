"""Decides which addresses may connect: bounds the sockets that have not logged in, and blocks addresses that
fail again and again.

0-9-1 §4.10.2 wants a failed negotiation paused, logged and closed. The gate also refuses an address for a
while after too many failures. An address may be a whole network, or all programs of this machine. So the gate
never blocks an exempt address, as loopback is, nor an address with a logged-in client: a failing client there
is slowed by the pauses and by the queue for password hashing, and locks out no other client.

A stranger is a socket that has not logged in. Pure: `now` is in seconds of any monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

IPV6_NETWORK_BITS: Final = 64
"""The prefix length of the network that one customer usually has, and all of whose addresses the customer
may use.
"""


@dataclass(frozen=True, slots=True)
class GateLimits:
    """At most `sockets` in all, `strangers` of them not logged in, `strangers_per_address` from one address.

    An address that fails `failures` times within `window` seconds is blocked for `block` seconds; with 0
    failures no address is blocked. The gate remembers the failures of at most `addresses` addresses, and
    never blocks those in the networks `never_blocked`.
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
    """Failed negotiations of an address since `since`. The gate sets `blocked_until` after too many."""

    since: float
    count: int = 0
    blocked_until: float = 0.0


class Gate:
    """The counts of a node's sockets by address, and the failures of addresses."""

    def __init__(self, limits: GateLimits) -> None:
        self.sockets = 0
        self.strangers = 0
        self.refused = 0
        self.blocked = 0
        """The part of `refused` whose address was blocked."""
        self._limits = limits
        self._by_origin: dict[str, int] = {}
        """The number of strangers, by origin."""
        self._logged_in: dict[str, int] = {}
        """The number of logged-in clients, by origin."""
        self._failures: dict[str, Failures] = {}

    def admit(self, address: str, now: float) -> bool:
        """Count a new socket as a stranger. False: the caller closes the socket without a word."""
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
        """Whether the address is blocked now."""
        origin = origin_of(address)
        failures = self._failures.get(origin)
        return failures is not None and now < failures.blocked_until and origin not in self._logged_in

    def vouched(self, address: str) -> None:
        """A stranger at the address has logged in."""
        self._no_stranger(address)
        origin = origin_of(address)
        self._logged_in[origin] = self._logged_in.get(origin, 0) + 1

    def _no_stranger(self, address: str) -> None:
        self.strangers -= 1
        origin = origin_of(address)
        here = self._by_origin[origin] - 1
        if here:
            self._by_origin[origin] = here
        else:
            del self._by_origin[origin]

    def left(self, address: str, *, stranger: bool) -> None:
        """An admitted socket is closed. `stranger`: it had not logged in."""
        self.sockets -= 1
        if stranger:
            self._no_stranger(address)
            return
        origin = origin_of(address)
        here = self._logged_in[origin] - 1
        if here:
            self._logged_in[origin] = here
        else:
            del self._logged_in[origin]

    def failed(self, address: str, now: float) -> bool:
        """Count a failed negotiation of the address. Returns whether this failure has blocked the address."""
        limits = self._limits
        origin = origin_of(address)
        if not limits.failures or origin in self._logged_in or self._is_exempt(address):
            return False
        failures = self._failures.get(origin)
        if failures is None or now - failures.since > limits.window:
            self._failures.pop(origin, None)
            failures = Failures(now)
            self._make_room()
            self._failures[origin] = failures
        if now < failures.blocked_until:
            # The failing socket was admitted before the address was blocked.
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
        """Forget the address with the oldest failures where the gate remembers as many as it may."""
        if len(self._failures) >= self._limits.addresses:
            del self._failures[next(iter(self._failures))]


def origin_of(address: str) -> str:
    """The origin under which the gate counts an address: the IPv4 address, or the network of an IPv6 address.

    An address that does not parse is its own origin.
    """
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
