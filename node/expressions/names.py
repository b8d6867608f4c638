"""The names of properties in expressions, by dialect (requirement E8; seed 000, section 5.3).

A name has a domain: `amqp.` for the fields that AMQP defines, `amqpx.<vendor>.` for extensions of a vendor,
`application.` for the properties that applications set. Where a selector leaves the domain out, the name is
that of a standard property if there is one, else that of an extension of this node, else that of an
application's property. The fields of a message's header are no properties in the sense of seed 000 (section
4.2), so they have no names without a domain: an application's own `priority` stays in reach.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from node.expressions.nodes import APPLICATION, EXTENSION, STANDARD, Node

HEADER_FIELDS: Final = frozenset(("durable", "priority", "ttl"))
"""Fields of the header. `first-acquirer` and `delivery-count` are left out: they belong to a delivery, and a
filter is asked once for each message.
"""

PROPERTY_FIELDS: Final = frozenset(
    (
        "message_id",
        "user_id",
        "to",
        "subject",
        "reply_to",
        "correlation_id",
        "content_type",
        "content_encoding",
        "absolute_expiry_time",
        "creation_time",
        "group_id",
        "group_sequence",
        "reply_to_group_id",
    )
)
"""Fields of the properties (AMQP 1.0, part 3, section 3.2.4)."""

DELIVERY_MODE: Final = "delivery_mode"
"""Stands for `durable` under its name in JMS, with the values 'PERSISTENT' and 'NON_PERSISTENT'."""

JMS_NAMES: Final = {
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "JMSPriority": "priority",
    "JMSTimestamp": "creation_time",
    "JMSType": "subject",
    "JMSDeliveryMode": DELIVERY_MODE,
    "JMSExpiration": "absolute_expiry_time",
    "JMSDestination": "to",
    "JMSReplyTo": "reply_to",
    "JMSXGroupID": "group_id",
    "JMSXGroupSeq": "group_sequence",
    "JMSXUserID": "user_id",
}
"""Fields by their names in JMS."""

JMS_DELIVERY_NAMES: Final = frozenset(("JMSRedelivered", "JMSXDeliveryCount"))
"""Names in JMS for facts of a delivery, which no filter can ask for."""

VENDOR: Final = "quorate"
EXTENSIONS: Final = frozenset(("x_exchange", "x_routing_key"))
"""Extensions of this node: exchange and routing key of the publish."""


class Dialect(IntEnum):
    """The languages in which clients write expressions.

    SELECTOR is that of JMS, SQL is that of the OASIS filter expressions. QUEUE is that of the arguments of
    queues and consumers: it has the names of SELECTOR, paths into the body, and functions.
    """

    SELECTOR = 1
    SQL = 2
    QUEUE = 3


class UnknownNameError(ValueError):
    """There is no property with the name."""


_SECTIONS: Final = {
    "h": HEADER_FIELDS,
    "header": HEADER_FIELDS,
    "p": PROPERTY_FIELDS,
    "properties": PROPERTY_FIELDS,
}
_APPLICATION_SECTIONS: Final = frozenset(("a", "application_properties"))


def resolved(dialect: Dialect, name: str, *, quoted: bool = False) -> Node:
    """The property that a name stands for. `quoted`: the name is delimited, and has no domain.

    Raises UnknownNameError.
    """
    if quoted:
        return Node(APPLICATION, name)
    domain, dot, rest = name.partition(".")
    if dialect is Dialect.SQL:
        return _of_section(name, domain, _bare(rest)) if dot else Node(APPLICATION, _bare(name))
    if dot and domain == "amqp":
        return _standard(name, rest.replace("-", "_"))
    if dot and domain == "amqpx":
        vendor, vendor_dot, extension = rest.partition(".")
        if not vendor_dot or (vendor == VENDOR and extension not in EXTENSIONS):
            raise UnknownNameError(f"there is no property {name}")
        return Node(EXTENSION, rest)
    if dot and domain == "application":
        return Node(APPLICATION, _bare(rest))
    return _inferred(_bare(name))


def _inferred(name: str) -> Node:
    """The property of a name without a domain."""
    if name in JMS_NAMES:
        return Node(STANDARD, JMS_NAMES[name])
    if name in JMS_DELIVERY_NAMES:
        raise UnknownNameError(f"{name} is no property of a message, but of a delivery")
    if name in PROPERTY_FIELDS:
        return Node(STANDARD, name)
    if name in EXTENSIONS:
        return Node(EXTENSION, f"{VENDOR}.{name}")
    return Node(APPLICATION, name)


def _standard(name: str, field: str) -> Node:
    if field not in HEADER_FIELDS and field not in PROPERTY_FIELDS:
        raise UnknownNameError(f"there is no property {name}")
    return Node(STANDARD, field)


def _of_section(name: str, section: str, rest: str) -> Node:
    """The property of a section, as the OASIS filter expressions name it."""
    fields = _SECTIONS.get(section)
    if fields is not None:
        field = rest.replace("-", "_")
        if field not in fields:
            raise UnknownNameError(f"there is no property {name}")
        return Node(STANDARD, field)
    return Node(APPLICATION, rest if section in _APPLICATION_SECTIONS else name)


def _bare(name: str) -> str:
    """A name without the brackets that delimit it."""
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name
