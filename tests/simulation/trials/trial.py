"""A trial: a few clients with queues and exchanges of their own carry out steps with a known result.

The result must hold under all faults. A trial whose client is lost with its node is given up without a
verdict.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.placement import RestartedError
from node.refusal import NotFoundError, Refusal
from node.wire.amqp091 import methods as m
from replication.raft import NotLeaderError
from tests.simulation.clients import Place
from tests.simulation.groups import Groups
from tests.simulation.links import LinkReceiver
from tests.simulation.node import SimulatedNode
from tests.simulation.outages import Outages
from tests.simulation.postponed import Postponed
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.world import Violation, World

PAUSE_S = 0.05
SLACK_S = 0.15
"""The tolerance of times: nodes' times of day differ by up to 40 ms, clocks drift by 50 ms a second, turns
are late.
"""


T = TypeVar("T", bound=Prover)


class Nodes(Protocol):
    """The cluster, as trials use it."""

    world: World
    outages: Outages
    groups: Groups
    postponed: Postponed

    def given_up(self, node: str, since: float) -> bool:
        """Whether owners may have given up the node's front end since then, or directly before."""

    @property
    def wall_clocks_stepped(self) -> bool: ...

    def place(self, node: SimulatedNode) -> Place: ...

    def ready_nodes(self) -> list[SimulatedNode]: ...


def _hand_over(node: SimulatedNode, partition: int, heir: str) -> None:
    with suppress(NotLeaderError):
        node.broker.host.hand_over(partition, heir, node.clock())
    node.wanted()


IN_FILE = 0.4
"""The share of trials whose queues keep ranges and annotations in a file."""


