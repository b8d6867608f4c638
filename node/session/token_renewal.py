"""Renews the access token of an open connection: the client brings a new one, of the same user."""

from __future__ import annotations

from node.refusal import Refusal
from node.session.core import SessionCore
from node.session.logins import CertifiedLogin, TokenLogin
from node.session.permissions import IMPERSONATOR
from node.session.ports import Authenticated, Identity


class TokenRenewal:
    """The identity of a connection's client, and the tokens that renew it. A token that is refused changes
    nothing: the one before counts on.
    """

    def __init__(self, core: SessionCore) -> None:
        self.identity = Identity("")
        """The identity of the client, once it has logged in."""
        self._core = core

    @property
    def by_token(self) -> bool:
        """Whether the client has logged in by a token, and so may bring another one."""
        return self.identity.rights is not None

    def check_user(self, remote: str, answer: Authenticated) -> None:
        """Check whether a user who has logged in without a token may still do so."""
        self._core.log_in(CertifiedLogin(self.identity.user), remote, answer)

    def renew(self, token: str, remote: str, answer: Authenticated) -> None:
        """Check a token, and give the connection its rights. To be called only for a client `by_token`."""

        def authenticated(identity: Identity | None, reason: str) -> None:
            if self._core.ended:
                return
            mistake = reason if identity is None else self._taken(identity)
            answer(None if mistake else identity, mistake)

        self._core.log_in(TokenLogin(token), remote, authenticated)

    def _taken(self, identity: Identity) -> str:
        """Take the identity of a right token; returns what keeps it from counting, or nothing."""
        before = self.identity
        if identity.user != before.user:
            return f"user '{before.user}' - the new token is of user '{identity.user}'"
        if (IMPERSONATOR in identity.tags) != (IMPERSONATOR in before.tags):
            return f"user '{before.user}' - the new token gives or takes the tag {IMPERSONATOR}"
        try:
            self._core.change_rights(identity)
        except Refusal as refusal:
            return str(refusal)
        self.identity = identity
        return ""
