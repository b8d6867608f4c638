"""The messages of the catalog's replicas beside Raft: commands for the leader, leases, and applied indexes
(`cluster.catalog.visibility`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from cluster.peers.packing import pack, unpack_part
from cluster.peers.tags import CATALOG_REPLICAS
from replication.forms import expect


class CatalogCode(IntEnum):
    """The messages of this family by their numbers."""

    PROPOSE = 1
    PING = 2
    PONG = 3
    APPLIED = 4
    BARRIER = 5
    VISIBLE = 6


def _encode(code: CatalogCode, argument: Any, process: int | None = None) -> list[bytes]:
    parts = [CATALOG_REPLICAS, pack([code, argument])]
    return parts if process is None else [*parts, pack(process)]


@dataclass(frozen=True, slots=True)
class CommandProposal:
    """A command for the leader to propose (`cluster.catalog.state.encode_command`)."""

    command: bytes

    def encode(self) -> list[bytes]:
        return _encode(CatalogCode.PROPOSE, self.command)


@dataclass(frozen=True, slots=True)
class LeasePing:
    """A replica asks for a lease. `sent` is the time on the clock of the asking process, in seconds.
    `applied` is the index of the last entry that the replica has applied. `process` is the number of the
    asking process's front end; None where its release does not tell it.
    """

    sent: float
    applied: int
    process: int | None = None

    def encode(self) -> list[bytes]:
        return _encode(CatalogCode.PING, [self.sent, self.applied], self.process)


@dataclass(frozen=True, slots=True)
class LeasePong:
    """The leader grants a lease that counts from `since`, in seconds on the clock of the process that asked.

    `process` is that of the ping.
    """

    since: float
    process: int | None = None

    def encode(self) -> list[bytes]:
        return _encode(CatalogCode.PONG, self.since, self.process)


@dataclass(frozen=True, slots=True)
class CatalogApplied:
    """The sender's replica has applied the entries up to `index`."""

    index: int

    def encode(self) -> list[bytes]:
        return _encode(CatalogCode.APPLIED, self.index)


@dataclass(frozen=True, slots=True)
class BarrierRequest:
    """A front end asks to be told when every replica with a lease has applied the entry `index`."""

    index: int
    front_end: int
    request: int

    def encode(self) -> list[bytes]:
        return _encode(CatalogCode.BARRIER, [self.index, self.front_end, self.request])


@dataclass(frozen=True, slots=True)
class BarrierPassed:
    """Every replica with a lease has applied the entry of the front end's request."""

    front_end: int
    request: int

    def encode(self) -> list[bytes]:
        return _encode(CatalogCode.VISIBLE, [self.front_end, self.request])


CatalogMessage = CommandProposal | LeasePing | LeasePong | CatalogApplied | BarrierRequest | BarrierPassed


def decode_catalog_message(parts: Sequence[bytes]) -> CatalogMessage | None:
    """The message; None for a code that this release does not know. Raises MessageError."""
    code, argument = unpack_part(parts, (int, object))
    match code:
        case CatalogCode.PROPOSE:
            expect(argument, bytes)
            return CommandProposal(argument)
        case CatalogCode.PING:
            expect(argument, (float, int))
            sent, applied = argument
            return LeasePing(sent, applied, _process(parts))
        case CatalogCode.PONG:
            expect(argument, float)
            return LeasePong(argument, _process(parts))
        case CatalogCode.APPLIED:
            expect(argument, int)
            return CatalogApplied(argument)
        case CatalogCode.BARRIER:
            expect(argument, (int, int, int))
            return BarrierRequest(*argument)
        case CatalogCode.VISIBLE:
            expect(argument, (int, int))
            return BarrierPassed(*argument)
    return None


def _process(parts: Sequence[bytes]) -> int | None:
    process: int | None = unpack_part(parts, int, 2) if len(parts) > 2 else None
    return process
