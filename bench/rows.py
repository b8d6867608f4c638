"""The table: what is measured, in which unit, and the goal of each figure. Mixed messages come first."""

from __future__ import annotations

from collections.abc import Mapping

from bench.amqp10 import idle, kill_links, select, transactions, unsettled
from bench.breadth import fan_out, idle_connections, many_queues, priority, round_trips, topic
from bench.clients import share_of_sink
from bench.declaring import one_by_one, pipelined, short_connections
from bench.figures import (
    Figure,
    Goal,
    Row,
    beside_091,
    beside_rate,
    confirm_latency,
    floor,
    rate,
    share_of,
    share_of_mixed,
    share_of_plain,
)
from bench.load import Generator
from bench.logs import cut, explained, replayed
from bench.measures import (
    AMQP_1_0,
    Place,
    backlog,
    beside_confirms,
    freeze,
    kill,
    memory,
    open_loop,
    restart,
    throughput,
)
from bench.mixed import crowd, ranks, search, share, through_headers, through_topic, weighed
from bench.owners import lent, owners
from bench.reconnecting import reconnect
from bench.streams import over_stream, past, ten_over_stream
from bench.views import viewed


def beside_plain(
    id: str, title: str, least: float, arguments: Mapping[str, object], consumers: int = 1, **options: int
) -> Row:
    """A queue with these arguments beside a plain one with the same messages."""
    return Row(id, share_of_plain(title, least), lambda stage: share(stage, arguments, consumers, **options))


def of_sink(program: str, title: str, package: str) -> Row:
    """The rate of a client against three nodes as a share of its rate against a broker that only answers."""
    figure = Figure(f"{title}: share of its rate against a sink", "share", "", Goal.AT_LEAST, 0.95)
    return Row(f"{program}-sink", (figure,), lambda stage: share_of_sink(stage, program), client=package)


MIXED: tuple[Row, ...] = (
    Row(
        "mixed-local",
        (rate("mixed messages, clients on the owner's node", 9),),
        lambda stage: throughput(stage, Place.OWNER, mixed=1),
    ),
    Row(
        "mixed-cross",
        (rate("mixed, on two nodes that do not own the queue", 12),),
        lambda stage: throughput(stage, Place.OTHERS, mixed=1),
    ),
    Row(
        "mixed-three",
        (rate("mixed, three queues with three owners", 14),),
        lambda stage: throughput(stage, Place.ROTATED, mixed=1),
    ),
    Row(
        "queue-owners",
        beside_rate("one queue with three owners, used at all nodes", "mixed-three", 0.9),
        owners,
    ),
    Row(
        "queue-lent", beside_rate("one queue with three owners, all messages lent", "mixed-cross", 0.4), lent
    ),
    Row(
        "mixed-acks",
        (rate("mixed, acknowledged one by one", 7),),
        lambda stage: throughput(stage, Place.OWNER, mixed=1, ack_every=1),
    ),
    Row(
        "mixed-ten",
        (rate("mixed, 10 publishers and 10 consumers, window 100, one by one", 9),),
        lambda stage: crowd(stage, 10, 1, 100),
    ),
    Row(
        "mixed-200",
        (rate("mixed, 200 connections, 100 queues, window 10", 6),),
        lambda stage: crowd(stage, 100, 100, 10),
    ),
    Row(
        "mixed-transient",
        (rate("mixed, transient, automatic acknowledgement", 4),),
        lambda stage: throughput(
            stage, Place.OWNER, kind="classic", durable=False, persistent=0, autoack=1, mixed=1
        ),
    ),
    Row(
        "mixed-durable",
        (rate("mixed, durable queue that is not replicated", 8),),
        lambda stage: throughput(stage, Place.OWNER, kind="classic", mixed=1),
    ),
    Row(
        "mixed-topic",
        (rate("mixed, topic exchange, 10,000 bindings, keys all different", 10),),
        through_topic,
    ),
    Row("mixed-headers", (rate("mixed, headers exchange", 6),), through_headers),
    Row(
        "mixed-priorities",
        share_of_mixed("priorities"),
        lambda stage: share(stage, {"x-max-priority": 10}, priorities=10),
    ),
    Row("mixed-delays", share_of_mixed("delays"), lambda stage: share(stage, {}, delay=20)),
    Row(
        "mixed-ids",
        share_of_mixed("deduplication"),
        lambda stage: share(stage, {"x-deduplication-window": 60_000}),
    ),
    Row("mixed-expirations", share_of_mixed("expirations"), lambda stage: share(stage, {}, ttl=600_000)),
    Row(
        "mixed-open-500",
        confirm_latency("mixed, open loop, 500 a second", 0.9),
        lambda stage: open_loop(stage, 500, mixed=1),
    ),
    Row(
        "mixed-open-5000",
        confirm_latency("mixed, open loop, 5,000 a second", 0.4),
        lambda stage: open_loop(stage, 5000, mixed=1),
    ),
)
"""Messages as applications send them: each with an id, a time, headers and a length of its own."""

