"""Who the client of a session is: the login, and secrets that replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.session.logins import CertifiedLogin, MalformedResponseError, parse_login
from node.session.permissions import IMPERSONATOR
from node.session.ports import BrokerPort, Identity
from node.wire.amqp091 import effects

if TYPE_CHECKING:
    from node.session.amqp091.session import Session
    from node.session.transport import Transport


class Authentication:
    """Asks the broker, and tells the session's protocol machine."""

    def __init__(self, port: BrokerPort, transport: Transport, session: Session) -> None:
        self._port = port
        self._transport = transport
        self._session = session

    def log_in(self, effect: effects.Authenticate) -> None:
        """The client's response to Start or Secure."""
        session = self._session
        try:
            login = parse_login(effect.mechanism, effect.response, self._transport.certified_name)
        except MalformedResponseError as error:
            session.connection.refused(str(error))
            return

        def authenticated(identity: Identity | None, reason: str) -> None:
            if identity is None:
                session.connection.refused(reason)
            else:
                session.connection.authenticated(identity.user, impersonates=IMPERSONATOR in identity.tags)
            session.answered()
            session.stop_when_full()

        self._port.authenticate(login, self._transport.remote, authenticated)

    def update_secret(self, _: effects.UpdateSecret) -> None:
        """Whether the user is still let in is asked anew. The secret is not looked at, as in RabbitMQ: it is
        there for tokens, which lapse; what proved at login who the client is does not."""
        session = self._session

        def verified(identity: Identity | None, reason: str) -> None:
            if not session.closed:
                session.connection.secret_checked(identity is not None)
                session.answered()

        self._port.authenticate(CertifiedLogin(session.user), self._transport.remote, verified)
