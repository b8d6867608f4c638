"""The errors of a 0-9-1 connection. The type of an exception states its reply code and what it ends.

A channel exception closes the channel that it happened on, a connection exception the connection
(§4.8). Codes are those of the protocol tables (`methods.ReplyCode`); `FramingError` has none because
§4.2.3 forbids to send anything after it.
"""

from __future__ import annotations

from typing import ClassVar, Protocol


class Failure(Protocol):
    """The causes that close a channel or connection: these exceptions, and the engine's refusals.

    `str(failure)` is the reply text; the client gets at most 255 octets of it.
    """

    @property
    def code(self) -> int: ...
    @property
    def ends_connection(self) -> bool: ...


class ProtocolException(Exception):
    """An exception of the protocol; `method` is the class id and method id that led to it, if any."""

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
    """The user-id of a message is another's than the user's who publishes it."""

    code = 406


class ReplyConsumerError(ChannelException):
    """Direct reply-to is asked for in a way that does not work (see `reply_to`)."""

    code = 406


class UnknownDeliveryTagError(ChannelException):
    """The delivery tag is none of an unsettled delivery of the channel."""

    code = 406


class ExpirationError(ChannelException):
    """The expiration property is no number of milliseconds that the server takes."""

    code = 406


class ChannelModeError(ChannelException):
    """The method does not fit the mode that the channel is in: transactions, confirms or neither."""

    code = 406


class ConnectionForcedError(ConnectionException):
    """The operator, or a shutdown, closes the connection."""

    code = 320


class LoginRefusedError(ConnectionException):
    """The credentials are wrong; only clients with `authentication_failure_close` are told."""

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
    """A frame's fields are not what the grammar says (§4.2.1).

    §4.2.5.5 calls for "503 (syntax error)"; the tables call 502 syntax error, and that is meant.
    """

    code = 502


class UnexpectedMethodError(ConnectionException):
    """Command invalid: a method that must not come now, or not on this channel."""

    code = 503


class ChannelNumberError(ConnectionException):
    """Channel error: a frame for a channel that is not open, or an opening of one that is."""

    code = 504


class UnexpectedFrameError(ConnectionException):
    """A content frame where none belongs, or none where one belongs."""

    code = 505


class ResourceExhaustedError(ConnectionException):
    """The client demands more than the server can hold."""

    code = 506


class NotAllowedError(ConnectionException):
    """The client may not do this at all: no access to the virtual host, a consumer tag in use, ..."""

    code = 530


class UnsupportedError(ConnectionException):
    """The server does not implement this."""

    code = 540


class FramingError(Exception):
    """The octets are no frames: the socket is closed without any further data (§4.2.3)."""
