"""Nodes of a test that take access tokens."""

from __future__ import annotations

from typing import Final

from tests.cluster.token_issuer import AUDIENCE, ISSUER, write_keys
from tests.processes.nodes import Node

SKEW_S: Final = 1


def take_tokens(node: Node) -> None:
    """Have a node that is not started yet take tokens of the issuer, whose keys lie beside its data."""
    tables = node.configured()
    keys = write_keys(node.local.file.parent, "ES256")
    tables["cluster"]["tokens"] = {"issuer": ISSUER, "audience": AUDIENCE, "clock_skew_s": SKEW_S}
    tables["node"]["tokens"] = {"jwks": str(keys)}
    tables["node"]["log_level"] = "debug"
    node.replace_configuration(tables)
