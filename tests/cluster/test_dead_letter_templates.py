"""Dead letters have bodies that their queue's template makes, each once, whichever node dies (D19)."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from cluster.owner.dead_letter_routing import MOST_FILLED
from tests.cluster.kinds import client, declare, declared
from tests.cluster.test_dead_letters import MODES, dying, grave, reset, wait_for
from tests.cluster.test_sections_in_queues import Publisher, sections
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.sections import annotated, data, message

__all__ = ["client", "declared", "grave"]

WRAP = '{"message": {{data}}, "reason": "{{reason}}"}'
WHOLE = (
    '{"text": "{{text}}", "octets": "{{ queue }} {{exchange}}|{{routing-key}}", "reason": "{{reason}}",'
    ' "bookmark": "{{bookmark}}", "time": {{time}}}'
)


@pytest.mark.requirement("D19.1", "D19.2", "D19.3")
@MODES
def test_an_expired_message_is_published_with_its_data_and_the_reason(
    client: Client, declared: Any, grave: str, mode: int
) -> None:
    queue = dying(declared, message_ttl=50, dead_letter_template=WRAP)
    client.publish(
        queue, b'{"n": 1}', b"[2]", delivery_mode=mode, content_type="application/json", headers={"k": "v"}
    )
    found = wait_for(client, grave, 2)
    assert [json.loads(one.body) for one in found] == [
        {"message": {"n": 1}, "reason": "expired"}, {"message": [2], "reason": "expired"},
    ]  # fmt: skip
    for one in found:
        assert (one.properties.content_type, one.properties.delivery_mode) == ("application/json", mode)
        assert one.headers["k"] == "v" and one.headers["x-death"][0]["reason"] == "expired"


@pytest.mark.requirement("D19.3")
@MODES
def test_each_reason_is_told(client: Client, declared: Any, grave: str, mode: int) -> None:
    queue = dying(declared, dead_letter_template="{{reason}} {{data}}", max_length=2, delivery_limit=0)
    client.confirms(client.publish(queue, b"a", b"b", b"c", delivery_mode=mode))
    client.consume(queue, prefetch=2)
    client.site.until(lambda: len(client.deliveries) == 2)
    client.nack(client.deliveries[0], requeue=False)
    client.nack(client.deliveries[1], requeue=True)
    found = sorted(one.body for one in wait_for(client, grave, 3))
    assert found == [b"delivery_limit c", b"maxlen a", b"rejected b"]


@pytest.mark.requirement("D19.2")
def test_the_places_have_what_the_queue_knows_of_the_message(client: Client, grave: str) -> None:
    queue = client.declare(
        'a "queue"', dead_letter_exchange="", dead_letter_routing_key=grave, dead_letter_template=WHOLE
    ).queue
    client.declare_exchange("e", "fanout")
    client.bind(queue, "e")
    client.publish("key\n", b'say "hi"\n\xff', exchange="e")
    client.site.until(lambda: client.depth(queue) == 1)
    client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[0], requeue=False)
    (found,) = wait_for(client, grave, 1)
    told = json.loads(found.body)
    assert told.pop("time") > 1_700_000_000_000
    assert re.fullmatch("[0-9a-f]{24}", told.pop("bookmark"))
    assert told == {"text": 'say "hi"\n\ufffd', "octets": 'a "queue" e|key\n', "reason": "rejected"}


def test_octets_stand_in_base64(client: Client, declared: Any, grave: str) -> None:
    queue = dying(declared, message_ttl=0, dead_letter_template="<{{base64}}>")
    client.publish(queue, bytes(range(5)), b"")
    assert [one.body for one in wait_for(client, grave, 2)] == [b"<AAECAwQ=>", b"<>"]


@pytest.mark.parametrize("size", [0, 1, 131_070])
def test_bodies_of_any_size_are_filled_in(client: Client, declared: Any, grave: str, size: int) -> None:
    queue = dying(declared, message_ttl=0, dead_letter_template="<{{data}}>")
    bodies = [bytes([65 + at]) * size for at in range(3)]
    client.publish(queue, *bodies)
    assert [one.body for one in wait_for(client, grave, 3)] == [b"<" + body + b">" for body in bodies]


@pytest.mark.requirement("D19.2", "D19.3")
def test_messages_of_amqp_1_0_keep_their_sections_but_the_body(client: Client, grave: str) -> None:
    queue = dying(partial(declare, client, "replicated"), message_ttl=0, dead_letter_template=WRAP)
    Publisher(client).publish(queue, message(annotated(x_opt_own=7), body=b"1"), message(body=b"2"))
    client.site.until(lambda: client.depth(grave) == 2)
    first, second = sections(client, grave)
    assert first.endswith(data(b'{"message": 1, "reason": "expired"}'))
    assert second.endswith(data(b'{"message": 2, "reason": "expired"}'))
    assert b"x-opt-own" in first


def test_a_chain_of_templates_ends(client: Client) -> None:
    """Each rejection brings the message back, one template longer, until it has died too often."""
    client.declare("back", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="q")
    client.declare(
        "q", dead_letter_exchange="", dead_letter_routing_key="back", dead_letter_template="<{{data}}>"
    )
    client.confirms(client.publish("q", b"x"))
    lengths = []
    client.consume("q", prefetch=1)
    for count in range(1, MOST_FILLED + 5):
        client.site.until(lambda count=count: len(client.deliveries) == count)
        lengths.append(len(client.deliveries[-1].body))
        client.nack(client.deliveries[-1], requeue=False)
    # The message dies in both queues, and one of them has a template.
    assert lengths[-1] == lengths[-4] == MOST_FILLED + 1


@pytest.mark.requirement("D19.1")
@pytest.mark.parametrize("power", [True, False])
def test_a_new_owner_publishes_what_its_predecessor_could_not_once(power: bool) -> None:
    site = Site("n1", "n2", "n3", "n4", "n5")
    client = site.client("n1")
    arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": "grave", "dead_letter_template": WRAP}
    dead = client.declare("q", max_length=1, **arguments).queue
    away = site.client("n5")
    away.declare("grave")
    mend = reset(site, [("n1", "n5"), ("n5", "n1")])
    assert all(client.confirms(client.publish(dead, b"1", b"2")))
    site.run(0.1)
    site.nodes["n1"].stop(power=power)
    beside = site.client("n5")
    assert all(beside.confirms(beside.publish(dead, b"3")))
    mend()
    found = [json.loads(one.body) for one in wait_for(beside, "grave", 2)]
    assert found == [{"message": n, "reason": "maxlen"} for n in (1, 2)]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("a {{other}}", "'other' at column 3 is no place"),
        ("{{data}} {{text}}", "the body stands in the template once, and again at column 10"),
        ("ab{{data", "the place at column 3 has no end"),
        ("x" * 8193, "has 8193 characters"),
        (7, "unacceptable_type"),
    ],
)
def test_a_wrong_template_is_refused(client: Client, template: Any, reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=reason) as refused:
        client.declare("q", dead_letter_exchange="", dead_letter_template=template)
    assert refused.value.code == 406


def test_a_template_needs_an_exchange(client: Client) -> None:
    with pytest.raises(ChannelClosedError, match="template_but_no_dlx_defined"):
        client.declare("q", dead_letter_template=WRAP)


def test_no_queue_has_a_template_before_all_nodes_know_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-dead-letter-template", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first"):
        client.declare("q", dead_letter_exchange="", dead_letter_template=WRAP)
