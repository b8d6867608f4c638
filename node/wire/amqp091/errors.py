"""The errors of a 0-9-1 connection. The type of an exception states its reply code, and whether it ends the
connection.

A channel exception closes its channel, a connection exception the connection (§4.8). Codes are those of the
protocol tables (`methods.ReplyCode`). `FramingError` has none, because §4.2.3 forbids to send anything after
it.
"""

from __future__ import annotations

from typing import ClassVar, Protocol


class Failure(Protocol):
    """A cause that closes a channel or connection: one of these exceptions, or a `node.refusal.Refusal`.

    `str(failure)` is the reply text, of which the client gets at most 255 octets.
    """

    @property
    def code(self) -> int: ...
    @property
    def ends_connection(self) -> bool: ...


class ProtocolException(Exception):
    """An exception of the protocol. `method` is the class id and method id of its cause; (0, 0) for none."""

    code: ClassVar[int]
    ends_connection: ClassVar[bool]

    def __init__(self, text: str, method: tuple[int, int] = (0, 0)):
        super().__init__(text)
        self.method = method


class ChannelException(ProtocolException):
    """Ends its channel; other channels of the connection go on."""

    ends_connection = False


class ConnectionException(ProtocolException):
    """Ends the connection."""

    ends_connection = True


class ContentTooLargeError(ChannelException):
    """The content is larger than the server accepts."""

    code = 311


class NoQueueDeclaredError(ChannelException):
    """An empty queue name stands for the channel's last declared queue, and there is none."""

    code = 404


class ForgedUserIdError(ChannelException):
    """The user-id of a message is not the name of the user who publishes it."""

    code = 406


class ReplyConsumerError(ChannelException):
    """The client breaks the rules of direct reply-to (see `reply_to`)."""

    code = 406


class UnknownDeliveryTagError(ChannelException):
    """The channel has no unsettled delivery with the tag."""

    code = 406


class ExpirationError(ChannelException):
    """The expiration property is no number of milliseconds, or is out of range."""

    code = 406


class ChannelModeError(ChannelException):
    """The method does not fit the mode that the channel is in: transactions, confirms or neither."""

    code = 406


class ConnectionForcedError(ConnectionException):
    """The operator, or a shutdown, closes the connection."""

    code = 320


class LoginRefusedError(ConnectionException):
    """The credentials are wrong. Only clients with `authentication_failure_close` get this error."""

    code = 403

    def __init__(self, mechanism: str) -> None:
        super().__init__(
            f"Login was refused using authentication mechanism {mechanism}. "
            "For details see the broker logfile."
        )


class FrameError(ConnectionException):
    """An oversized frame, an ill-formed heartbeat, a content header of the wrong class."""

    code = 501


class FieldSyntaxError(ConnectionException):
    """A frame's fields break the grammar (§4.2.1).

    §4.2.5.5 says "503 (syntax error)", but the tables name 502 the syntax error, which is used here.
    """

    code = 502


class UnexpectedMethodError(ConnectionException):
    """Command invalid: the method is not allowed now, or not on this channel."""

    code = 503


class ChannelNumberError(ConnectionException):
    """Channel error: a frame for a channel that is not open, or a channel.open for one that is."""

    code = 504


class UnexpectedFrameError(ConnectionException):
    """A content frame where another frame must come, or another frame where a content frame must come."""

    code = 505


class ResourceExhaustedError(ConnectionException):
    """The client asks the server to hold more than its limits admit."""

    code = 506


class NotAllowedError(ConnectionException):
    """The client may not do this: for example a consumer tag is in use, or there are too many channels."""

    code = 530


class UnsupportedError(ConnectionException):
    """The server does not implement the method, or an argument of it."""

    code = 540


class FramingError(Exception):
    """The octets are no frames: the socket is closed without any further data (§4.2.3)."""
