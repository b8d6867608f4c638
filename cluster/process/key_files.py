"""The files of a node's certificate, and of the keys that sign access tokens: read again when they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster.catalog.access.tokens import TokenChecks
from cluster.config.certificates import Certificates
from cluster.config.models import NodeConfig
from cluster.config.tables import ConfigError
from cluster.config.token_keys import TokenKeys
from cluster.config.token_settings import TokenSettings
from cluster.log.event_log import EventLog

LOOK_INTERVAL_S: Final = 5.0
"""Seconds between two looks at the files: an operator who replaces them need not tell the node."""


class KeyFiles:
    """The files of a node, as the node has read them last: `certificates` and `token_keys`, each None where
    the configuration has none.

    Open connections keep their certificate, and go on with tokens that were signed by keys of before. Raises
    ConfigError for files that cannot be used at the start.
    """

    def __init__(self, config: NodeConfig, log: EventLog) -> None:
        self.certificates = None if config.tls is None else Certificates(config.tls)
        self.token_keys = None if config.tokens is None else TokenKeys(config.tokens)
        self.log = log
        self._next_look = 0.0

    def token_checks(self, settings: TokenSettings | None, wall_ms: Callable[[], int]) -> TokenChecks | None:
        """The checks of tokens by these keys; None where the configuration takes no tokens."""
        if settings is None or self.token_keys is None:
            return None
        return TokenChecks(settings, self.token_keys, wall_ms)

    def tick(self, now: float) -> None:
        """Look at the files now and then. Called every few milliseconds."""
        if now < self._next_look:
            return
        self._next_look = now + LOOK_INTERVAL_S
        if self.certificates is not None and self.certificates.files.changed:
            self._reload_certificates(self.certificates)
        if self.token_keys is not None and self.token_keys.files.changed:
            self._reload_token_keys(self.token_keys)

    def reload(self) -> None:
        """Read all files again."""
        if self.certificates is not None:
            self._reload_certificates(self.certificates)
        if self.token_keys is not None:
            self._reload_token_keys(self.token_keys)

    def _reload_certificates(self, certificates: Certificates) -> None:
        try:
            certificates.reload()
        except ConfigError as error:
            self.log.error("certificates_unusable", reason=str(error))
        else:
            self.log.info("certificates_loaded")

    def _reload_token_keys(self, keys: TokenKeys) -> None:
        try:
            keys.reload()
        except ConfigError as error:
            self.log.error("token_keys_unusable", reason=str(error))
        else:
            self.log.info("token_keys_loaded")
