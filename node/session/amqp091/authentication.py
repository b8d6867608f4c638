"""Checks the login of a session's client, and its later secrets."""

from __future__ import annotations

from collections.abc import Callable

from node.session.amqp091.amqplain import parse_response
from node.session.core import SessionCore
from node.session.logins import MalformedResponseError
from node.session.permissions import IMPERSONATOR
from node.session.ports import Identity
from node.session.token_renewal import TokenRenewal
from node.session.transport import Transport
from node.wire.amqp091 import effects
from node.wire.amqp091.connection import Connection


class Authentication:
    """Passes logins and renewals to the broker, and answers to the protocol machine."""

    def __init__(
        self,
        core: SessionCore,
        renewal: TokenRenewal,
        transport: Transport,
        connection: Connection,
        answered: Callable[[Identity | None], None],
    ) -> None:
        """`answered` is called with the identity that counts from now on, or None after a refusal."""
        self._core = core
        self._renewal = renewal
        self._transport = transport
        self._connection = connection
        self._answered = answered

    def log_in(self, effect: effects.Authenticate) -> None:
        """Check the client's response to Start or Secure."""
        connection = self._connection
        try:
            login = parse_response(effect.mechanism, effect.response, self._transport.certified_name)
        except MalformedResponseError as error:
            connection.refused(str(error))
            return

        def authenticated(identity: Identity | None, reason: str) -> None:
            if identity is None:
                connection.refused(reason)
            else:
                self._renewal.identity = identity
                connection.authenticated(identity.user, impersonates=IMPERSONATOR in identity.tags)
            self._answered(identity)

        self._core.log_in(login, self._transport.remote, authenticated)

    def update_secret(self, effect: effects.UpdateSecret) -> None:
        """Take a new token. For a client without a token, whose proof does not expire, the secret is ignored:
        the node checks again whether the user may log in.
        """

        def verified(identity: Identity | None, reason: str) -> None:
            if not self._core.ended:
                if identity is None and self._renewal.by_token:
                    self._transport.log("token_refused", {"reason": reason})
                self._connection.secret_checked(identity is not None)
                self._answered(identity)

        if self._renewal.by_token:
            token = effect.secret.decode("utf-8", "surrogateescape")
            self._renewal.renew(token, self._transport.remote, verified)
        else:
            self._renewal.check_user(self._transport.remote, verified)
