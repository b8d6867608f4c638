"""Publishing and getting messages over HTTP: for trying things out, not for moving messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.errors import bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.internal_channel import InternalChannel, internal_channel
from cluster.admin.api.message_format import message_of, shown_message
from cluster.admin.api.names import exchange_name
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.gateway.browsing import BEGINNING
from node.delivery.deeds import NO_LIMIT, Became, Deed
from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.message.streams import OffsetKind, StreamOffset, age_ms, moment_ms
from node.refusal import NotFoundError
from node.session.commands import DeclareQueue, LeasesRenewed, MessagesSettled, RenewLeases, SettleMessages
from node.session.permissions import IMPERSONATOR
from node.session.ports import Got, QueueDeclaration

endpoints = Endpoints()

ACK_MODES: Final = ("ack_requeue_true", "reject_requeue_true", "ack_requeue_false", "reject_requeue_false")
LOOKING: Final = "ack_requeue_true"
NO_ACK: Final = "ack_requeue_false"
REJECTED: Final = "reject_requeue_false"
ACKNOWLEDGE: Final = "acknowledge"
DEEDS: Final = {one.name.lower(): one for one in (Deed.ACKNOWLEDGE, Deed.CANCEL, Deed.EXPIRE)}
SETTLED: Final = [one for one in Became if one not in (Became.REFUSED, Became.LEFT, Became.UNROUTED)]
ENCODINGS: Final = ("auto", "base64")

Show = Callable[[Got], dict[str, Any]]

GOT_OCTETS: Final = 64 * 1024 * 1024
"""Octets of messages after which a request gets no more: an answer is put together in memory."""

ALIVENESS_QUEUE: Final = "aliveness-test"


@endpoints.on("POST", "/exchanges/{vhost}/{name}/publish")
async def publish_message(services: Services, call: Call) -> dict[str, bool]:
    """Publish a message, and tell, once it is safe, whether a queue took it."""
    return {"routed": await _publish(services, call, exchange_name(call.path["name"]), call.fields())}


async def _publish(services: Services, call: Call, exchange: str, fields: Fields) -> bool:
    claims = None if IMPERSONATOR in call.identity.tags else call.user
    run = message_of(fields, exchange, claims, services.config.cluster.limits.message_max_bytes)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        try:
            return await channel.publish(run)
        except NotFoundError as error:
            # RabbitMQ's reading: the path names no object, so that its absence is no 404.
            raise bad_request(f"404 NOT_FOUND - {error}") from None


@endpoints.on("POST", "/queues/{vhost}/{name}/get")
async def get_messages(services: Services, call: Call) -> Rows:
    """Look at `count` messages, or take them, as `ackmode` says; each shown as `encoding` says."""
    fields = call.fields()
    fields.require("count", "ackmode", "encoding")
    count, mode, encoding = fields.integer("count"), fields.values["ackmode"], fields.values["encoding"]
    truncate = fields.integer("truncate") if "truncate" in fields.values else None
    if mode not in ACK_MODES:
        raise bad_request(f"Unsupported ackmode. Please use one of {', '.join(ACK_MODES)}.")
    if encoding not in ENCODINGS:
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    show = partial(shown_message, encoding=encoding, truncate=None if truncate is None else max(0, truncate))
    taking = fields.text("filter", "")
    if taking and mode != LOOKING:
        raise bad_request(f"a filter goes with ackmode {LOOKING} alone")
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        if mode == LOOKING:
            return Rows(await _look(channel, call.path["name"], count, taking, show), ())
        shown = await _get(channel, call.path["name"], count, mode == NO_ACK, show)
        await channel.settle_all(call.path["name"], requeue=mode != REJECTED)
    return Rows(shown, ())


async def _look(
    channel: InternalChannel, queue: str, count: int, taking: str, show: Show
) -> list[dict[str, Any]]:
    """The first ready messages, which stay ready and in their place; with a filter those that it takes, each
    with its bookmark. Those of several owners have none: a message that is lent gets another one.
    """
    try:
        filter = encoded_condition(taking) if taking else b""
    except ExpressionError as error:
        raise bad_request(f"invalid filter: {error}") from None
    shown: list[dict[str, Any]] = []
    octets = left = 0
    behind = BEGINNING
    while len(shown) < count and octets < GOT_OCTETS:
        ready, found = await channel.look(queue, behind, count - len(shown), filter)
        if not found:
            break
        left = ready if behind == BEGINNING else left
        for one in found:
            left = max(0, left - 1)
            octets += len(one.run.raw)
            named = filter and not one.place.part
            told = {"bookmark": channel.bookmark(queue, one.place.number)} if named else {}
            shown.append(show(Got(0, one.run, one.place.number, one.redelivered, left)) | told)
        behind = found[-1].place
    return shown


@endpoints.on("POST", "/queues/{vhost}/{name}/renew")
async def renew_leases(services: Services, call: Call) -> dict[str, Any]:
    """Let the leases of the messages with these `bookmarks` begin anew, those of any client."""
    fields = call.fields()
    fields.require("bookmarks")
    bookmarks = fields.values["bookmarks"]
    if not isinstance(bookmarks, list) or not all(isinstance(one, str) for one in bookmarks):
        raise bad_request("bookmarks is no list of texts")
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        renewed = await channel.call(RenewLeases(call.path["name"], tuple(bookmarks)))
    assert isinstance(renewed, LeasesRenewed)
    gone = sorted(set(bookmarks).difference(renewed.bookmarks))
    return {"locked_until": renewed.until or None, "renewed": renewed.bookmarks, "not_renewed": gone}


@endpoints.on("POST", "/queues/{vhost}/{name}/settle")
async def settle_messages(services: Services, call: Call) -> dict[str, Any]:
    """Acknowledge, cancel or expire messages with these `bookmarks`, or that a `filter` takes, those that
    consumers have too.
    """
    fields = call.fields()
    action = fields.text("action", ACKNOWLEDGE)
    if action not in DEEDS:
        raise bad_request(f"action is none of {', '.join(DEEDS)}")
    command = named_by(call.path["name"], DEEDS[action], fields)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        settled = await channel.call(command)
    assert isinstance(settled, MessagesSettled)
    counts = {one.name.lower(): settled.counts.get(one, 0) for one in SETTLED}
    return {**counts, **going_on(command, settled)}


ALL: Final = "TRUE"
"""The filter that takes every message."""


def named_by(queue: str, deed: Deed, fields: Fields, filter: str = "") -> SettleMessages:
    """The command for the messages that a request names; `filter` is that of a request without one. Raises
    ApiError.
    """
    bookmarks = fields.values.get("bookmarks", [])
    since, until = _time(fields, "since"), _time(fields, "until")
    timed = since is not None or until is not None
    filter = fields.text("filter", ALL if timed else filter)
    if not isinstance(bookmarks, list) or not all(isinstance(one, str) for one in bookmarks):
        raise bad_request("bookmarks is no list of texts")
    if bool(bookmarks) == bool(filter):
        raise bad_request("either bookmarks, or a filter or times are to be given")
    limit = fields.integer("limit", NO_LIMIT)
    if limit < 1:
        raise bad_request("limit is no number from 1 on")
    first, last, tries = fields.text("first", ""), fields.text("last", ""), fields.flag("dry_run")
    limit = min(limit, NO_LIMIT)
    named = SettleMessages(queue, deed, tuple(bookmarks), filter, None, first, last, limit, tries)
    return replace(named, since=since, until=until)


def _time(fields: Fields, name: str) -> StreamOffset | None:
    """The place in a stream of a time as in ISO 8601, or of an age. Raises ApiError."""
    text = fields.text(name, "")
    age, moment = age_ms(text), moment_ms(text)
    if age is not None:
        return StreamOffset(OffsetKind.AGE, age)
    if moment is not None:
        return StreamOffset(OffsetKind.TIME, moment)
    if text:
        raise bad_request(f"{name} is no time such as 2026-01-31T12:00:00, and no age such as 90s")
    return None


def going_on(command: SettleMessages, settled: MessagesSettled) -> dict[str, Any]:
    """The outcome for each message that a bookmark has named, or the place where the next request goes on."""
    if command.filter:
        first, last = settled.left or (None, None)
        return {"next": first, "last": last}
    return {"bookmarks": {one: became.name.lower() for one, became in settled.bookmarks.items()}}


async def _get(
    channel: InternalChannel, queue: str, count: int, settled: bool, show: Show
) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    octets = 0
    while len(shown) < count and octets < GOT_OCTETS:
        got = await channel.get(queue, settled)
        if got is None:
            break
        octets += len(got.run.raw)
        shown.append(show(got))
    return shown


@endpoints.on("GET", "/aliveness-test/{vhost}")
async def test_aliveness(services: Services, call: Call) -> dict[str, str]:
    """Declare a queue on this node, publish to it and get the message back."""
    queue = f"{ALIVENESS_QUEUE}.{services.node}"
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        await channel.call(DeclareQueue(QueueDeclaration(queue, False, False, False)))
    message = Fields(
        {"properties": {}, "routing_key": queue, "payload": "test_message", "payload_encoding": "string"}
    )
    if not await _publish(services, call, "", message):
        raise bad_request("the queue of the aliveness test took no message")
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        if await channel.get(queue, True) is None:
            raise bad_request("the queue of the aliveness test is empty")
    return {"status": "ok"}
