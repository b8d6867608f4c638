"""Queue arguments become settings, or are refused with RabbitMQ's words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.expressions.condition import encoded_condition
from node.queue.delivery_state import Fairness
from node.queue.features.arguments import read_arguments, read_queue_arguments
from node.queue.features.backoff import RedeliveryBackoff
from node.queue.features.limits import Overflow
from node.queue.features.registry import rules_of
from node.queue.operations import Semantics
from node.queue.settings import PLAIN, QueueSettings
from node.refusal import PreconditionFailedError


def checked(arguments: dict[str, Any]) -> QueueSettings:
    return read_queue_arguments(arguments, "q", "/")


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, PLAIN),
        ({"x-max-priority": 32}, QueueSettings(max_priority=32)),
        ({"x-message-ttl": 0}, QueueSettings(message_ttl_ms=0)),
        ({"x-expires": 1}, QueueSettings(expires_ms=1)),
        ({"x-max-length": 0, "x-max-length-bytes": 9}, QueueSettings(max_length=0, max_length_bytes=9)),
        ({"x-overflow": "reject-publish-dlx"}, QueueSettings(overflow=Overflow.REJECT_PUBLISH_DLX)),
        (
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
            QueueSettings(dead_letter_exchange="", dead_letter_routing_key="dead"),
        ),
        ({"x-delivery-limit": 3}, QueueSettings(delivery_limit=3)),
        ({"x-filter": "/a = 1"}, QueueSettings(entry_filter=encoded_condition("/a = 1"))),
        ({"x-max-cancels": 3}, QueueSettings(max_cancels=3)),
        ({"x-max-deliveries": 10}, QueueSettings(max_deliveries=10)),
        ({"x-max-per-subscription-backlog": 7}, QueueSettings(backlog_cap=7)),
        ({"x-fairness": "fast"}, QueueSettings(fairness=Fairness.FAST)),
        ({"x-leasing": "strict"}, QueueSettings(strict_leases=True)),
        ({"x-leasing": "sublet"}, QueueSettings()),
        ({"x-delivery-limit": -1}, PLAIN),
        ({"x-single-active-consumer": True}, QueueSettings(single_active_consumer=True)),
        ({"x-group-by": "customer"}, QueueSettings(group_by="customer")),
        ({"x-deduplication-window": 60000}, QueueSettings(deduplication_window_ms=60000)),
        (
            {"x-redelivery-backoff": {"initial": 100, "factor": 3, "maximum": 5000}},
            QueueSettings(redelivery_backoff=RedeliveryBackoff(100, 3.0, 5000)),
        ),
        ({"x-semantics": "at-most-once"}, QueueSettings(semantics=Semantics.AT_MOST_ONCE)),
    ],
)
def test_each_argument_is_a_setting(arguments: dict[str, Any], settings: QueueSettings) -> None:
    assert checked(arguments) == settings


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "classic", "x-queue-mode": "lazy", "x-queue-version": 2},
        {"x-queue-leader-locator": "balanced", "x-quorum-initial-group-size": 3},
        {"x-dead-letter-strategy": "at-least-once"},
        {"x-max-in-memory-length": "anything", "nobody-knows-this": None},
    ],
)
def test_arguments_without_an_effect_are_taken(arguments: dict[str, Any]) -> None:
    assert checked(arguments) == PLAIN


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "10", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", 2**32, "{value_too_big,4294967296}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-max-length", -3, "{value_negative,-3}"),
        ("x-max-length-bytes", 1.5, '"expected integer, got double"'),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-overflow", "drop-tail", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-exchange", None, "{unacceptable_type,void}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-delivery-limit", [1], '"expected integer, got array"'),
        ("x-queue-mode", "eager", "invalid_queue_mode"),
        ("x-queue-version", 3, "{unsupported_queue_version,3}"),
        ("x-queue-version", -1, "{value_negative,-1}"),
        ("x-queue-leader-locator", "nearest", "invalid_queue_locator_arg"),
        ("x-dead-letter-strategy", "exactly-once", "invalid_dlx_strategy"),
        ("x-semantics", "exactly-once", "invalid_semantics"),
        ("x-filter", "/a = ", "the expression ends too early at column 6"),
        ("x-filter", 1, "{unacceptable_type,signedint}"),
        ("x-redelivery-backoff", {"initial": 0}, "{value_zero,0}"),
        ("x-redelivery-backoff", {"initial": 1, "maximum": -1}, "{value_negative,-1}"),
    ],
)  # fmt: skip
def test_a_value_that_is_none_is_refused_in_the_words_of_rabbitmq(
    name: str, value: object, reason: str
) -> None:
    with pytest.raises(PreconditionFailedError) as refused:
        checked({name: value})
    assert str(refused.value) == f"invalid arg '{name}' for queue 'q' in vhost '/': {reason}"
    assert rules_of(read_arguments({name: value})).described.dead_letters is None


def test_what_an_earlier_release_took_unchecked_does_not_count() -> None:
    stored = {"x-message-ttl": "soon", "x-max-length": 5}
    assert read_arguments(stored) == QueueSettings(max_length=5)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "x-semantics", "x-max-priority", "x-message-ttl", "x-expires", "x-max-length", "x-overflow",
        "x-dead-letter-exchange", "x-delivery-limit", "x-single-active-consumer", "x-redelivery-backoff",
        "x-filter",
    ]
)  # fmt: skip


@given(st.dictionaries(NAMES, VALUES))
def test_any_value_is_read_or_refused(arguments: dict[str, Any]) -> None:
    try:
        assert checked(arguments) == read_arguments(arguments)
    except PreconditionFailedError as refused:
        assert str(refused).startswith("invalid arg 'x-")


def test_the_rest_of_a_message_that_comes_back_grows_up_to_its_maximum() -> None:
    backoff = RedeliveryBackoff(100, 2.0, 1000)
    assert [backoff.delay_ms(failures) for failures in (1, 2, 3, 4, 5, 50_000)] == [
        100, 200, 400, 800, 1000, 1000,
    ]  # fmt: skip
