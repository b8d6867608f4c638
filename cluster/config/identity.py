"""The names that a node gives AMQP clients: server-properties of connection.start, properties of Open."""

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


AMQP10_VERSION: Final = "4.1.0"
"""The release of RabbitMQ whose addresses, management and outcomes of AMQP 1.0 quorate follows. RabbitMQ's
clients of AMQP 1.0 insist on 4.0, and ask for more than quorate has from 4.2 on.
"""


def version() -> str:
    """The version of this package; "0" in a source tree that was never installed."""
    try:
        return installed_version("quorate")
    except PackageNotFoundError:
        return "0"


def server_properties(
    product: ServerProduct, cluster: str, node: str, dialect: str = DIALECT_VERSION
) -> dict[str, str]:
    """The server-properties of connection.start, and the properties of Open. Product and version are as
    configured, with `dialect` as RabbitMQ's version; `platform` names quorate and its version in any case.
    """
    return {
        "product": product,
        "version": dialect if product == RABBITMQ else version(),
        "platform": f"quorate {version()}, Python {platform.python_version()}",
        "cluster_name": cluster,
        "node": node,
        "copyright": "the authors of quorate",
        "information": "Licensed under the Apache License 2.0",
    }
