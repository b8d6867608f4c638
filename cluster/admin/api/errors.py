"""The management API's answers to requests that it refuses, in RabbitMQ's words."""

from __future__ import annotations

from typing import Any

from node.refusal import AccessRefusedError, NotFoundError, Refusal

RESTARTED_CODE = 541
"""The reply code of a request that the cluster could not decide. The client may repeat the request."""


class ApiError(Exception):
    """Becomes an answer with `status` and a body of `error` and `reason`, and of further `facts`."""

    def __init__(self, status: int, error: str, reason: Any, **facts: Any) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.facts = facts

    @property
    def body(self) -> dict[str, Any]:
        return {"error": self.error, "reason": self.reason, **self.facts}


def bad_request(reason: Any) -> ApiError:
    return ApiError(400, "bad_request", reason)


def no_such_object() -> ApiError:
    return ApiError(404, "Object Not Found", "Not Found")


def not_authorised(reason: str) -> ApiError:
    """401: the user is known and lacks the right."""
    return ApiError(401, "not_authorised", reason)


def api_error_of(refusal: Refusal) -> ApiError:
    """The answer to a request whose command fails with this reply code of AMQP."""
    if refusal.code == NotFoundError.code:
        return ApiError(404, "not_found", str(refusal))
    if isinstance(refusal, AccessRefusedError):
        return not_authorised("Access refused.")
    if refusal.code == RESTARTED_CODE:
        return ApiError(503, "service_unavailable", str(refusal))
    return bad_request(str(refusal))
