"""Names that the management API writes otherwise than AMQP, and the virtual hosts that a user may see."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from cluster.admin.api.call import Call
from cluster.admin.api.errors import no_such_object
from cluster.admin.api.services import Services
from node.routing.exchange import DEFAULT_EXCHANGE
from node.routing.matching import normal_table
from node.session.permissions import DEFAULT_EXCHANGE_ALIAS

NO_PROPERTIES: Final = "~"
_DIGEST_OCTETS: Final = 6


def exchange_name(name: str) -> str:
    """The default exchange has no name; paths call it `amq.default`."""
    return DEFAULT_EXCHANGE if name == DEFAULT_EXCHANGE_ALIAS else name


def properties_key(routing_key: str, arguments: Mapping[str, Any]) -> str:
    """The name of a binding among those of one source and destination: routing key, and digest of arguments.

    As in RabbitMQ, but for the digest, which is opaque there, too.
    """
    quoted = quote_plus(routing_key.encode("utf-8", "surrogateescape")).replace("~", "%7E")
    if not arguments:
        return quoted or NO_PROPERTIES
    digest = hashlib.blake2b(repr(normal_table(arguments)).encode(), digest_size=_DIGEST_OCTETS).digest()
    return f"{quoted}{NO_PROPERTIES}{base64.urlsafe_b64encode(digest).decode()}"


def visible_vhosts(services: Services, call: Call) -> list[str]:
    """The virtual host in the path, or all that the user may see."""
    if "vhost" in call.path:
        return [call.vhost]
    return [name for name in services.state.vhosts if sees(services, call, name)]


def sees(services: Services, call: Call, vhost: str) -> bool:
    return call.monitors or services.access.may_enter(call.identity, vhost)


def shows(call: Call, row: dict[str, Any]) -> bool:
    """Whether the user may see a connection or a channel: users see their own."""
    return call.monitors or row["user"] == call.user


def found(value: Any) -> Any:
    """The value, which must be there. Raises ApiError (404)."""
    if value is None:
        raise no_such_object()
    return value
