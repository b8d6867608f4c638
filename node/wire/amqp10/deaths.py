"""Makes dead letters of messages that a queue discards.

The annotations are RabbitMQ's (mc_amqp.erl). `x-opt-deaths` is an array of maps, the latest death first, with
one map for each queue and reason, which counts its deaths. `x-first-death-*` have the first death. The header
loses its ttl. The bare message stays as it is.
"""

from __future__ import annotations

from typing import Final

from node.message.deaths import REASON_NAMES, Death, FirstPublish
from node.message.reason import Reason
from node.wire.amqp10.format_codes import FormatCode
from node.wire.amqp10.messages import (
    DELAY,
    DELIVERY_DELAY,
    X_CC,
    Pairs,
    annotation,
    annotation_pairs,
    application_pairs,
    edited,
    header_in,
    sections_in,
    whole_number,
)
from node.wire.amqp10.values import AmqpValue, Symbol, TimestampMs, TypedArray, UInt, ULong

DEATHS: Final = Symbol("x-opt-deaths")
FIRST_DEATH: Final = "x-first-death-"
LAST_DEATH: Final = "x-last-death-"
QUEUE: Final = Symbol("queue")
REASON: Final = Symbol("reason")
COUNT: Final = Symbol("count")
FIRST_TIME: Final = Symbol("first-time")
LAST_TIME: Final = Symbol("last-time")
EXCHANGE: Final = Symbol("exchange")
ROUTING_KEYS: Final = Symbol("routing-keys")
TTL: Final = Symbol("ttl")

_COUNT_MAX: Final = 2**64 - 1
"""The largest count on the wire; a client may have sent it."""

_DELAY_MAX: Final = 2**63 - 1
"""The longest delay, in milliseconds: the largest integer that a header of AMQP 0-9-1 can state."""

DeathMap = dict[str, AmqpValue]


def death_maps(value: AmqpValue) -> list[DeathMap]:
    """The deaths in an annotation's value, without what is no death."""
    items = value.items if isinstance(value, TypedArray) else value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def deaths_annotation(deaths: list[DeathMap]) -> AmqpValue:
    """The value of the annotation that has the deaths."""
    return TypedArray(FormatCode.MAP_32, list(deaths))


def dead_head(head: bytes, death: Death, *, routed_anew: bool) -> bytes:
    """The head of the dead letter. `routed_anew`: the letter gets another routing key, so x-cc is taken
    out.
    """
    sections = sections_in(head)
    header = header_in(head)
    pairs = annotation_pairs(head, sections.message_annotations)
    found = {key: value for key, value in pairs if isinstance(key, str)}
    keys = [plain_text(death.routing_key), *texts_of(found.get(X_CC))]
    deaths = _with_death(death_maps(found.get(DEATHS)), death, keys, header.ttl)
    changes: dict[str, AmqpValue] = {DEATHS: deaths_annotation(deaths)}
    if DEATHS not in found:
        for name, text in (
            ("reason", REASON_NAMES[death.reason]),
            ("queue", death.queue),
            ("exchange", death.exchange),
        ):
            changes[Symbol(f"x-first-death-{name}")] = plain_text(text)
    gone = {DELIVERY_DELAY, X_CC} if routed_anew else {DELIVERY_DELAY}
    done = delay_asked(head)
    if done:
        # The delay is over, as RabbitMQ's delayed message plugin tells with a negative number. The annotation
        # also outweighs an application-property, which stays.
        changes[Symbol(DELAY)] = -done
    mortal = header.ttl is not None
    header.ttl = None
    return edited(head, header if mortal else None, changed_pairs(pairs, changes, gone))


def delay_asked(head: bytes) -> int:
    """The milliseconds for which the message is to be delayed; 0 for anything but a number above zero.

    An annotation outweighs the application-property of RabbitMQ's clients.
    """
    if DELAY.encode() not in head and DELIVERY_DELAY.encode() not in head:
        return 0
    found = whole_number(annotation(head, DELIVERY_DELAY))
    if found is None:
        found = whole_number(annotation(head, DELAY))
    if found is None:
        found = whole_number(dict(application_pairs(head, sections_in(head))).get(DELAY))
    return min(max(0, int(found)), _DELAY_MAX) if found is not None else 0


