"""Routes, cached or not, against a plain search over all bindings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.refusal import NotFoundError
from node.routing import exchange as exchange_module
from node.routing.exchange import Exchange, ExchangeKind, Exchanges
from node.routing.matching import Binding, Destination, DestinationKind
from tests.queue.routing import exchange, naive_headers, naive_topic, queue

KINDS = tuple(ExchangeKind)
NAMES = st.sampled_from(("e0", "e1", "e2", "e3"))
BINDINGS = st.builds(
    Binding.of,
    NAMES,
    st.one_of(NAMES.map(exchange), st.sampled_from(("q0", "q1", "k")).map(queue)),
    st.sampled_from(("k", "*", "#")),
    st.sampled_from(({}, {"h": 1}, {"h": 2, "x-match": "any"})),
)


class RoutesAgainstSearch(RuleBasedStateMachine):
    """Any changes, from a queue and an exchange of each type on: the routes, cached or not, are those of a
    plain search over all bindings.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limit = exchange_module.CACHED_ROUTES
        exchange_module.CACHED_ROUTES = 3
        self.exchanges = Exchanges()
        self.declared: dict[str, Exchange] = {}
        self.queues: set[str] = set()
        self.bindings: set[Binding] = set()
        for i, kind in enumerate(KINDS):
            self.declare(f"e{i}", kind, None, False)
        self.change_queue("q0", True)

    def teardown(self) -> None:
        exchange_module.CACHED_ROUTES = self.limit

    @rule(
        name=NAMES,
        kind=st.sampled_from(KINDS),
        alternate=st.one_of(st.none(), NAMES, st.just("")),
        auto=st.booleans(),
    )
    def declare(self, name: str, kind: ExchangeKind, alternate: str | None, auto: bool) -> None:
        if name not in self.declared:
            self.declared[name] = Exchange(name, kind, auto_delete=auto, alternate=alternate)
            self.exchanges.declare(self.declared[name])

    @rule(name=st.sampled_from(("q0", "q1", "k")), there=st.booleans())
    def change_queue(self, name: str, there: bool) -> None:
        if there:
            self.queues.add(name)
            self.exchanges.add_queue(name)
        else:
            self.queues.discard(name)
            self.remove(queue(name), self.exchanges.remove_queue(name))

    @rule(binding=BINDINGS)
    def bind(self, binding: Binding) -> None:
        kind, name = binding.destination
        known = name in (self.queues if kind is DestinationKind.QUEUE else self.declared)
        if known and binding.source in self.declared:
            assert self.exchanges.bind(binding) == (binding not in self.bindings)
            self.bindings.add(binding)
        else:
            with pytest.raises(NotFoundError):
                self.exchanges.bind(binding)

    @rule(choice=st.randoms(use_true_random=False))
    def unbind(self, choice: object) -> None:
        if self.bindings:
            binding = sorted(self.bindings, key=repr)[choice.randrange(len(self.bindings))]
            gone = self.exchanges.unbind(binding)
            self.bindings.discard(binding)
            self.remove(None, gone, binding.source)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.declared:
            gone = self.exchanges.delete(name)
            assert gone[0] == name
            del self.declared[name]
            self.bindings = {each for each in self.bindings if each.source != name}
            self.remove(exchange(name), gone[1:])

    def remove(self, destination: Destination | None, gone: list[str], *unbound: str) -> None:
        """Remove the bindings to deleted objects, and auto-delete exchanges with their last binding, and so
        on.
        """
        sources, wanted = list(unbound), set()
        pending = [destination] if destination else []
        while pending or sources:
            if pending:
                target = pending.pop()
                sources += {each.source for each in self.bindings if each.destination == target}
                self.bindings = {each for each in self.bindings if each.destination != target}
            else:
                source = sources.pop()
                used = any(each.source == source for each in self.bindings)
                if source in self.declared and self.declared[source].auto_delete and not used:
                    del self.declared[source]
                    wanted.add(source)
                    pending.append(exchange(source))
        assert sorted(gone) == sorted(wanted)

    def search(self, start: str, key: str, headers: Mapping[str, object]) -> set[str]:
        found, seen, pending = set(), set(), [start]
        while pending:
            name = pending.pop()
            if name in seen or (name and name not in self.declared):
                continue
            seen.add(name)
            if not name:
                found |= {key} & self.queues
                continue
            made = self.declared[name]
            matched = [
                each
                for each in self.bindings
                if each.source == name and matches(made.kind, each, key, headers)
            ]
            found |= {
                each.destination.name for each in matched if each.destination.kind is DestinationKind.QUEUE
            }
            pending += [
                each.destination.name for each in matched if each.destination.kind is DestinationKind.EXCHANGE
            ]
            if not matched and made.alternate is not None:
                pending.append(made.alternate)
        return found

    @invariant()
    def routes_are_those_of_a_search(self) -> None:
        assert {each.name for each in self.exchanges if each.name.startswith("e")} == self.declared.keys()
        assert set(self.exchanges.bindings()) == self.bindings
        for name in self.declared:
            for key in ("k", "q0", ""):
                for headers in ({}, {"h": 1}):
                    assert self.exchanges.route(name, key, headers) == self.search(name, key, headers)


def matches(kind: ExchangeKind, binding: Binding, key: str, headers: Mapping[str, object]) -> bool:
    arguments = {name: value for name, (_, value) in binding.arguments}
    if "x-match" in arguments:
        arguments["x-match"] = arguments["x-match"].decode()
    return {
        ExchangeKind.DIRECT: binding.key == key,
        ExchangeKind.FANOUT: True,
        ExchangeKind.TOPIC: naive_topic(binding.key, key),
        ExchangeKind.HEADERS: naive_headers(arguments, headers),
    }[kind]


TestRoutesAgainstSearch = RoutesAgainstSearch.TestCase
TestRoutesAgainstSearch.settings = settings(max_examples=50, stateful_step_count=30)
