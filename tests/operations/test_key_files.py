"""A node looks at the files of its keys now and then, and keeps what it had where they cannot be used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.config.tables import ConfigError
from cluster.config.token_settings import TokenKeyFiles, TokenSettings
from cluster.process.key_files import LOOK_INTERVAL_S, KeyFiles
from tests.cluster.token_issuer import AUDIENCE, ISSUER, jwk, write_keys


class Log:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str) -> None:
        self.events.append(event)

    def error(self, event: str, reason: str) -> None:
        assert reason
        self.events.append(event)


def key_files(tokens: TokenKeyFiles | None) -> tuple[KeyFiles, Log]:
    log: Any = Log()
    config: Any = SimpleNamespace(tls=None, tokens=tokens)
    return KeyFiles(config, log), log


def test_files_that_have_changed_are_read_again_after_a_while(tmp_path: Path) -> None:
    path = write_keys(tmp_path, "ES256")
    files, log = key_files(TokenKeyFiles(jwks=path))
    keys = files.token_keys
    assert keys is not None
    files.tick(0.0)
    path.write_text(json.dumps({"keys": [jwk("EdDSA")]}))
    os.utime(path, ns=(1, 1))
    files.tick(LOOK_INTERVAL_S / 2)
    assert keys.find("EdDSA") is None and log.events == []
    files.tick(LOOK_INTERVAL_S)
    assert keys.find("EdDSA") is not None and log.events == ["token_keys_loaded"]
    path.write_text("torn")
    os.utime(path, ns=(2, 2))
    files.tick(2 * LOOK_INTERVAL_S)
    files.tick(3 * LOOK_INTERVAL_S)
    assert log.events[1:] == ["token_keys_unusable"], "it is told once"
    assert keys.find("EdDSA") is not None
    files.reload()
    assert log.events[2:] == ["token_keys_unusable"]


def test_a_node_without_files_takes_no_tokens_and_does_not_start_with_bad_ones(tmp_path: Path) -> None:
    settings = TokenSettings(issuer=ISSUER, audience=AUDIENCE)
    files, log = key_files(None)
    files.tick(0.0)
    files.reload()
    assert files.token_checks(None, lambda: 0) is files.token_checks(settings, lambda: 0) is None
    assert log.events == []
    with pytest.raises(ConfigError):
        key_files(TokenKeyFiles(jwks=tmp_path / "absent"))
