"""The error conditions of AMQP 1.0 for refusals of the broker (part 2, section 2.8.15)."""

from __future__ import annotations

from typing import Final

from node.refusal import (
    AccessRefusedError,
    EntryRefusedError,
    HomeNodeDownError,
    NotFoundError,
    NotImplementedRefusal,
    OutsideDomainError,
    PreconditionFailedError,
    Refusal,
    ResourceError,
    ResourceLockedError,
)
from node.wire.amqp10.definitions import AmqpCondition, Error

CONDITIONS: Final[dict[type[Refusal], AmqpCondition]] = {
    AccessRefusedError: AmqpCondition.UNAUTHORIZED_ACCESS,
    NotFoundError: AmqpCondition.NOT_FOUND,
    HomeNodeDownError: AmqpCondition.NOT_FOUND,
    OutsideDomainError: AmqpCondition.NOT_FOUND,
    ResourceLockedError: AmqpCondition.RESOURCE_LOCKED,
    PreconditionFailedError: AmqpCondition.PRECONDITION_FAILED,
    EntryRefusedError: AmqpCondition.NOT_ALLOWED,
    ResourceError: AmqpCondition.RESOURCE_LIMIT_EXCEEDED,
    NotImplementedRefusal: AmqpCondition.NOT_IMPLEMENTED,
}
"""The condition of each type of refusal. Types that derive from one of these have its condition."""


def refusal_error(refusal: Refusal) -> Error:
    """The error that tells the peer of the refusal."""
    for kind, condition in CONDITIONS.items():
        if isinstance(refusal, kind):
            return Error(condition, str(refusal))
    return Error(AmqpCondition.INTERNAL_ERROR, str(refusal))