class Trial:
    """One trial. The names of its queues and exchanges have `name` in them."""

    def __init__(self, nodes: Nodes, name: str, chance: random.Random) -> None:
        self.nodes = nodes
        self.name = name
        self.chance = chance
        self.began = nodes.world.now
        self.provers: list[Prover] = []
        self.receivers: list[LinkReceiver] = []
        self.queues: list[str] = []
        self.exchanges: list[str] = []
        self.policies: list[str] = []
        # Whether the trial's queues keep ranges and annotations in a file.
        self._in_file = nodes.world.chance(f"file of {name}").random() < IN_FILE
        self.timed = False
        """Whether messages wait for a time of day, which may take an hour on a node whose time was
        set back.
        """

    @property
    def now(self) -> float:
        return self.nodes.world.now

    @property
    def calm(self) -> bool:
        """Whether no owner has changed and no connection has broken since the trial began."""
        return self.nodes.world.disturbed < self.began

    @property
    def times_hold(self) -> bool:
        """Whether no fault has set a time of day."""
        return not self.nodes.wall_clocks_stepped

    def expect(self, held: bool, what: str) -> None:
        if not held:
            raise Violation(f"{self.name}: {what}")

    # -- clients --------------------------------------------------------------------------------

    def prover(self) -> Prover:
        """A client at some node, at another one in each call where possible. Raises LostError."""
        return self.client(Prover)

    def client(self, kind: type[T]) -> T:
        """A client of a kind, as `prover`."""
        used = {one.node for one in self.provers}
        ready = self.nodes.ready_nodes()
        fresh = [node for node in ready if node not in used] or ready
        if not fresh:
            raise LostError
        prover = kind(self.nodes.place(self.chance.choice(fresh)))
        self.provers.append(prover)
        return prover

    def receiver(
        self, queue: str, link_credit: int, marks: count[int], backlog: int | None = None
    ) -> LinkReceiver:
        """A client of AMQP 1.0 at some node, with a link to the queue. Raises LostError."""
        ready = self.nodes.ready_nodes()
        if not ready:
            raise LostError
        place = self.nodes.place(self.chance.choice(ready))
        receiver = LinkReceiver(place, queue, link_credit, marks, backlog)
        self.receivers.append(receiver)
        return receiver

    @property
    def clients(self) -> list[Prover | LinkReceiver]:
        return [*self.provers, *self.receivers]

    def pause(self, seconds: float = PAUSE_S) -> Steps:
        """Let time pass. Raises LostError where a client was lost with its node meanwhile."""
        yield seconds
        if any(client.gone for client in self.clients):
            raise LostError

    def queue(self, prover: Prover, suffix: str = "", **arguments: Any) -> Answer:
        """Declare a replicated queue; arguments have underscores for hyphens. Adds its name to `queues`."""
        name = f"{self.name}{suffix}"
        if name not in self.queues:
            self.queues.append(name)
        if self._in_file and not arguments.keys() & {"queue_type", "owners"}:
            arguments["file_backed_metadata"] = True
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items() if value is not None}
        return prover.ask(m.QueueDeclare(name, durable=True, arguments=named))

    def grave(self, prover: Prover) -> tuple[Answer, dict[str, str]]:
        """Declare a queue for dead letters; returns also the arguments of queues that send theirs to it."""
        answer = self.queue(prover, " grave")
        arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": f"{self.name} grave"}
        # The body is made anew, and is the same.
        return answer, {**arguments, "dead_letter_template": "{{data}}"}

    def put_view(self, name: str, terms: dict[str, Any], *, parts: bool = False) -> Answer:
        """Define a view over the trial's queue, at any node, as its HTTP API does. `parts`: the queue has
        several owners.
        """
        view = {"name": name, "queue": self.name, **terms}
        return self._administer("put_view", {"view": view, **({"parts": True} if parts else {})})

    def put_policy(self, definition: dict[str, Any], suffix: str = "") -> Answer:
        """Set a policy for the queue of this trial with a suffix, at any node, as its HTTP API does."""
        policy = {
            "name": self.name, "pattern": f"^{self.name}{suffix}$", "apply_to": "queues", "priority": 0,
            "definition": definition,
        }  # fmt: skip
        self.policies = [self.name]
        return self._administer("put_policy", {"operator": False, "policy": policy})

    def drop_policy(self) -> Answer:
        return self._administer("delete_policy", {"operator": False, "name": self.name})

    def _administer(self, command: str, arguments: dict[str, Any]) -> Answer:
        """Give a command to the catalog at the node of one of the trial's clients."""
        answer = Answer()
        node = self.provers[-1].node
        self.provers[-1].wait_for(answer)
        full = {"vhost": "/", **arguments}

        def submit() -> None:
            node.broker.catalog.submit(command, full, answered)
            node.wanted()

        def answered(_: Any, refusal: Refusal | None) -> None:
            if isinstance(refusal, RestartedError):
                # The node got the catalog as a snapshot, and does not know the command's result.
                submit()
                return
            gone = command.startswith("delete") and isinstance(refusal, NotFoundError)
            self.expect(refusal is None or gone, f"{command} is refused: {refusal}")
            answer.give()

        node.input(submit)
        return answer

    def owner_of(self, queue: str) -> tuple[SimulatedNode, QueueDefinition] | None:
        """The node that owns a queue, and the queue; None where no node knows that it does."""
        for node in self.nodes.ready_nodes():
            found = node.broker.catalog.state.queues.get(("/", queue))
            owner = None if found is None else node.broker.owners.get(found.partition)
            if found is not None and owner is not None and owner.active:
                return node, found
        return None

    def move(self, node: SimulatedNode, queue: QueueDefinition) -> None:
        """Have another node own a queue, as its owner does when it stops."""
        group = node.broker.host.groups[queue.partition].raft
        heirs = sorted(group.membership.voters - {node.name})
        node.input(partial(_hand_over, node, queue.partition, self.chance.choice(heirs)))

    # -- what is left ---------------------------------------------------------------------------

    def take(
        self,
        prover: Prover,
        queue: str,
        wanted: Iterable[str],
        into: list[Received],
        *,
        no_ack: bool = False,
        settler: Prover | None = None,
    ) -> Steps:
        """Get and acknowledge until all wanted messages have come and the queue is empty. With `no_ack` get
        without acknowledgement, which loses no message and gets none twice.

        Raises LostError where a fault has set a time of day, so that messages may not come, and where the
        node of `settler` was lost, on whose settlements the messages depend.
        """
        missing = set(wanted)
        while True:
            got = yield prover.get(queue, no_ack=no_ack)
            if settler is not None and self._may_be_back(settler):
                raise LostError
            if got is not None:
                again = no_ack and any(got.body == one.body for one in into)
                self.expect(not again, f"{got.body} came twice, which is removed before it comes")
                if not no_ack:
                    prover.ack(got)
                into.append(got)
                missing.discard(got.body)
            elif missing and self.timed and not self.times_hold:
                raise LostError
            elif missing:
                self.nodes.world.note(f"{self.name}: {queue} still lacks {sorted(missing)[:5]}")
                yield PAUSE_S
            else:
                return

    def _may_be_back(self, settler: Prover) -> bool:
        """Whether messages that this client settled last may be in their queue again."""
        return settler.gone or self.nodes.outages.during(settler.node.name, self.began)

    def spared(self, gone: Iterable[str], taken: list[Received]) -> list[str]:
        """The messages over a limit that came, because an owner waited for a fresh catalog before it dropped
        anything: consumers that have credit meanwhile get them.
        """
        came = {one.body for one in taken}
        return [body for body in gone if body in came and self.nodes.postponed.since(self.queues, self.began)]

    def check_taken(self, wanted: Iterable[str], taken: list[Received]) -> None:
        """Check that no other message came, and none twice except those that had been lost on their way."""
        wanted = set(wanted)
        bodies = [one.body for one in taken]
        strange = [body for body in bodies if body not in wanted]
        self.expect(not strange, f"{strange[:5]} came, which should not be there")
        seen: dict[str, Received] = {}
        for one in taken:
            first = seen.setdefault(one.body, one)
            given_up = self.nodes.outages.during(first.node, first.time)
            self.expect(first is one or (given_up and one.redelivered), f"{one.body} came twice")


Kind = Callable[[Trial], Steps]
