"""The errors of AMQP 1.0. The type of an exception states the error condition that the peer is told (part 2,
section 2.8), and the endpoint that the error ends.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Ends(Enum):
    """The endpoint that an error ends, with all that is inside."""

    CONNECTION = "connection"
    SESSION = "session"
    LINK = "link"


class WireError(Exception):
    """The octets of a peer break the protocol. `str(error)` is the description that the peer is told."""

    condition: ClassVar[str]
    ends: ClassVar[Ends]


class FrameBoundsError(WireError):
    """The octets are no frames: the size, the data offset or the type of a frame is wrong (section 2.3.1)."""

    condition = "amqp:connection:framing-error"
    ends = Ends.CONNECTION


class FrameTooLargeError(FrameBoundsError):
    """The frame is larger than its receiver accepts (section 2.7.1)."""


class FrameSizeTooSmallError(WireError):
    """The server's performative does not fit into the largest frame that the peer accepts."""

    condition = "amqp:frame-size-too-small"
    ends = Ends.CONNECTION


class ValueSyntaxError(WireError):
    """The octets are no value of the type system, or not the value that stands here."""

    condition = "amqp:decode-error"
    ends = Ends.CONNECTION


class FieldChoiceError(WireError):
    """The value of a field is none of its type's choices."""

    condition = "amqp:invalid-field"
    ends = Ends.CONNECTION


class ValueBoundsError(WireError):
    """A value is nested deeper, or has more parts, than the server decodes."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.CONNECTION


class TokenExpiredError(WireError):
    """The access token by which the peer has logged in counts no more."""

    condition = "amqp:unauthorized-access"
    ends = Ends.CONNECTION


class SectionError(WireError):
    """The sections of a message break the message format (part 3, section 3.2). Other links go on."""

    condition = "amqp:decode-error"
    ends = Ends.LINK


class SectionBoundsError(SectionError):
    """The message has more sections than the server looks through."""

    condition = "amqp:resource-limit-exceeded"


class EndpointStateError(WireError):
    """The peer sends what the state of the connection, or of a channel, does not admit (section 2.4.6)."""

    condition = "amqp:illegal-state"
    ends = Ends.CONNECTION


class ChannelBoundsError(WireError):
    """The peer uses a channel above the agreed channel-max (section 2.4.1), or a handle above the handle-max
    of its session (section 2.7.2).
    """

    condition = "amqp:connection:framing-error"
    ends = Ends.CONNECTION


class NoChannelError(WireError):
    """All channels of the node have a session, one of which the node has begun itself (section 2.5.1)."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.CONNECTION


class MemoryExhaustedError(WireError):
    """The peer makes the node hold more memory than the node grants to a connection."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.CONNECTION


class ConnectionForcedError(WireError):
    """The operator, or a shutdown, closes the connection."""

    condition = "amqp:connection:forced"
    ends = Ends.CONNECTION


class IdleTimeOutError(WireError):
    """No frame has come from the peer within the idle time-out (section 2.4.5)."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.CONNECTION


class WindowViolationError(WireError):
    """The peer has sent more transfer frames than the incoming window admits (section 2.5.6)."""

    condition = "amqp:session:window-violation"
    ends = Ends.SESSION


class UnattachedHandleError(WireError):
    """A frame names a handle to which no link is attached (section 2.6.2)."""

    condition = "amqp:session:unattached-handle"
    ends = Ends.SESSION


class HandleInUseError(WireError):
    """An attach names a handle to which another link is attached (section 2.7.3)."""

    condition = "amqp:session:handle-in-use"
    ends = Ends.SESSION


class DeliveryFieldError(WireError):
    """A transfer has no delivery-id or delivery-tag where the transfer must have them, or others than the
    delivery that the transfer continues (section 2.7.5).
    """

    condition = "amqp:invalid-field"
    ends = Ends.SESSION


class TransferLimitError(WireError):
    """The peer has sent more deliveries than the link's credit admits (section 2.6.7)."""

    condition = "amqp:link:transfer-limit-exceeded"
    ends = Ends.LINK


class ForgedUserIdError(WireError):
    """A message's user-id is another user than the one who has logged in (part 3, section 3.2.4)."""

    condition = "amqp:unauthorized-access"
    ends = Ends.LINK


class MessageTooLargeError(WireError):
    """The message is larger than the max-message-size of the link (section 2.7.3)."""

    condition = "amqp:link:message-size-exceeded"
    ends = Ends.LINK


class AnnotationBoundsError(WireError):
    """The annotations that a peer gives a message with the outcome modified are more than the node keeps."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.LINK


class LinkStolenError(WireError):
    """Another link of the same name and role takes the place of the link (section 2.6.1)."""

    condition = "amqp:link:stolen"
    ends = Ends.LINK


class AddressError(WireError):
    """The address of a terminus, or of a message, has none of the forms that name a node here."""

    condition = "amqp:invalid-field"
    ends = Ends.LINK


class UnknownTransactionError(WireError):
    """A frame names a transaction that is not declared, or is discharged already (part 4, section 4.5.8)."""

    condition = "amqp:transaction:unknown-id"
    ends = Ends.SESSION

    def __init__(self, txn_id: bytes) -> None:
        super().__init__(f"no transaction {txn_id[:32].hex()}")


class TransactionLimitError(WireError):
    """The connection has more transactions than the node grants to it."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.LINK


class DistributedTransactionError(WireError):
    """A declare has a global-id: the transaction is to be a part of another one (part 4, section 4.5.3)."""

    condition = "amqp:not-implemented"
    ends = Ends.LINK


class UnknownDischargeError(UnknownTransactionError):
    """A discharge names such a transaction."""

    ends = Ends.LINK


class RolledBackError(WireError):
    """A transaction cannot be committed, and is rolled back (part 4, section 4.5.8)."""

    condition = "amqp:transaction:rollback"
    ends = Ends.LINK


class UnfinishedPostError(RolledBackError):
    """A discharge commits a transaction in which a delivery has frames to come (part 4, section 4.4.1)."""


class ControlMessageError(WireError):
    """The coordinator cannot read the message, or does not implement it."""

    condition = "amqp:not-implemented"
    ends = Ends.LINK


class PresettledControlError(WireError):
    """A message to the coordinator is settled, so that the peer would not learn its outcome (part 4, section
    4.2).
    """

    condition = "amqp:not-allowed"
    ends = Ends.LINK


class FilterError(WireError):
    """A filter of a source that the node knows does not parse (part 3, section 3.5.8)."""

    condition = "amqp:invalid-field"
    ends = Ends.LINK


class SubscriptionFilterError(WireError):
    """A source that is an exchange has a filter."""

    condition = "amqp:not-implemented"
    ends = Ends.LINK


class IncompleteUnsettledError(WireError):
    """The peer attaches a link again with a part of its unsettled deliveries (section 2.7.3)."""

    condition = "amqp:not-implemented"
    ends = Ends.LINK


class MissingTerminusError(WireError):
    """The peer attaches a link without the source or target that names the node (section 2.6.3)."""

    condition = "amqp:invalid-field"
    ends = Ends.LINK
