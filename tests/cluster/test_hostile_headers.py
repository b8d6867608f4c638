"""Headers of clients that imitate the broker's own: a queue keeps, delivers, returns and dead-letters every
confirmed message, and the node goes on.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.wire.amqp091 import methods as m
from node.wire.amqp091.fields import MAX_FIELDS, Timestamp
from node.wire.amqp091.property_values import encode_properties
from tests.cluster.kinds import KINDS, declare
from tests.site import CHANNEL, ChannelClosedError, Client, Site
from tests.wire.client import publish

QUEUE, GRAVE = "q", "grave"

INTEGERS = st.sampled_from((0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63)))
TEXTS = st.sampled_from(("", QUEUE, GRAVE, "expired", "k" * 300, "a\0b", "é"))
SCALARS = st.one_of(
    st.none(), st.booleans(), INTEGERS, TEXTS, st.just(0.5), st.just(b"\xff"), st.just(Timestamp(2**37))
)
DEATHS = st.fixed_dictionaries(
    {
        "queue": st.just(QUEUE) | SCALARS,
        "reason": st.sampled_from(("expired", "delivery_limit", "rejected", "maxlen")) | SCALARS,
        "count": INTEGERS | SCALARS,
    },
    optional={"exchange": SCALARS, "time": SCALARS, "routing-keys": SCALARS | st.lists(SCALARS, max_size=2)},
)
VALUES = SCALARS | st.lists(DEATHS | SCALARS, max_size=3)
NAMES = (
    "x-delay", "x-delivery-count", "x-first-death-queue", "x-first-death-reason", "x-group",
)  # fmt: skip
DEATH = {"queue": QUEUE, "reason": "expired", "count": 2**63 - 1}
MANY = {f"k{number}": None for number in range(MAX_FIELDS)}
HEADERS = st.just(MANY) | st.fixed_dictionaries(
    {"x-death": st.lists(DEATHS, min_size=1, max_size=3) | VALUES},
    optional={
        **dict.fromkeys(NAMES, VALUES),
        "CC": st.lists(SCALARS, max_size=3),
        "BCC": st.lists(SCALARS, max_size=3),
    },
)
BINDING = {
    "x-match": "any-with-x",
    "x-group": [QUEUE, {"a": 1}],
    "x-delay": 2**62,
    "x-death": None,
    "CC": 0.5,
}
PROPERTIES = st.fixed_dictionaries(
    {"headers": HEADERS},
    optional={
        "priority": st.sampled_from((0, 3, 255)),
        "correlation_id": TEXTS.filter(lambda text: len(text) < 256),
        "expiration": st.sampled_from(("0", "1", str(2**32 - 1))),
        "message_id": st.sampled_from(("", "m", "\0" * 255)),
        "timestamp": st.sampled_from((0, 2**37)),
    },
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "max_priority": st.just(3), "delivery_limit": st.just(1), "group_by": st.just("x-group"),
        "deduplication_window": st.just(1000), "message_ttl": st.sampled_from((0, 50)),
        "max_length_bytes": st.sampled_from((0, 1)),
        "redelivery_backoff": st.just({"initial": 10, "maximum": 10}),
    },
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_lives_with_whatever_it_has_confirmed(kind: str) -> None:
    @settings(max_examples=60)
    @example({"headers": {"x-death": [DEATH]}}, {"message_ttl": 50}, "")
    @example(
        {"headers": {"x-death": [DEATH | {"reason": "delivery_limit", "count": 2**62}] * 2}},
        {"delivery_limit": 1},
        "",
    )
    @example({"headers": MANY}, {"message_ttl": 50}, "")
    @given(PROPERTIES, TERMS, st.sampled_from(("", "amq.headers")))
    def lives(properties: dict[str, Any], terms: dict[str, Any], exchange: str) -> None:
        site = Site("n1")
        client = site.client("n1")
        client.declare(GRAVE)
        queue = declare(client, kind, dead_letter_exchange="", dead_letter_routing_key=GRAVE, **terms)
        client.call(m.QueueBind(queue, "amq.headers", "", arguments=BINDING), m.QueueBindOk)
        octets = publish(
            CHANNEL, b"x", exchange=exchange, key=queue, properties=encode_properties(properties)
        )
        client.connection.send_octets(octets)
        try:
            client.consume(queue, prefetch=10)
        except ChannelClosedError as refusal:
            assert "unacceptable_type_in_header" in str(refusal)
            return
        for _ in range(2):
            fail_what_came(client)
        site.run(0.1)
        client.close()
        again(site)

    lives()


def fail_what_came(client: Client) -> None:
    client.site.run(0.1)
    came, client.deliveries[:] = list(client.deliveries), []
    for delivery in came:
        client.nack(delivery, requeue=True)


def again(site: Site) -> None:
    """Restart the node, which reads its journal and serves."""
    site.nodes["n1"].stop(power=True)
    site.nodes["n1"].start()
    site.until(lambda: site.nodes["n1"].ready)
    client = site.client("n1")
    client.confirms(client.publish(GRAVE, b"plain"))
    assert client.bodies(GRAVE)[-1] == b"plain"
