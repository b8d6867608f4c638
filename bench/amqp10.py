"""Figures of clients of AMQP 1.0: transactions, selectors, failures, and the memory of what they open."""

from __future__ import annotations

import threading
import time
from typing import Final

from bench.brokers import NODES, Address, BrokerError, resident_bytes
from bench.links import HEADER, MESSAGE, LinkClient, over_links
from bench.measures import (
    AMQP_0_9_1,
    AMQP_1_0,
    Place,
    Samples,
    Stage,
    fill,
    kill,
    owned_queue,
    queues,
    steady,
    weigh,
)
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import Described, Symbol, ULong

TRANSACTION: Final = 10
"""Messages in a transaction."""

SITES: Final = 100
"""Messages have one of so many values in a property."""

RARE: Final = 3
"""Messages with a value of that property that no other message has."""

CONNECTIONS: Final = 5_000
LINKS: Final = 5_000
LINKS_EACH: Final = 100
"""Links of one connection."""

KEPT: Final = 5_000
"""Unsettled deliveries of a link; a link has at most 7,000 whose frames have 128 KiB."""

KEPT_AT_ONCE: Final = 5
KEEPING_LINKS: Final = 20


def transactions(stage: Stage) -> Samples:
    """Messages a second of ten senders, each with one transaction after the other, as a share of the rate of
    transactions of AMQP 0-9-1. Of quorate alone: the plugin of RabbitMQ has none.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    plain, links = (
        steady(stage, Place.OWNER, protocols=protocols, publishers=10, transaction=TRANSACTION)
        for protocols in (AMQP_0_9_1, AMQP_1_0)
    )
    return {"share": [links.end_to_end_rate / plain.end_to_end_rate]}


def kill_links(stage: Stage) -> Samples:
    """SIGKILL to the owner while a sender of AMQP 1.0 works through another node."""
    return kill(stage, lambda address, queue: over_links(address, stage.cluster.queue_address % queue))


def select(stage: Stage) -> Samples:
    """Seconds in which a new selector has found one message, and all that another one takes, of the messages
    that wait; and the rate of other clients of the same owner, while one new selector follows the other, as a
    share of their rate without. Of quorate alone.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    with owned_queue(stage, "bench-selected") as owner:
        address = stage.cluster.address(owner)
        fill(stage, address, "bench-selected", stage.waiting, mixed=1, sites=SITES)
        one = find_the_last(stage, address)
        alone = steady(stage, Place.OWNER, mixed=1).end_to_end_rate
        seconds: list[float] = []
        over = threading.Event()

        def search() -> None:
            while not over.is_set():
                seconds.append(found_after(stage, address, len(seconds)))

        searching = threading.Thread(target=search)
        searching.start()
        beside = steady(stage, Place.OWNER, mixed=1).end_to_end_rate
        over.set()
        searching.join()
    return {"one": one, "seconds": seconds, "kept": [beside / alone]}


def find_the_last(stage: Stage, address: Address) -> list[float]:
    """Seconds until a receiver whose selector is new to the queue has the one message that the selector
    takes, behind all others.
    """
    sending = LinkClient(address, 60.0)
    sending.publish_to(stage.cluster.queue_address % "bench-selected")
    names = [f"rare-{number}" for number in range(RARE)]
    for name in names:
        properties = Described(ULong(d.SectionCode.APPLICATION_PROPERTIES), {"site": name})
        if not sending.publish(encode_amqp(properties) + MESSAGE.removeprefix(HEADER)):
            raise BrokerError("the broker has not taken the message")
    sending.close()
    return [selected(stage, address, name, 1) for name in names]


def found_after(stage: Stage, address: Address, number: int) -> float:
    """Seconds until a receiver whose selector is new to the queue has all messages that the selector takes,
    less a tenth.
    """
    return selected(stage, address, f"plant-{number % SITES}", stage.waiting // SITES * 9 // 10)


def selected(stage: Stage, address: Address, site: str, wanted: int) -> float:
    """Seconds until a receiver with a selector has so many messages, which it gives back."""
    selector = Described(Symbol("apache.org:selector-filter:string"), f"site = '{site}'")
    client = LinkClient(address, 60.0)
    began = time.monotonic()
    source = d.Source(stage.cluster.queue_address % "bench-selected", filter={Symbol("selector"): selector})
    client.receive(f"selector-{site}", 0, source, stage.waiting)
    client.take(wanted)
    seconds = time.monotonic() - began
    client.close()
    return seconds


def idle(stage: Stage) -> Samples:
    """Octets of a node's memory for each of 5,000 connections with a session that do nothing, and for each of
    5,000 links.
    """
    with queues(stage, ["bench"]):
        clients = [LinkClient(stage.cluster.address(0)) for _ in range(10)]
        before = resident_bytes(stage.cluster.pid(0))
        clients += [LinkClient(stage.cluster.address(0)) for _ in range(CONNECTIONS)]
        connected = resident_bytes(stage.cluster.pid(0))
        for client in clients[: LINKS // LINKS_EACH]:
            for number in range(LINKS_EACH):
                client.receive(f"idle-{number}", number, d.Source(stage.cluster.queue_address % "bench"), 0)
        linked = resident_bytes(stage.cluster.pid(0))
        for client in clients:
            client.close()
    return {"connection": [(connected - before) / CONNECTIONS], "link": [(linked - connected) / LINKS]}


def unsettled(stage: Stage) -> Samples:
    """Octets of a replica's memory for an unsettled delivery of a link whose deliveries are kept: of the
    owner, and of the node that has neither the owner nor the client, whichever has more. Of quorate alone.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    count = KEPT * KEEPING_LINKS
    with owned_queue(stage, "bench") as owner:
        replicas = owner, (owner + 2) % NODES
        fill(stage, stage.cluster.address(owner), "bench", count)
        before = [weigh(stage.cluster, node) for node in replicas]
        clients = kept(stage, (owner + 1) % NODES)
        grown = [weigh(stage.cluster, node) - one for node, one in zip(replicas, before, strict=True)]
        for client in clients:
            client.close()
    return {"bytes": [max(grown) / count]}


def kept(stage: Stage, node: int) -> list[LinkClient]:
    """Receivers that ask for their deliveries to be kept, once all have as many as they ask for. The messages
    that follow each other are those of different links. Raises BrokerError.
    """
    source = d.Source(
        stage.cluster.queue_address % "bench",
        durable=d.TerminusDurability.UNSETTLED_STATE,
        expiry_policy=d.TerminusExpiryPolicy.CONNECTION_CLOSE,
        timeout=600,
    )
    clients = [
        LinkClient(stage.cluster.address(node), container=f"keeping-{number}")
        for number in range(KEEPING_LINKS)
    ]
    for client in clients:
        granted = client.receive("keeping", 0, source, 0).source
        if not isinstance(granted, d.Source) or granted.durable != source.durable:
            raise BrokerError("the node does not keep the deliveries of the link")
    for _ in range(KEPT // KEPT_AT_ONCE):
        for client in clients:
            client.credit(0, KEPT_AT_ONCE)
        for client in clients:
            client.take(KEPT_AT_ONCE)
    return clients
