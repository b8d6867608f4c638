"""Checks the login of a session's client, and its later secrets."""

from __future__ import annotations

from collections.abc import Callable

from node.session.amqp091.amqplain import parse_response
from node.session.core import SessionCore
from node.session.logins import MalformedResponseError
from node.session.permissions import IMPERSONATOR
from node.session.ports import Identity
from node.session.transport import Transport
from node.wire.amqp091 import effects
from node.wire.amqp091.connection import Connection


class Authentication:
    """Passes logins to the broker and answers to the protocol machine; calls `answered` after each answer."""

    def __init__(
        self, core: SessionCore, transport: Transport, connection: Connection, answered: Callable[[], None]
    ) -> None:
        self._core = core
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
                connection.authenticated(identity.user, impersonates=IMPERSONATOR in identity.tags)
            self._answered()

        self._core.log_in(login, self._transport.remote, authenticated)

    def update_secret(self, _: effects.UpdateSecret) -> None:
        """Check again whether the user may log in. The secret is ignored: it renews tokens, which expire, and
        the proofs that this broker takes at login do not expire.
        """

        def verified(identity: Identity | None, reason: str) -> None:
            if not self._core.ended:
                self._connection.secret_checked(identity is not None)
                self._answered()

        self._core.check_user(self._connection.life.user, self._transport.remote, verified)
