"""Scenarios of a whole cluster: text files of commands and what happens, to be read by people.

A line `> command` is followed by its expected output; lines that begin with `#` and empty lines are
prose. Time stands still except in `run`, `nodes` and `queue`. Messages are named by their contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cluster.gateway.commits import PartitionShares, Share
from cluster.gateway.link import PartitionLink
from cluster.gateway.state import NO_HOLDER, Confirmation, LinkConsumer
from cluster.peers.link_messages import FIRST_CONSUMER, Delivery
from node.delivery.settlements import NO_TOKEN, Outcome
from node.message.run import Run
from node.queue.features.registry import rules_of
from node.queue.transactions import TransactionTable
from node.ranges.range_set import Numbers, numbers_of
from node.refusal import Refusal
from tests.cluster.test_redelivery import redeliver
from tests.inside import machine_of
from tests.messages import content as content_of
from tests.messages import parts, run_of
from tests.scenarios.nodes import PATIENCE_S, ScenarioNodes
from tests.simulation.checks import states_of
from tests.simulation.node import SimulatedNode


class Client:
    """One client: publishes, or consumes one queue (`node.session.subscriber.Subscriber`)."""

    def __init__(self, stage: Stage, name: str, node: SimulatedNode, queue: str) -> None:
        self.stage = stage
        self.name = name
        self.queue = queue
        self.definition = node.broker.catalog.state.queue("/", queue)
        self.link: PartitionLink = node.broker.links.to(self.definition.partition)
        self.published: list[str] = []
        self.leased: dict[str, int] = {}
        self.consumer = 0

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        names = []
        for sequence, content in zip(numbers, run.contents(), strict=True):
            name = parts(content)[1].decode()
            names.append(name)
            self.leased[name] = sequence
        again = " again" if redelivered else ""
        self.stage.tell(f"{self.name} gets {' '.join(names)}{again}")

    def confirm(self, channel: int, first: int, last: int) -> None:
        self.stage.tell(f"{self.name}: {' '.join(self.published[first - 1 : last])} confirmed")

    def reject(self, channel: int, first: int, last: int) -> None:
        self.stage.tell(f"{self.name}: {' '.join(self.published[first - 1 : last])} refused")

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        self.stage.tell(f"{self.name} is cancelled")

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        """Ignored: the scenario gives its consumers their credit."""

    def unblocked(self) -> None:
        """Ignored: a few small messages fill no link."""


class Stage(ScenarioNodes):
    """The nodes, the clients, and what was told since the last command."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}
        self._consumers = FIRST_CONSUMER

    def command(self, line: str) -> list[str]:
        """Carry out one command; what happened."""
        name, *words = line.split()
        self.told = []
        answer = getattr(self, f"do_{name}")(*words)
        return [*self.told, *([answer] if answer else [])] or ["ok"]

    # -- clients --------------------------------------------------------------------------------

    def _client(self, name: str, node: str, queue: str) -> Client:
        client = self.clients.get(name)
        if client is None or client.queue != queue:
            client = self.clients[name] = Client(self, name, self.nodes[node], queue)
        return client

    def do_publish(self, name: str, _at: str, node: str, queue: str, *contents: str) -> None:
        """publish p at n2 q a b c [expiration=100] [priority=3] [header=value]: a client publishes messages,
        in one run.
        """
        client = self._client(name, node, queue)
        first = len(client.published) + 1
        properties = properties_of(word for word in contents if "=" in word)
        names = [word for word in contents if "=" not in word]
        client.published += names
        run = run_of((content_of(one.encode(), delivery_mode=2, **properties) for one in names), key=queue)
        confirmation = Confirmation(client, 1, first, len(client.published), 1)
        client.link.publish(run, [client.definition.id], confirmation)

    def do_consume(self, name: str, _at: str, node: str, queue: str, limit: str) -> None:
        """consume c at n3 q 10: a client that takes up to 10 messages."""
        client = self._client(name, node, queue)
        self._consumers += 1
        described = rules_of(client.definition.settings).described
        client.consumer = self._consumers
        holder = self._consumers if described.by_consumer else NO_HOLDER
        consumer = LinkConsumer(
            self._consumers, client.definition.id, client, int(limit), False, False, 0,
            holder=holder, single_active=described.takes_turns,
        )  # fmt: skip
        client.link.attach(
            consumer, lambda value, _: self.tell(f"{name} consumes") if value is None else None
        )

    def do_credit(self, name: str, limit: str) -> None:
        """credit c 11: the client takes up to 11 messages in all."""
        client = self.clients[name]
        client.link.credit(client.consumer, int(limit))

    def do_settle(self, name: str, *contents: str) -> None:
        """settle c a b: the client has them for good."""
        self._each(name, contents, lambda client, at: client.link.settle(client.definition.id, [(at, at)]))

    def do_reject(self, name: str, *contents: str) -> None:
        """reject c a b: the client rejects them, and no other client gets them."""
        self._each(name, contents, lambda client, at: client.link.discard(client.definition.id, [(at, at)]))

    def do_return(self, name: str, *contents: str) -> None:
        """return c a b: the client gives them back."""
        self._each(
            name,
            contents,
            lambda client, at: client.link.give_back(client.definition.id, [(at, at)], failed=False),
        )

    def do_fail(self, name: str, *contents: str) -> None:
        """fail c a b: the client had them, and gives them back."""
        self._each(
            name,
            contents,
            lambda client, at: client.link.give_back(client.definition.id, [(at, at)], failed=True),
        )

    def do_recover(self, name: str, *contents: str) -> None:
        """recover c a b: the client wants to have them again (basic.recover without requeue)."""
        client = self.clients[name]
        number = client.consumer
        self._each(
            name,
            contents,
            lambda client, at: redeliver(client.link, client.definition.id, number, [(at, at)]),
        )

    def _each(self, name: str, contents: tuple[str, ...], act: Callable[[Client, int], None]) -> None:
        client = self.clients[name]
        for content in contents:
            act(client, client.leased.pop(content))

    def do_commit(self, name: str, _at: str, node: str, *words: str) -> None:
        """commit c at n3 q:a r:b settle=x: a client publishes and settles in one transaction."""
        shares: PartitionShares = {}
        for word in words:
            if ":" in word:
                queue, content = word.split(":")
                client = Client(self, name, self.nodes[node], queue)
                run = run_of([content_of(content.encode(), delivery_mode=2)], key=queue)
                shares.setdefault(client.link, Share()).publishes.append((run, [client.definition.id]))
            else:
                client = self.clients[name]
                at = client.leased.pop(word.removeprefix("settle="))
                settled = (client.definition.id, Outcome.ACCEPTED, NO_TOKEN, b"", [(at, at)])
                shares.setdefault(client.link, Share()).settled.append(settled)

        def answered(refusal: Refusal | None) -> None:
            self.tell(f"{name}: {'committed' if refusal is None else refusal.text}")

        self.nodes[node].commits.commit(shares, answered)

    def do_get(self, name: str, _at: str, node: str, queue: str) -> None:
        """get g at n1 q: basic.get."""
        client = self._client(name, node, queue)

        def got(value: Any, delivery: Delivery | None) -> None:
            if delivery is None:
                self.tell(f"{name} gets nothing")
            else:
                numbers = numbers_of(delivery.ranges)
                client.deliver(0, delivery.run, numbers, delivery.redelivered, 0)

        client.link.request("get", [client.definition.id, False], got)

    # -- looking --------------------------------------------------------------------------------

    def do_depth(self, queue: str, _at: str, node: str) -> None:
        """depth q at n1: what a client on n1 is told of the queue."""
        client = Client(self, "", self.nodes[node], queue)
        client.link.request("count", [client.definition.id], partial(self._depth, queue))

    def _depth(self, queue: str, value: Any, _delivery: Delivery | None) -> None:
        ready, consumers, leased, scheduled = value
        later = f", {scheduled} scheduled" if scheduled else ""
        self.tell(f"{queue} has {ready} ready, {leased} leased, {consumers} consumers{later}")

    def do_serving(self) -> str:
        """serving: which nodes may serve clients: their catalogs show all that any client was told."""
        return " ".join(
            node.name for node in self.nodes.values() if node.up and node.broker.catalog.fresh(node.clock())
        )

    def do_transactions(self, queue: str) -> str:
        """transactions q: what the owner of the queue's partition keeps of transactions."""
        table = self._transactions(queue)
        kept = {"prepared": table.prepared, "decided": table.decided, "abandoned": table.abandoned}
        return ", ".join(f"{len(keys)} {state}" for state, keys in kept.items())

    def do_await(self, state: str, queue: str) -> None:
        """await decided q: let the time pass until the owner keeps a transaction in such a state."""
        limit = self.world.now + PATIENCE_S
        while not getattr(self._transactions(queue), state):
            assert self.world.now < limit, "this takes too long"
            self.world.run(self.world.now + 0.0005)

    def _transactions(self, queue: str) -> TransactionTable:
        partition = self._partition(queue)
        owners = [node.broker.owners.get(partition) for node in self.nodes.values() if node.up]
        return machine_of(next(one for one in owners if one is not None and one.active)).transactions

    def do_replicas(self, queue: str) -> str:
        """replicas q: whether they are equal, and which of them began with a snapshot of another one."""
        partition = self._partition(queue)
        states: dict[str, tuple[int, int, bytes]] = {}
        rebuilt = []
        for node in self.nodes.values():
            if node.up and partition in node.broker.partitions.replicas:
                states[node.name] = next(state for state in states_of(node) if state[0] == partition)
                if node.journal.log(partition).installation:
                    rebuilt.append(node.name)
        equal = "equal" if len(set(states.values())) == 1 else "different"
        tail = f"; rebuilt from a snapshot: {' '.join(rebuilt)}" if rebuilt else ""
        return f"replicas on {' '.join(states)} are {equal}{tail}"


def properties_of(words: Iterable[str]) -> dict[str, Any]:
    """Properties as pika names them, `expiration=100`, `priority=3` or `message_id=x`, and headers."""
    properties: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in ("expiration", "message_id"):
            properties[name] = value
        elif name == "priority":
            properties[name] = int(value)
        else:
            headers = properties.setdefault("headers", {})
            headers[name] = int(value) if value.isdigit() else value
    return properties


def replay(text: str) -> str:
    """The scenario with the output that it has now."""
    stage = Stage()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *stage.command(line[2:])]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines) + "\n"
