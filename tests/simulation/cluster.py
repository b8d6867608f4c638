"""A whole cluster with its clients in one process, driven by one seed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from node.refusal import Refusal
from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.inside import machine_of
from tests.simulation.checks import Agreement, check_memory, check_replicas
from tests.simulation.clients import Client, Place, Publisher
from tests.simulation.consumers import Consumer, Getter
from tests.simulation.feed import Feeds
from tests.simulation.front_ends import USERS, FrontEnds
from tests.simulation.groups import Groups
from tests.simulation.history import History, Message, QueueTerms, Receipt, Transaction
from tests.simulation.leases import Leases
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.node import NodeSettings, SimulatedNode
from tests.simulation.outages import Outages
from tests.simulation.postponed import Postponed
from tests.simulation.routes import Path, path_of
from tests.simulation.scripts import Answer, Caller, LostError, Script, Steps
from tests.simulation.transactors import KEEPING, Transactor
from tests.simulation.transactors import TARGETS as COMMITTED
from tests.simulation.trials.examiner import Examiner
from tests.simulation.world import Violation, World

NAMES = ("n1", "n2", "n3")
FIVE = (*NAMES, "n4", "n5")
VHOST = "/"

QUEUES = (
    QueueTerms("orders", ("n1", "n2", "n3")),
    QueueTerms("invoices", ("n1", "n2", "n3")),
    QueueTerms("events", ("n2", "n3", "n1"), at_most_once=True),
    QueueTerms("samples", ("n2", "n3", "n1"), no_ack=True),
    QueueTerms("local", ("n3",)),
)
OF_FIVE = {
    "orders": FIVE,
    "invoices": ("n3", "n4", "n5"),
    "samples": ("n4", "n5", "n1"),
}
"""The replicas of some queues in clusters of five founders."""

TARGETS = (
    ("orders",), ("orders",), ("invoices",), ("events",), ("samples",), ("local",),
    ("orders", "invoices"), ("orders", "events", "samples"), ("invoices", "local"),
)  # fmt: skip
"""The queues of each publisher's messages; a message for several queues may go to several partitions."""

PATIENCE_S = 60.0
"""The time within which the cluster must come to rest after the faults."""


@dataclass(slots=True)
class Shape:
    """The parameters of a simulation, as a seed chooses them. `names` are the founders."""

    settings: NodeSettings = field(default_factory=NodeSettings)
    network: NetworkFaults = field(default_factory=NetworkFaults)
    publishers: int = 4
    consumers: int = 7
    seconds: float = 4.0
    faultless: bool = False
    transactors: int = 0
    names: tuple[str, ...] = NAMES
    trials: tuple[tuple[str, ...], ...] = ()
    """The kinds of trials of each examiner (`tests.simulation.trials`)."""
    declare_s: float = 0.0
    """The mean time between two changes of the catalog, in seconds; 0 for none."""


