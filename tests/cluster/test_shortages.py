"""A node that is short of memory or disk holds publishers back on all nodes, until the shortage is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cluster.process.shortages import SHORTAGES_INTERVAL_S, Shortages
from cluster.system.resources import DISK, MEMORY

NODES = ("n1", "n2", "n3")
NOTHING: frozenset[str] = frozenset()


class Nodes:
    """Three nodes and the messages between them; `cut` has the nodes that no other node reaches."""

    def __init__(self) -> None:
        self.cut: set[str] = set()
        self.lossy = False
        self.now = 100.0
        self.told: dict[str, list[str | None]] = {node: [] for node in NODES}
        self.on_the_way: deque[tuple[str, str, Sequence[bytes]]] = deque()
        self.shortages = {node: self._node(node) for node in NODES}

    def _node(self, node: str) -> Shortages:
        def send(peer: str, parts: Sequence[bytes]) -> None:
            if not self.lossy:
                self.on_the_way.append((node, peer, parts))

        def reachable() -> list[str]:
            return [one for one in NODES if one != node and not {one, node} & self.cut]

        return Shortages(node, send, reachable, self.told[node].append)

    def notice(self, node: str, *resources: str) -> None:
        self.shortages[node].noticed(frozenset(resources), self.now)
        while self.on_the_way:
            sender, receiver, parts = self.on_the_way.popleft()
            self.shortages[receiver].receive(sender, parts, self.now)

    def reasons(self) -> set[str | None]:
        return {one.reason for one in self.shortages.values()}


def test_every_node_hears_at_once_and_once() -> None:
    nodes = Nodes()
    nodes.notice("n2", MEMORY)
    nodes.notice("n2", MEMORY)
    assert nodes.reasons() == {"low on memory"}
    nodes.notice("n3", DISK)
    assert nodes.reasons() == {"low on memory & disk"}
    nodes.notice("n2")
    nodes.notice("n3")
    assert nodes.reasons() == {None}
    assert nodes.told["n1"] == ["low on memory", "low on memory & disk", "low on disk", None]


def test_what_was_lost_on_the_way_is_told_again() -> None:
    nodes = Nodes()
    nodes.lossy = True
    nodes.notice("n1", DISK)
    nodes.lossy = False
    nodes.now += SHORTAGES_INTERVAL_S
    nodes.notice("n1", DISK)
    assert nodes.reasons() == {"low on disk"}


def test_a_node_that_is_gone_holds_no_client_up() -> None:
    nodes = Nodes()
    nodes.notice("n3", DISK)
    nodes.cut.add("n3")
    for node in ("n1", "n2"):
        nodes.notice(node)
        assert nodes.shortages[node].reason is None
    assert nodes.shortages["n3"].reason == "low on disk"


@given(
    st.lists(
        st.tuples(st.sampled_from(NODES), st.frozensets(st.sampled_from((MEMORY, DISK))), st.booleans()),
        max_size=20,
    )
)
def test_all_agree_once_everything_is_told(
    steps: list[tuple[str, frozenset[str], bool]],
) -> None:
    nodes = Nodes()
    last = dict.fromkeys(NODES, NOTHING)
    for node, resources, lossy in steps:
        nodes.lossy = lossy
        nodes.notice(node, *resources)
        last[node] = resources
    nodes.lossy = False
    nodes.now += SHORTAGES_INTERVAL_S
    for node in NODES:
        nodes.notice(node, *last[node])
    short = frozenset[str]().union(*last.values())
    expected = f"low on {' & '.join(one for one in (MEMORY, DISK) if one in short)}" if short else None
    assert nodes.reasons() == {expected}
