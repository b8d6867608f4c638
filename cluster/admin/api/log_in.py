"""Log-ins over HTTP: each request brings a name and a password, or an access token."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextvars
from collections import Counter
from typing import Final

from aiohttp import web

from cluster.admin.api.errors import ApiError
from cluster.admin.api.services import Services
from node.session.gate import origin_of
from node.session.logins import PasswordLogin, TokenLogin
from node.session.ports import Identity

CHECKED_AT_ONCE: Final = 8
"""Passwords of one origin hashed for HTTP at a time; a request with a further one is refused (429)."""


class LoginError(ApiError):
    """The name and password are no user's, or the token is refused; the client is asked to log in (401)."""

    def __init__(self) -> None:
        super().__init__(401, "not_authorized", "Login failed")


class LogIn:
    """Log-ins of one node over HTTP."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._checked: Counter[str] = Counter()

    async def identity(self, request: web.Request) -> Identity:
        """Raises LoginError, and ApiError where an address fails too often or asks too much at once."""
        login = _credentials(request.headers.get("Authorization", ""))
        remote = request.remote or ""
        if self._services.shut_out(remote):
            raise _too_many("failed logins")
        origin = origin_of(remote)
        if isinstance(login, TokenLogin) or self._services.access.recognises(login.user, login.password):
            # The answer comes at once: no hash is made.
            return await self._authenticated(login, remote, "")
        if self._checked[origin] >= CHECKED_AT_ONCE:
            # Only the hash tells whether a log-in fails: few hashes of an address are made at a time.
            raise _too_many("logins at once")
        return await self._authenticated(login, remote, origin)

    async def _authenticated(self, login: PasswordLogin | TokenLogin, remote: str, origin: str) -> Identity:
        answer: asyncio.Future[Identity | None] = asyncio.get_running_loop().create_future()
        self._checked[origin] += 1

        def authenticated(identity: Identity | None, reason: str) -> None:
            # The password is hashed even if the client goes away: the place is free after that.
            self._checked[origin] -= 1
            if not self._checked[origin]:
                del self._checked[origin]
            if identity is None:
                self._services.log.info("management_login_refused", remote=remote, reason=reason)
                self._services.login_failed(remote)
            if not answer.done():
                answer.set_result(identity)

        # The answer comes from where no request is known.
        context = contextvars.copy_context()
        self._services.access.log_in(login, remote, lambda *answered: context.run(authenticated, *answered))
        identity = await answer
        if identity is None:
            raise LoginError
        return identity


def _too_many(what: str) -> ApiError:
    return ApiError(429, "too_many_requests", f"too many {what}; try again later")


def _credentials(header: str) -> PasswordLogin | TokenLogin:
    """A name and a password (RFC 7617), or an access token (RFC 6750). Raises LoginError."""
    kind, _, encoded = header.partition(" ")
    if kind.lower() == "bearer":
        return TokenLogin(encoded.strip())
    try:
        if kind.lower() != "basic":
            raise ValueError
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        if not colon:
            raise ValueError
    except (binascii.Error, ValueError):
        raise LoginError from None
    return PasswordLogin(user, password)
