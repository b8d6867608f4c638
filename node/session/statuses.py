"""The status of a refusal in an answer to a request that came as a message: HTTP's numbers."""

from __future__ import annotations

from typing import Final

from node.refusal import (
    AccessRefusedError,
    HomeNodeDownError,
    NotFoundError,
    NotImplementedRefusal,
    OutsideDomainError,
    PreconditionFailedError,
    Refusal,
    ResourceLockedError,
)

NOT_IMPLEMENTED: Final = 501

_STATUS: Final[dict[type[Refusal], int]] = {
    AccessRefusedError: 403,
    NotFoundError: 404,
    HomeNodeDownError: 404,
    OutsideDomainError: 404,
    ResourceLockedError: 409,
    PreconditionFailedError: 409,
    NotImplementedRefusal: NOT_IMPLEMENTED,
}


def status_of(refusal: Refusal, otherwise: int) -> int:
    """The status of a refusal; `otherwise` for the types that have none of their own."""
    return next((code for kind, code in _STATUS.items() if isinstance(refusal, kind)), otherwise)
