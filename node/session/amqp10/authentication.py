"""Log-ins of AMQP 1.0: SASL mechanisms of one response, and SCRAM with several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from node.session.core import SessionCore
from node.session.logins import Login, MalformedResponseError, ScramLogin, parse_login
from node.session.ports import BrokerPort, Identity
from node.session.transport import Transport
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.effects import AnswerChallenge, Authenticate
from node.wire.scram import SCRAM_SHA_256, ScramError, ScramExchange, ScramStage

LoginAnswered = Callable[[bytes | None, Identity | None, str], None]
"""Called with the last message of the mechanism to the client, and the answer of the broker."""


class Authentication:
    """Passes log-ins to the broker. `answered` is called at once or in a later turn."""

    def __init__(
        self,
        port: BrokerPort,
        core: SessionCore,
        transport: Transport,
        connection: Connection,
        answered: LoginAnswered,
    ) -> None:
        self._port = port
        self._core = core
        self._transport = transport
        self._connection = connection
        self._answered = answered
        self._exchange: ScramExchange | None = None

    def log_in(self, effect: Authenticate) -> None:
        """Check the response in sasl-init."""
        if effect.mechanism == SCRAM_SHA_256:
            self._exchange = exchange = self._port.begin_scram()
            self._step(exchange, effect.response)
            return
        try:
            login = parse_login(effect.mechanism, effect.response, self._transport.certified_name)
        except MalformedResponseError as error:
            self._connection.login_refused(str(error))
            return
        self._check(login, None)

    def go_on(self, effect: AnswerChallenge) -> None:
        """Check a later response."""
        assert self._exchange is not None, "only SCRAM has challenges"
        self._step(self._exchange, effect.response)

    def _step(self, exchange: ScramExchange, message: bytes) -> None:
        try:
            answer = exchange.receive(message)
        except ScramError as error:
            self._exchange = None
            claimed = f"user '{exchange.user}' - " if exchange.user else ""
            self._connection.login_refused(f"{claimed}{error}")
            return
        if exchange.stage is not ScramStage.DONE:
            self._connection.challenge(answer)
            return
        self._exchange = None
        assert exchange.verifier is not None
        self._check(ScramLogin(exchange.user, exchange.verifier), answer)

    def _check(self, login: Login, final: bytes | None) -> None:
        self._core.log_in(login, self._transport.remote, partial(self._answered, final))
