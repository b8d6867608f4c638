"""From the protocol header to Open-Ok (§2.2.4, §2.3.3, §4.2.2).

stage            expects from the client    then
START            Start-Ok                   Authenticate asked of the shell, AUTHENTICATION
AUTHENTICATION   nothing                    Tune sent by `authenticated`, TUNE
TUNE             Tune-Ok                    OPEN
OPEN             Open                       OpenVhost asked of the shell, VHOST
VHOST            nothing                    Open-Ok sent by `opened`, DONE
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from node.wire.amqp091.effects import Authenticate, OpenVhost, Outbox
from node.wire.amqp091.fields import FieldValue, Table
from node.wire.amqp091.limits import MAX_CHANNEL, SMALLEST_FRAME_MAX, ConnectionLimits
from node.wire.amqp091.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from node.wire.amqp091.primitives import Method

CAPABILITIES: Mapping[str, bool] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class Stage(Enum):
    START = 1
    AUTHENTICATION = 2
    TUNE = 3
    OPEN = 4
    VHOST = 5
    DONE = 6


class NegotiationError(Exception):
    """The client does not negotiate as it must; it gets no answer (§2.2.4)."""


class Negotiation:
    """The agreed limits. `frame_max`, `channel_max` and `heartbeat` count from Tune-Ok on."""

    __slots__ = (
        "_limits", "_outbox", "channel_max", "client_properties", "frame_max", "heartbeat", "mechanism",
        "stage",
    )  # fmt: skip

    def __init__(self, limits: ConnectionLimits, outbox: Outbox):
        self.stage = Stage.START
        self.client_properties: Table = {}
        self.mechanism = ""
        self.channel_max = limits.channel_max or MAX_CHANNEL
        self.frame_max = limits.frame_max
        self.heartbeat = limits.heartbeat
        self._limits = limits
        self._outbox = outbox

    @property
    def waits_for_shell(self) -> bool:
        return self.stage in (Stage.AUTHENTICATION, Stage.VHOST)

    def start(self) -> None:
        """The protocol header came: offer the mechanisms."""
        capabilities: Table = dict(CAPABILITIES)
        properties: Table = {**self._limits.server_properties, "capabilities": capabilities}
        mechanisms = " ".join(self._limits.mechanisms).encode()
        self._outbox.send(0, ConnectionStart(0, 9, properties, mechanisms, b"en_US"))

    def receive(self, method: Method) -> None:
        """Raises NegotiationError."""
        match self.stage, method:
            case Stage.START, ConnectionStartOk():
                self._start_ok(method)
            case Stage.TUNE, ConnectionTuneOk():
                self._tune_ok(method)
            case Stage.OPEN, ConnectionOpen():
                self.stage = Stage.VHOST
                self._outbox.emit(OpenVhost(method.virtual_host))
            case _:
                raise NegotiationError(f"{method.__doc__} in stage {self.stage.name}")

    def _start_ok(self, method: ConnectionStartOk) -> None:
        if method.mechanism not in self._limits.mechanisms:
            raise NegotiationError(f"mechanism {method.mechanism[:32]!r} was not offered")
        self.client_properties = method.client_properties
        self.mechanism = method.mechanism
        self.stage = Stage.AUTHENTICATION
        self._outbox.emit(Authenticate(method.mechanism, method.response))

    def authenticated(self) -> None:
        self.stage = Stage.TUNE
        self._outbox.send(0, ConnectionTune(self.channel_max, self.frame_max, self.heartbeat))

    def _tune_ok(self, method: ConnectionTuneOk) -> None:
        """Limits are only ever lowered, 0 meaning what was proposed; the heartbeat is the client's choice."""
        if method.channel_max > self.channel_max:
            raise NegotiationError(f"channel-max {method.channel_max} is above {self.channel_max}")
        if method.frame_max > self.frame_max:
            raise NegotiationError(f"frame-max {method.frame_max} is above {self.frame_max}")
        if method.frame_max and method.frame_max < SMALLEST_FRAME_MAX:
            raise NegotiationError(f"frame-max {method.frame_max} is below {SMALLEST_FRAME_MAX}")
        self.channel_max = method.channel_max or self.channel_max
        self.frame_max = method.frame_max or self.frame_max
        self.heartbeat = method.heartbeat
        self.stage = Stage.OPEN

    def opened(self) -> None:
        self.stage = Stage.DONE
        self._outbox.send(0, ConnectionOpenOk())

    def client_can(self, capability: str) -> bool:
        """Whether the client announced the capability."""
        capabilities: FieldValue = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True