class Cluster:
    """Three or five nodes, their network, the clients and their history.

    `newcomers` are nodes that may join later; they run from the beginning.
    """

    new = 0
    """The number of newcomers."""

    def __init__(self, seed: int, shape: Shape, node_type: type[SimulatedNode] = SimulatedNode) -> None:
        self.world = World(seed)
        self.shape = shape
        self.chance = self.world.chance("clients")
        self.outages = Outages(lambda: self.world.now)
        self.names = shape.names
        self.newcomers = tuple(f"n{len(self.names) + 1 + number}" for number in range(self.new))
        self.network = Network(self.world, self.names + self.newcomers, shape.network)
        self.history = History(QUEUES, self)
        self.agreement = Agreement()
        self.feeds = Feeds()
        self.sessions: list[Client] = []
        self.front_ends = FrontEnds()
        self.examiners = [Examiner(number, self, kinds) for number, kinds in enumerate(shape.trials)]
        self._examinations: list[Script] = []
        self.paths: dict[tuple[str, ...], Path] = {}
        self.leases = Leases(self.world, lambda: self.nodes.values())
        self.groups = Groups()
        self.postponed = Postponed(lambda: self.world.now)
        self.healed = False
        self.nodes: dict[str, SimulatedNode] = {}
        for name in self.names + self.newcomers:
            node = node_type(name, self.names, self.world, self.network, shape.settings)
            node.on_ready = self._node_ready
            node.on_death = self._node_died
            node.after_turn = self.turned
            node.after_message = self.received
            node.observers = lambda node, partition: (self.feeds.reader(node, partition),)
            self.nodes[name] = node
        self._drains: dict[str, Consumer] = {}
        self._drained: dict[str, bool] = {}

    def turned(self, node: SimulatedNode) -> None:
        """A node's event loop has made a turn: check the node."""
        self.agreement.leaders(node)
        self.look(node)

    def look(self, node: SimulatedNode) -> None:
        """Look at the owners on the node after a turn."""
        self.groups.check(node)
        self.postponed.check(node)

    def received(self, node: SimulatedNode) -> None:
        """A node has received a message from another one: check the node."""
        self.leases.check(node)
        self.groups.check(node)

    # -- circumstances (tests.simulation.history.Circumstances) ----------------------------------

    def now(self) -> float:
        return self.world.now

    def cut_off(self, receipt: Receipt) -> bool:
        return self.given_up(receipt.node, receipt.time)

    def given_up(self, node: str, since: float) -> bool:
        """Whether owners may have given up the node's front end since then, or directly before."""
        return self.outages.during(node, since)

    def disturbed(self, since: float) -> bool:
        return self.world.disturbed >= since

    def lost(self, receipt: Receipt) -> bool:
        node = self.nodes[receipt.node]
        if node.life != receipt.life or node.leaving:
            return True
        return self.given_up(receipt.node, receipt.time)

    def indispensable(self) -> set[str]:
        """The nodes whose disks must not be lost, because the other replicas would be no majority."""
        return {terms.replicas[0] for terms in QUEUES if len(terms.replicas) == 1}

    # -- the beginning --------------------------------------------------------------------------

    def start(self) -> None:
        """Start all nodes, declare all queues, and start all clients."""
        for node in self.nodes.values():
            node.start()
        founders = [self.nodes[name] for name in self.names]
        self._wait(lambda: all(node.ready for node in founders), "the nodes do not start")
        self._found_access()
        declarations = [Script(self.world, self._declare(terms)) for terms in QUEUES]
        self._wait(lambda: all(script.done for script in declarations), "the queues are not declared")
        routes = Script(self.world, self._declare_routes())
        self._wait(lambda: routes.done, "the exchanges are not declared")
        for _ in range(self.shape.publishers):
            self._add_publisher(self.nodes[self.chance.choice(self.names)])
        for terms in QUEUES:
            self._add_consumer(self.nodes[self.chance.choice(self.names)], terms)
        for _ in range(self.shape.consumers - len(QUEUES)):
            self._add_consumer(self.nodes[self.chance.choice(self.names)], self.chance.choice(QUEUES))
        for _ in range(self.shape.transactors):
            self._add_transactor(self.nodes[self.chance.choice(self.names)])
        self._examinations = [Script(self.world, one.run()) for one in self.examiners]
        self.world.after(1.0, self._sample)
        self.leases.start(self.shape.declare_s)

    def replicas_of(self, terms: QueueTerms) -> tuple[str, ...]:
        """The nodes of a queue's replicas at its declaration."""
        return terms.replicas if self.names == NAMES else OF_FIVE.get(terms.name, terms.replicas)

    def _found_access(self) -> None:
        """Make the first virtual host and a user with all permissions, as a new cluster does."""
        node, done = self.nodes[self.names[0]], []

        def answered(value: Any, refusal: Refusal | None) -> None:
            assert refusal is None, refusal
            done.append(value)

        arguments = {"vhost": VHOST, "users": USERS}
        node.input(lambda: node.broker.catalog.submit("found_access", arguments, answered))
        self._wait(lambda: bool(done), "the virtual host is not declared")

    def _declare(self, terms: QueueTerms) -> Steps:
        """Have a client declare a queue, and a client of any node use it at once (A16)."""
        replicas = self.replicas_of(terms)
        home = replicas[0] if len(replicas) == 1 else self.chance.choice(self.names)
        client = Caller(self.place(self.nodes[home]))
        declaration = m.QueueDeclare(terms.name, durable=True, arguments=terms.declared(len(replicas)))
        client = yield from self._ask(client, declaration)
        witness = Caller(self.place(self.nodes[self.chance.choice(self.names)]))
        witness = yield from self._ask(witness, m.QueueDeclare(terms.name, passive=True))
        client.leave()
        witness.leave()

    def _declare_routes(self) -> Steps:
        """Have one client declare the exchanges and bindings for messages to several queues."""
        client = Caller(self.place(self.nodes[self.chance.choice(self.names)]))
        for queues in sorted({*TARGETS, *COMMITTED}):
            self.paths[queues], declared = path_of(queues, self.chance)
            for method in declared:
                client = yield from self._ask(client, method)
        client.leave()

    def _ask(self, client: Caller, method: Method) -> Generator[Answer | float, Any, Caller]:
        """Ask until a client gets an answer, as nodes restart in the beginning, too. Returns that client."""
        while True:
            try:
                yield client.ask(method)
            except LostError:
                while not self.ready_nodes():
                    yield 0.1
                client = Caller(self.place(self.ready_nodes()[0]))
            else:
                return client

    def _wait(self, reached: Callable[[], bool], otherwise: str) -> None:
        self._until(lambda: None if reached() else otherwise)

    def _until(self, obstacle: Callable[[], str | None], patience: float = PATIENCE_S) -> None:
        """Let time pass until there is no obstacle any more."""
        limit = self.world.now + patience
        while (found := obstacle()) is not None:
            if self.world.now > limit:
                raise Violation(f"for {patience:.0f} s: {found}")
            self.world.run(self.world.now + 0.1)

    # -- clients --------------------------------------------------------------------------------

    @property
    def wall_clocks_stepped(self) -> bool:
        """Whether a fault has set a node's time of day."""
        return any(node.stepped for node in self.nodes.values())

    def ready_nodes(self) -> list[SimulatedNode]:
        """The nodes that take clients."""
        return [node for node in self.nodes.values() if node.ready]

    def place(self, node: SimulatedNode) -> Place:
        """The place for a client at the node's present process."""
        return Place(node, self.front_ends, self.history, self.chance)

    def _add_publisher(self, node: SimulatedNode) -> None:
        self.sessions.append(Publisher(self.place(node), self.chance.choice(TARGETS), self.paths))

    def _add_consumer(self, node: SimulatedNode, terms: QueueTerms) -> None:
        kind = Getter if self.chance.random() < 0.1 else Consumer
        self.sessions.append(kind(self.place(node), terms))

    def _add_transactor(self, node: SimulatedNode) -> None:
        terms = self.chance.choice([terms for terms in QUEUES if terms.name in KEEPING])
        self.sessions.append(Transactor(self.place(node), terms, self.paths))

    def _node_died(self, node: SimulatedNode) -> None:
        """End the clients of a node that has ended, or have them connect to another node."""
        for examiner in self.examiners:
            examiner.node_died(node)
        for session in [one for one in self.sessions if one.node is node]:
            self.sessions.remove(session)
            ready = [other for other in self.nodes.values() if other.ready]
            if ready and not self.healed and self.chance.random() < 0.6:
                self._replace(session, self.chance.choice(ready))

    def _replace(self, session: Client, node: SimulatedNode) -> None:
        if isinstance(session, Transactor):
            self._add_transactor(node)
        elif isinstance(session, Consumer):
            self._add_consumer(node, session.terms)
        else:
            self._add_publisher(node)

    def _node_ready(self, node: SimulatedNode) -> None:
        """Have clients connect to a node that is ready again."""
        if self.history.delivered and not self.healed:
            if self.chance.random() < 0.7:
                self._add_publisher(node)
            self._add_consumer(node, self.chance.choice(QUEUES))

    def close_some_consumer(self) -> None:
        """Have a consumer cancel, and start another one."""
        consumers = [one for one in self.sessions if isinstance(one, Consumer) and one.attached]
        if consumers:
            consumer = self.chance.choice(consumers)
            consumer.node.input(consumer.close)
            self.sessions.remove(consumer)
            ready = [node for node in self.nodes.values() if node.ready]
            if ready:
                self._replace(consumer, self.chance.choice(ready))

    def _sample(self) -> None:
        for node in self.nodes.values():
            if node.up:
                self.agreement.states(node)
                self.feeds.check(node)
        self.world.after(1.0, self._sample)

    # -- the end --------------------------------------------------------------------------------

    def members(self) -> list[SimulatedNode]:
        """The nodes that belong to the cluster in the end."""
        return list(self.nodes.values())

    def _some_member(self) -> SimulatedNode:
        return self.chance.choice(self.members())

    def settle(self) -> None:
        """After the faults, check that every confirmed message is delivered and settled, and all replicas
        agree.
        """
        self.healed = self.leases.over = True
        self._wait(lambda: all(node.ready for node in self.members()), "the nodes do not come back")
        for session in self.sessions:
            if isinstance(session, Consumer):
                session.node.input(session.hurry)
            elif isinstance(session, Publisher):
                session.stopped = True
        for examiner in self.examiners:
            examiner.stopped = True
        for terms in QUEUES:
            drain = Consumer(self.place(self._some_member()), terms)
            drain.finishing = True
            self.sessions.append(drain)
            self._drains[terms.name] = drain
        self.world.note("draining")
        limit = self.world.now + PATIENCE_S
        while not self._at_rest():
            if self.world.now > limit:
                raise Violation(self._unrest())
            self.world.run(self.world.now + 0.25)
        self._check_agreement()

    def _keeps(self, queue: QueueTerms, message: Message) -> bool:
        if self.shape.faultless:
            return True
        return message.persistent and not queue.removing and not queue.transient

    def _at_rest(self) -> bool:
        if any(isinstance(one, Publisher) and one.outstanding for one in self.sessions):
            return False
        if any(isinstance(one, Transactor) and one.committing for one in self.sessions):
            return False
        if self.history.unfinished(self._keeps) or self._in_doubt():
            return False
        if not all(script.done for script in self._examinations):
            return False
        for terms in QUEUES:
            self._ask_depth(terms.name)
        return all(self._drained.get(terms.name) for terms in QUEUES)

    def _in_doubt(self) -> list[str]:
        """The transactions whose outcome some partition does not know."""
        return [
            f"{node.name}, partition {owner.partition}: {key}"
            for node in self.members()
            for owner in node.broker.owners.values()
            for key in (*machine_of(owner).transactions.prepared, *machine_of(owner).transactions.decided)
        ]

    def _ask_depth(self, queue: str) -> None:
        def answered(answer: Method) -> None:
            assert isinstance(answer, m.QueueDeclareOk)
            self._drained[queue] = answer.message_count == 0

        drain = self._drains[queue]
        if drain.attached:
            drain.request(m.QueueDeclare(queue, passive=True), answered)

    def _unrest(self) -> str:
        lost = [f"{queue}: {message}" for queue, message in self.history.unfinished(self._keeps)]
        waiting = [
            f"publisher {one.id} on {one.node.name} waits for {one.outstanding} confirms"
            for one in self.sessions
            if isinstance(one, Publisher) and one.outstanding
        ]
        deep = [name for name in (terms.name for terms in QUEUES) if not self._drained.get(name)]
        return (
            f"{PATIENCE_S:.0f} s after the faults ended: {len(lost)} confirmed messages are lost or stuck "
            f"({'; '.join(lost[:4])}), queues not empty: {deep}, {'; '.join(waiting) or 'all confirmed'}, "
            f"transactions in doubt: {self._in_doubt()[:4]}, "
            f"trials: {[one.doing for one in self.examiners if not one.idle]}"
        )

    def _check_agreement(self) -> None:
        nodes = self.members()
        for transaction in self.history.transactions:
            transaction.check()
            if self.shape.faultless:
                self._check_answer(transaction)
        self._until(lambda: check_replicas(nodes), 15.0)
        for node in nodes:
            self.agreement.states(node)
            self.feeds.check(node)
        self._until(lambda: check_memory(nodes), 15.0)

    def _check_answer(self, transaction: Transaction) -> None:
        """Check that without faults no commit is refused, and that every commit has an answer, except those
        of clients of a node that was removed.
        """
        if transaction.refused:
            raise Violation("a commit is refused without a reason")
        if transaction.answer is None and self.nodes[transaction.node].life == transaction.life:
            raise Violation(f"a commit is not answered on {transaction.node}, which is alive")
