"""Nodes that stop in order, as after SIGTERM, with the product's own `Departure`."""

from __future__ import annotations

from cluster.process.departure import STEP_S, Departure
from cluster.process.handover import Handover
from tests.simulation.connection import Connection
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Action


class Doors:
    """The connections of a node's process (`cluster.process.departure.DepartingClients`)."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    @property
    def clients(self) -> dict[int, Connection]:
        living = (one for one in self._node.connections if not one.gone)
        return dict(enumerate(living))

    def close_ports(self) -> None:
        """Nothing to do: clients do not connect to a node that is not ready."""
        self._node.ready = False

    def stop(self) -> None:
        for connection in self.clients.values():
            connection.force_close("the node is shutting down")
            connection.hang_up()


def leave(node: SimulatedNode, ended: Action) -> None:
    """Have a node leave, and call back when its process has ended, unless a fault ends it before."""

    def handed_over(complete: bool) -> None:
        node.world.note(f"{node.name} has handed over{'' if complete else ', but for some partitions'}")
        node.leaving = True

    def step() -> None:
        if departure.step(node.clock()):
            node.end()
            ended()
        else:
            node.after(STEP_S, step)

    node.world.note(f"{node.name} leaves")
    broker = node.broker
    handover = Handover(broker.host, lambda: broker.connected)
    departure = Departure(handover, broker.links, Doors(node), broker.wanted, handed_over, node.clock())
    node.input(step)
