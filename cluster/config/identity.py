"""The names and capabilities that a node gives AMQP clients (server-properties of connection.start)."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Final

from cluster.config.models import ServerProduct

RABBITMQ: Final = "RabbitMQ"
DIALECT_VERSION: Final = "3.13.7"
"""The release of RabbitMQ whose reading of 0-9-1 quorate follows: the last one with basic.qos's global
flag."""


def version() -> str:
    """The version of this package; "0" in a source tree that was never installed."""
    try:
        return installed_version("quorate")
    except PackageNotFoundError:
        return "0"


def server_properties(product: ServerProduct, cluster: str, node: str) -> dict[str, str]:
    """The server-properties of connection.start. Product and version are as configured; `platform` names
    quorate and its version in any case.
    """
    return {
        "product": product,
        "version": DIALECT_VERSION if product == RABBITMQ else version(),
        "platform": f"quorate {version()}, Python {platform.python_version()}",
        "cluster_name": cluster,
        "node": node,
        "copyright": "the authors of quorate",
        "information": "Licensed under the Apache License 2.0",
    }