OF_QUEUES: tuple[Row, ...] = (
    beside_plain("queue-lease", "lease period", 0.95, {"x-lease-period": 600_000}),
    beside_plain(
        "queue-fair", "10 consumers, proportional fairness", 0.95, {"x-fairness": "proportional"}, 10
    ),
    beside_plain(
        "queue-filter",
        "a filter of the queue by a header, which takes all",
        0.9,
        {"x-filter": "attempt >= 0"},
    ),
    beside_plain("queue-groups", "1,000 groups, 10 consumers", 0.5, {"x-group-by": "site"}, 10, sites=1000),
    beside_plain("queue-once", "at-most-once", 0.7, {"x-semantics": "at-most-once"}),
    beside_plain("queue-keys", "the last message of each key, keys all different", 0.4, {"x-key": "trace"}),
    beside_plain("queue-history", "a history", 0.95, {"x-history": "1D"}),
    Row("queue-view", share_of_plain("a view of 1,000 groups", 0.5), viewed),
    Row("queue-over-stream", share_of_plain("a queue over a stream", 0.95), over_stream),
    Row(
        "queue-ten-over-stream",
        share_of("one publish to a stream with 10 queues", "of the rate to 10 queues"),
        ten_over_stream,
    ),
    Row(
        "queue-past",
        (Figure("a new queue over 1,000,000 past messages", "seconds", "s", Goal.AT_MOST, 0.2),),
        past,
        fresh=True,
    ),
    Row(
        "queue-past-long",
        (Figure("the same over 10,000,000 past messages", "seconds", "s", Goal.AT_MOST, 0.2),),
        lambda stage: past(stage, 10),
        fresh=True,
    ),
    Row(
        "queue-replay",
        (
            *share_of("a stream of 1,000,000 is read from its first message", "of the rate of a drain"),
            Figure("the same: share of their rate that other clients keep", "kept", "", Goal.AT_LEAST, 0.8),
        ),
        replayed,
        fresh=True,
    ),
    Row(
        "queue-explain",
        (Figure("quorate explain, with a GiB of history", "seconds", "s", Goal.AT_MOST, 2),),
        explained,
        fresh=True,
    ),
    Row(
        "queue-cut",
        (
            Figure("a consistent cut over 100 partitions", "idle", "ms", Goal.AT_MOST, 50),
            Figure("the same while all are published to", "busy", "ms", Goal.AT_MOST, 50),
        ),
        cut,
        fresh=True,
    ),
    Row(
        "queue-memory",
        (Figure("owner's memory a waiting mixed message", "bytes", "B", Goal.AT_MOST, 200),),
        lambda stage: weighed(stage, {}),
        fresh=True,
    ),
    Row(
        "queue-memory-keys",
        (Figure("the same with a key of its own", "bytes", "B", Goal.AT_MOST, 200),),
        lambda stage: weighed(stage, {"x-key": "trace"}),
        fresh=True,
    ),
    Row(
        "queue-ranks",
        share_of("priorities by an expression, all distinct", "of the rate with 10 priorities"),
        ranks,
    ),
    Row(
        "queue-search",
        (Figure("a new filter finds 1 of 1,000,000 waiting messages", "seconds", "s", Goal.AT_MOST, 3),),
        search,
        fresh=True,
    ),
)
"""Queues with semantics of their own, beside plain ones with the same messages."""

