"""The nodes of a scenario and what happens to them, without their clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.catalog.definitions import MemberState, NodeDefinition
from cluster.catalog.replica import CATALOG
from cluster.catalog.state import CatalogState
from node.queue.operations import Semantics
from node.refusal import Refusal
from tests.inside import state_of
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.node import NodeSettings, SimulatedNode
from tests.simulation.world import World

SEED = 1
PATIENCE_S = 20.0
_DRAINING = MemberState.DRAINING


class ScenarioNodes:
    """The nodes, and what was told since the last command. `do_*` are commands, with what they say."""

    def __init__(self) -> None:
        self.world = World(SEED)
        self.nodes: dict[str, SimulatedNode] = {}
        self.told: list[str] = []
        self._owners: dict[int, tuple[int, str]] = {}
        self._mends: list[Callable[[], None]] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    # -- the cluster ----------------------------------------------------------------------------

    def do_nodes(self, *words: str) -> str:
        """nodes n1 n2 n3 [and n4]: start them; those behind `and` are to be added later."""
        founders = words[: words.index("and")] if "and" in words else words
        names = tuple(word for word in words if word != "and")
        self.network = Network(self.world, names, NetworkFaults())
        settings = NodeSettings(snapshot_bytes=2048, segment_bytes=8192, cache_bytes=1024)
        for name in names:
            node = self.nodes[name] = SimulatedNode(name, founders, self.world, self.network, settings)
            node.after_turn = self._look_at_owners
            node.start()
        self._until(lambda: all(self.nodes[name].ready for name in founders))
        if names != founders:
            found = {"nodes": {name: {"peers": name} for name in founders}}
            self._submit(self.nodes[founders[0]], "found_members", found)
        return f"{' '.join(founders)} are ready"

    def do_queue(self, name: str, *words: str) -> str:
        """queue q n1 n2 n3 [at-most-once] [x-message-ttl=100]: declare a queue on these replicas, at the
        first of them; the parts behind the first of one with `x-owners` at the next ones.
        """
        replicas = [word for word in words if word in self.nodes]
        arguments = dict(map(argument, (word for word in words if "=" in word)))
        semantics = Semantics.AT_MOST_ONCE if "at-most-once" in words else Semantics.AT_LEAST_ONCE
        parts = [[replicas[at:] + replicas[:at], []] for at in range(1, arguments.get("x-owners", 1))]
        declaration = {
            "vhost": "/", "name": name, "replicas": replicas, "transient": False, "durable": True,
            "exclusive": False, "auto_delete": False, "arguments": arguments, "semantics": int(semantics),
            "front_end": 0, "holder": 0, "parts": parts,
        }  # fmt: skip
        for command, given in (("declare_vhost", {"vhost": "/"}), ("declare_queue", declaration)):
            self._submit(self.nodes[replicas[0]], command, given)
        self._until(lambda: all(self._is_owned(one) for one in self._parts(name)))
        return f"{name} is declared"

    def _parts(self, queue: str) -> list[str]:
        """The queue, and its hidden parts."""
        state = self._newest()
        return [queue, *(one.name for one in state.owner_parts.of(state.queue("/", queue))[1:])]

    def _is_owned(self, queue: str) -> bool:
        """Whether an owner has created the queue: publishes come later."""
        definition = self._newest().queue("/", queue)
        owners = (node.broker.owners.get(definition.partition) for node in self.nodes.values() if node.up)
        return any(owner is not None and definition.id in owner.queues for owner in owners)

    def do_policy(self, name: str, queue: str, setting: str) -> str:
        """policy p q recovery-point=epoch: a policy gives a queue a setting."""
        key, value = argument(setting)
        policy = {
            "name": name, "pattern": f"^{queue}$", "apply_to": "queues", "priority": 0,
            "definition": {key: value},
        }  # fmt: skip
        some = next(node for node in self.nodes.values() if node.ready)
        self._submit(some, "put_policy", {"vhost": "/", "operator": False, "policy": policy})
        return f"{queue} has {setting}"

    def do_catalog(self, name: str) -> str:
        """catalog n1: have this node lead the catalog."""
        leader = next(node for node in self.nodes.values() if node.up and node.broker.catalog.leads)
        if leader.name != name:
            leader.broker.host.hand_over(CATALOG, name, leader.clock())
        self._until(lambda: self.nodes[name].broker.catalog.leads)
        return f"{name} leads the catalog"

    # -- members --------------------------------------------------------------------------------

    def do_add(self, name: str) -> str:
        """add n4: let a node join."""
        return self._member("add_member", name=name, peers=name)

    def do_drain(self, name: str) -> str:
        """drain n2: move everything away from it."""
        return self._member("drain_member", name=name)

    def do_keep(self, name: str) -> str:
        """keep n2: it is not to be drained or removed after all."""
        return self._member("keep_member", name=name)

    def do_remove(self, name: str, _for: str = "", heir: str = "") -> str:
        """remove n2 [for n4]: drain it and forget it; what it has goes to that node."""
        return self._member("remove_member", name=name, heir=heir)

    def _member(self, command: str, **arguments: str) -> str:
        some = next(node for node in self.nodes.values() if node.ready)
        return f"{arguments['name']} is {self._submit(some, command, arguments)}"

    def do_settled(self) -> str:
        """settled: let the time pass until nothing moves any more, and show the members."""
        self._until(lambda: not self._moving())
        return self.do_members()

    def _moving(self) -> bool:
        """Whether the newest catalog wants anything that is not so."""
        state = self._newest()
        going = (MemberState.JOINING, MemberState.LEAVING)
        return (
            state.members.spreading
            or any(one.move is not None for one in state.table.replicated())
            or any(node.state in going for node in state.nodes.values())
            or any(self._held(state, node) for node in state.nodes.values() if node.state is _DRAINING)
        )

    def do_members(self) -> str:
        """members: who belongs to the cluster, and which queues each has and owns."""
        state = self._newest()
        lines = []
        for node in state.nodes.values():
            owned = [name for name, life in self._owned(state) if life.split()[0] == node.name]
            has = " ".join(self._held(state, node)) or "nothing"
            owns = f", owns {' '.join(owned)}" if owned else ""
            lines.append(f"{node.name} is {node.state.value}: has {has}{owns}")
        return "\n".join(sorted(lines))

    def _newest(self) -> CatalogState:
        nodes = [node for node in self.nodes.values() if node.up]
        return max(nodes, key=lambda node: node.broker.catalog.applied_index).broker.catalog.state

    def _held(self, state: CatalogState, node: NodeDefinition) -> list[str]:
        partitions = {one.id for one in state.table.replicated() if node.name in one.replicas}
        return sorted(queue.name for queue in state.queues.values() if queue.partition in partitions)

    def _owned(self, state: CatalogState) -> list[tuple[str, str]]:
        queues = sorted((queue.name, queue.partition) for queue in state.queues.values())
        return [(name, self._owners.get(partition, (0, " "))[1]) for name, partition in queues]

    # -- asking the catalog ---------------------------------------------------------------------

    def _submit(self, node: SimulatedNode, command: str, arguments: dict[str, Any]) -> Any:
        """The answer, which may be a refusal."""
        done: list[Any] = []

        def answer(value: Any, refusal: Refusal | None) -> None:
            done.append(value if refusal is None else refusal)

        node.broker.catalog.submit(command, arguments, answer)
        self._until(lambda: bool(done))
        return done[0]

    def _partition(self, queue: str) -> int:
        some = next(node for node in self.nodes.values() if node.up)
        return some.broker.catalog.state.queue("/", queue).partition

    def do_run(self, seconds: str) -> None:
        """run 0.5: let the time pass."""
        self.world.run(self.world.now + float(seconds))

    def _until(self, reached: Callable[[], bool]) -> None:
        limit = self.world.now + PATIENCE_S
        while not reached():
            assert self.world.now < limit, "this takes too long"
            self.world.run(self.world.now + 0.01)

    def _look_at_owners(self, node: SimulatedNode) -> None:
        queues = node.broker.catalog.state.queues.values()
        for partition, owner in node.broker.owners.items():
            # One that does not know yet that there is another owner, of a later term, is none any more.
            known = self._owners.get(partition, (0, ""))
            now = (owner.term, f"{node.name} {node.life}")
            if owner.active and state_of(owner).durable and now[0] >= known[0] and now[1] != known[1]:
                self._owners[partition] = now
                names = sorted(queue.name for queue in queues if queue.partition == partition)
                if names:
                    self.tell(f"{node.name} owns {' '.join(names)}")

    # -- faults ---------------------------------------------------------------------------------

    def do_kill(self, *names: str) -> None:
        """kill n1: SIGKILL; its clients are gone with it."""
        for name in names:
            self.nodes[name].stop(power=False)

    def do_power(self, *names: str) -> None:
        """power n1 n2 n3: these machines lose power at once."""
        for name in names:
            self.nodes[name].stop(power=True)

    def do_wipe(self, name: str) -> None:
        """wipe n2: its disk is replaced by an empty one."""
        self.nodes[name].lose_disk()

    def do_start(self, *names: str) -> None:
        """start n1: start the process again."""
        for name in names:
            self.nodes[name].start()

    def do_freeze(self, name: str) -> None:
        """freeze n1: SIGSTOP."""
        self.nodes[name].pause()

    def do_wake(self, name: str) -> None:
        """wake n1: SIGCONT."""
        self.nodes[name].resume()

    def do_cut(self, name: str, *others: str) -> None:
        """cut n1 [n3]: nothing passes between it and these others, or all others."""
        others = others or tuple(other for other in self.nodes if other != name)
        self._mends.append(
            self.network.cut([(name, one) for one in others] + [(one, name) for one in others])
        )

    def do_mend(self) -> None:
        """mend: everything passes again."""
        for mend in self._mends:
            mend()
        self._mends.clear()


def argument(word: str) -> tuple[str, Any]:
    """A queue's argument: `x-message-ttl=100`, `x-redelivery-backoff=100,2,900`."""
    name, _, value = word.partition("=")
    if name == "x-redelivery-backoff":
        return name, dict(zip(("initial", "factor", "maximum"), map(int, value.split(",")), strict=True))
    return name, int(value) if value.isdigit() else {"true": True}.get(value, value)