def dies_again(head: bytes, queue: str) -> bool:
    """Whether the message has died in the queue before, and no client has rejected it since."""
    queue = plain_text(queue)
    for death in death_maps(annotation(head, DEATHS)):
        if death.get(REASON) == REASON_NAMES[Reason.REJECTED]:
            return False
        if death.get(QUEUE) == queue:
            return True
    return False


def count_in(head: bytes) -> int:
    """How often queues have given the message up."""
    counts = [death.get(COUNT) for death in death_maps(annotation(head, DEATHS))]
    return sum(one if isinstance(one, int) and one > 0 else 1 for one in counts)


def first_publish(head: bytes) -> FirstPublish | None:
    """The exchange and routing keys of the first death; None for a message that has not died."""
    maps = death_maps(annotation(head, DEATHS))
    if not maps:
        return None
    first = [annotation(head, f"{FIRST_DEATH}{name}") for name in (QUEUE, REASON)]
    # The map of a queue moves to the front when the message dies there again.
    death = next((one for one in maps if [one.get(QUEUE), one.get(REASON)] == first), maps[-1])
    exchange, keys = death.get(EXCHANGE), texts_of(death.get(ROUTING_KEYS))
    return FirstPublish(exchange, tuple(keys)) if isinstance(exchange, str) and keys else None


def without_deaths(head: bytes) -> bytes:
    """The head without the annotations that brokers give to dead letters."""
    told = (DEATHS, FIRST_DEATH, LAST_DEATH)
    pairs = annotation_pairs(head, sections_in(head).message_annotations)
    kept = [(key, one) for key, one in pairs if not (isinstance(key, str) and key.startswith(told))]
    return edited(head, None, kept)


def further_keys(head: bytes) -> list[str]:
    """The routing keys in the annotation x-cc."""
    return texts_of(annotation(head, X_CC))


def texts_of(value: AmqpValue) -> list[str]:
    """The texts of a list or an array; none for another value."""
    items = value.items if isinstance(value, TypedArray) else value if isinstance(value, list) else []
    return [str(item) for item in items if isinstance(item, str)]


def plain_text(name: str) -> str:
    """A name of AMQP 0-9-1 as a text. Octets of the name that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _with_death(deaths: list[DeathMap], death: Death, keys: list[str], ttl: int | None) -> list[DeathMap]:
    """The deaths with another one, which is the first of the list."""
    queue, reason = plain_text(death.queue), REASON_NAMES[death.reason]
    time = TimestampMs(death.time_s * 1000)
    others = [one for one in deaths if (one.get(QUEUE), one.get(REASON)) != (queue, reason)]
    same = [one for one in deaths if (one.get(QUEUE), one.get(REASON)) == (queue, reason)]
    count = sum(max(1, whole_number(one.get(COUNT)) or 1) for one in same) + 1
    latest: DeathMap = {}
    if ttl is not None:
        latest[TTL] = UInt(ttl)
    latest |= {
        QUEUE: queue,
        REASON: Symbol(reason),
        COUNT: ULong(1),
        FIRST_TIME: time,
        LAST_TIME: time,
        EXCHANGE: plain_text(death.exchange),
        ROUTING_KEYS: TypedArray(FormatCode.STRING_32, list(keys)),
    }
    if same:
        latest = {**same[0], COUNT: ULong(min(count, _COUNT_MAX)), LAST_TIME: time}
    return [latest, *others]


def changed_pairs(pairs: Pairs, changes: dict[str, AmqpValue], gone: set[Symbol]) -> Pairs:
    """The annotations with some changed or added, and some taken out."""
    kept: Pairs = []
    left = dict(changes)
    for key, value in pairs:
        if isinstance(key, str) and key in left:
            kept.append((key, left.pop(key)))
        elif not (isinstance(key, str) and key in gone):
            kept.append((key, value))
    kept += [(Symbol(key), value) for key, value in left.items()]
    return kept