ALIKE: tuple[Row, ...] = (
    Row(
        "local",
        (rate("replicated queue, clients on its owner's node", 6),),
        lambda stage: throughput(stage, Place.OWNER),
    ),
    Row(
        "cross",
        (rate("clients on two nodes that do not own the queue", 4),),
        lambda stage: throughput(stage, Place.OTHERS),
    ),
    Row(
        "three",
        (rate("three queues with three owners, used from other nodes", 4),),
        lambda stage: throughput(stage, Place.ROTATED),
    ),
    Row(
        "local-4k",
        (rate("as the first, 4096 bytes", 5),),
        lambda stage: throughput(stage, Place.OWNER, size=4096),
    ),
    Row(
        "durable",
        (rate("durable queue that is not replicated", 6),),
        lambda stage: throughput(stage, Place.OWNER, kind="classic"),
    ),
    Row(
        "transient",
        (rate("transient queue, automatic acknowledgement", 3),),
        lambda stage: throughput(stage, Place.OWNER, kind="classic", durable=False, persistent=0, autoack=1),
    ),
    Row(
        "backlog",
        (
            rate("publish only into a growing queue, median step", 5, "growth"),
            Figure("the same: slowest step to median step", "flatness", "", Goal.AT_LEAST, 0.9),
            Figure("owner's memory a waiting message of 256 B", "bytes", "B", Goal.AT_MOST, 250),
            rate("drain of the full queue", 2.5, "drain"),
        ),
        backlog,
        fresh=True,
    ),
    Row(
        "memory-4k",
        (Figure("owner's memory a waiting message of 4 KB", "bytes", "B", Goal.AT_MOST, 250),),
        lambda stage: memory(stage, 4096),
        fresh=True,
    ),
    Row("open-500", confirm_latency("open loop, 500 a second", 1), lambda stage: open_loop(stage, 500)),
    Row("open-5000", confirm_latency("open loop, 5,000 a second", 0.5), lambda stage: open_loop(stage, 5000)),
    Row(
        "kill",
        (
            Figure("SIGKILL of the owner to the next confirm", "seconds", "s", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("the same: longest", "seconds", "s", Goal.TIMES_PEER_OR_LESS, 1, of="maximum"),
        ),
        kill,
        fresh=True,
    ),
    Row(
        "freeze",
        (Figure("SIGSTOP of the owner to the next confirm", "seconds", "s", Goal.AT_MOST, 2),),
        freeze,
    ),
    Row(
        "restart",
        (Figure("SIGKILL of all, full queue: start to first delivery", "seconds", "s", Goal.AT_MOST, 3),),
        restart,
        fresh=True,
    ),
    Row("fan-10", (rate("one publish to 10 replicated queues", 1),), lambda stage: fan_out(stage, 10)),
    Row("fan-100", (rate("one publish to 100 replicated queues", 1),), lambda stage: fan_out(stage, 100)),
    Row("topic", (rate("topic exchange with 10,000 bindings", 1),), topic),
    Row("priority", (rate("priority queue (replicated; RabbitMQ: not)", 1),), priority),
    Row(
        "queues",
        (
            Figure("declaring each of 10,000 replicated queues", "each_ms", "ms", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("its memory on all nodes", "bytes", "B", Goal.TIMES_PEER_OR_LESS, 1),
        ),
        many_queues,
        fresh=True,
    ),
    Row(
        "declares",
        (
            Figure("declaring a replicated queue, one by one: p50", "declare", "ms", Goal.AT_MOST, 2),
            Figure("binding it: p50", "bind", "ms", Goal.AT_MOST, 2),
        ),
        one_by_one,
        fresh=True,
    ),
    Row(
        "declares-pipelined",
        (
            Figure("declaring on 200 channels at once", "declares", "/s", Goal.AT_LEAST, 5000),
            Figure("binding on 200 channels at once", "bindings", "/s", Goal.AT_LEAST, 5000),
        ),
        pipelined,
        fresh=True,
    ),
    Row(
        "connections-short",
        (rate("connections opened, a queue declared, closed", 2),),
        short_connections,
        fresh=True,
    ),
    Row(
        "connections",
        (Figure("memory of each of 5,000 idle connections", "bytes", "B", Goal.TIMES_PEER_OR_LESS, 1),),
        idle_connections,
        fresh=True,
    ),
    Row(
        "requests",
        (
            Figure("request and direct reply over two nodes: p50", "p50", "ms", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("the same: p99", "p99", "ms", Goal.TIMES_PEER_OR_LESS, 1),
        ),
        round_trips,
    ),
    Row(
        "reconnect",
        (
            Figure(
                "1,000 clients of a killed node: back on the others",
                "seconds",
                "s",
                Goal.TIMES_PEER_OR_LESS,
                1,
            ),
        ),
        reconnect,
        fresh=True,
    ),
)
"""Messages that differ in nothing but their bodies, where the row does not say otherwise."""

AMQP10: tuple[Row, ...] = (
    Row(
        "amqp10-local",
        (
            rate("AMQP 1.0: replicated queue, clients on its owner's node", 10),
            floor("the same: messages a second", 100_000),
        ),
        lambda stage: throughput(stage, Place.OWNER, protocols=AMQP_1_0),
    ),
    Row(
        "amqp10-cross",
        (rate("AMQP 1.0: clients on two nodes that do not own the queue", 10),),
        lambda stage: throughput(stage, Place.OTHERS, protocols=AMQP_1_0),
    ),
    Row(
        "amqp10-local-4k",
        (rate("AMQP 1.0: as the first, 4096 bytes", 10),),
        lambda stage: throughput(stage, Place.OWNER, size=4096, protocols=AMQP_1_0),
    ),
    Row(
        "amqp10-transient",
        (rate("AMQP 1.0: transient queue, pre-settled both ways", 6),),
        lambda stage: throughput(
            stage, Place.OWNER, kind="classic", durable=False, persistent=0, presettled=1, autoack=1,
            protocols=AMQP_1_0,
        ),
    ),
    Row(
        "amqp10-mixed",
        (floor("AMQP 1.0: mixed messages, clients on the owner's node", 40_000),),
        lambda stage: throughput(stage, Place.OWNER, mixed=1, protocols=AMQP_1_0),
    ),
    Row(
        "amqp10-open-500",
        beside_091("AMQP 1.0, open loop, 500 a second"),
        lambda stage: beside_confirms(stage, 500),
    ),
    Row(
        "amqp10-open-5000",
        beside_091("AMQP 1.0, open loop, 5,000 a second"),
        lambda stage: beside_confirms(stage, 5000),
    ),
    Row(
        "amqp10-transactions",
        (
            Figure(
                "AMQP 1.0: transactions of 10 messages, share of the rate of 0-9-1's tx",
                "share",
                "",
                Goal.AT_LEAST,
                0.8,
            ),
        ),
        transactions,
    ),
    Row(
        "amqp10-select",
        (
            Figure(
                "AMQP 1.0: a new selector finds 1 of 1,000,000", "one", "s", Goal.AT_MOST, 3, of="maximum"
            ),
            Figure(
                "AMQP 1.0: a new selector finds all its messages, 1 in 100 of 1,000,000", "seconds", "s",
                Goal.AT_MOST, 10, of="maximum",
            ),
            Figure("the same: share of their rate that other clients keep", "kept", "", Goal.AT_LEAST, 0.8),
        ),
        select,
        fresh=True,
    ),
    Row(
        "amqp10-kill",
        (
            Figure("AMQP 1.0: SIGKILL of the owner to outcome", "seconds", "s", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("the same: longest", "seconds", "s", Goal.TIMES_PEER_OR_LESS, 1, of="maximum"),
        ),
        kill_links,
        fresh=True,
    ),
    Row(
        "amqp10-waiting",
        (Figure("AMQP 1.0: owner's memory a waiting message of 256 B", "bytes", "B", Goal.AT_MOST, 250),),
        lambda stage: memory(stage, 256, Generator.AMQP_1_0),
        fresh=True,
    ),
    Row(
        "amqp10-idle",
        (
            Figure("AMQP 1.0: memory of an idle connection", "connection", "B", Goal.AT_MOST, 24_576),
            Figure("the same: of a link", "link", "B", Goal.AT_MOST, 4_096),
        ),
        idle,
        fresh=True,
    ),
    Row(
        "amqp10-unsettled",
        (
            Figure(
                "AMQP 1.0: a replica's memory for a delivery that is kept for its link", "bytes", "B",
                Goal.AT_MOST, 200,
            ),
        ),
        unsettled,
        fresh=True,
    ),
    Row(
        "amqp091-to-10",
        (floor("published in AMQP 0-9-1, consumed in 1.0", 60_000),),
        lambda stage: throughput(
            stage, Place.OWNER, protocols=(Generator.AMQP_0_9_1, Generator.AMQP_1_0)
        ),
    ),
    Row(
        "amqp10-to-091",
        (floor("published in AMQP 1.0, consumed in 0-9-1", 60_000),),
        lambda stage: throughput(
            stage, Place.OWNER, protocols=(Generator.AMQP_1_0, Generator.AMQP_0_9_1)
        ),
    ),
)  # fmt: skip
"""Clients of AMQP 1.0, unsettled both ways where the row does not say otherwise."""

CLIENTS: tuple[Row, ...] = (
    of_sink("pika-publish", "pika, each publish after the confirm of the last", "pika"),
    of_sink("pika-publish-ahead", "pika, 100 publishes on their way", "pika"),
    of_sink("pika-consume", "pika, consuming", "pika"),
    of_sink("aio-pika-publish", "aio-pika, 100 publishes at once", "aio_pika"),
    of_sink("aio-pika-consume", "aio-pika, consuming", "aio_pika"),
    of_sink("celery-publish", "Celery, each task after the confirm of the last", "celery"),
    of_sink("celery-consume", "Celery, a worker with its default prefetch of 4", "celery"),
    of_sink("celery-consume-ahead", "Celery, a worker with a prefetch of 100", "celery"),
)
"""Real clients, as they are, each the only load of the nodes."""

ROWS: tuple[Row, ...] = (*MIXED, *OF_QUEUES, *ALIKE, *AMQP10, *CLIENTS)
