"""One run: puts a target under load, injects the scenario's faults, and records the history."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from chaos.faults import Fault
from chaos.history import Ended, Faulted, Healed, Recorder, Recovered, RunBegan
from chaos.load import REPLICATED, Load
from chaos.scenarios import Scenario, Situation
from chaos.targets.target import Target, until

RECOVER_S: Final = 90.0
WATCH_POLL_S: Final = 0.1
"""The interval of checks whether a node has ended by itself."""

RECOVERED_POLL_S: Final = 0.05
"""The interval of checks whether a node takes clients again after a fault, and so the error of that time."""

SHARE: Final = 0.35
"""A fault of a short run lasts no longer than this share of it."""

OWNERS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of a run: `rate` is in messages a second."""

    target: str
    seconds: float
    rate: float
    seed: int


class Run:
    """One run. `progress` is called with a line of text several times a second."""

    def __init__(
        self, scenario: Scenario, target: Target, terms: Terms, progress: Callable[[str], None]
    ) -> None:
        self.recorder = Recorder()
        self._scenario = scenario
        self._target = target
        self._terms = terms
        self._progress = progress
        self._chance = random.Random(terms.seed)
        self._load = Load(target, self.recorder, terms.rate)
        self._began = 0.0
        self._hurt: frozenset[str] = frozenset()
        self._doing = ""

    def execute(self) -> None:
        """Carry out the whole run. `recorder` has its history, also where this raises TargetError."""
        terms = self._terms
        what = (self._scenario.name, self._target.broker, terms.target)
        began = RunBegan(self._now, *what, terms.seed, terms.seconds, terms.rate)
        self.recorder.record(began)
        try:
            self._load.start()
            self._began = self._now
            self._wait(min(self._scenario.peace, terms.seconds * SHARE / 2))
            for turn in count():
                if not self._turn(turn) or self._now - self._began >= terms.seconds:
                    break
            self._doing = "draining"
            self._show()
            self._load.finish()
        finally:
            self._load.clients.abandon()

    @property
    def _now(self) -> float:
        return self.recorder.clock()

    def _turn(self, turn: int) -> bool:
        """Inject and heal one fault; return whether all nodes take clients again."""
        owners = self._owners()
        queue = REPLICATED[turn % len(REPLICATED)]
        situation = Situation(self._target.nodes, owners[queue], turn, self._chance)
        fault = self._scenario.choose(situation)
        self._hurt = frozenset(fault.nodes)
        self._doing = f"{', '.join(fault.nodes)} {fault.kind}"
        self._record_fault(fault, owners)
        fault.inject(self._target)
        self._wait(min(self._scenario.lasts, self._terms.seconds * SHARE))
        fault.heal(self._target)
        self.recorder.record(Healed(self._now, fault.kind))
        if not self._recover(fault):
            return False
        self._hurt = frozenset()
        self._doing = "peace"
        left = self._terms.seconds - (self._now - self._began)
        self._wait(min(self._scenario.peace, max(left, self._terms.seconds * SHARE / 2)))
        return True

    def _owners(self) -> dict[str, str]:
        """The owners of all replicated queues, once each queue has one. Raises TargetError."""
        found: dict[str, str] = {}

        def complete() -> bool:
            found.update(self._target.owners())
            return found.keys() >= set(REPLICATED)

        until(complete, "every queue has an owner", OWNERS_S)
        return found

    def _record_fault(self, fault: Fault, owners: Mapping[str, str]) -> None:
        now = self._now
        for node in fault.nodes:
            queues = tuple(queue for queue in REPLICATED if owners[queue] == node)
            self.recorder.record(Faulted(now, node, fault.kind, queues, fault.excused))

    def _recover(self, fault: Fault) -> bool:
        """Wait for `RECOVER_S` at most until all nodes of the fault take clients; return whether they do. The
        history has no Recovered of a node that does not.
        """
        waiting = set(fault.nodes)
        deadline = self._now + RECOVER_S
        while waiting and self._now < deadline:
            for node in sorted(waiting):
                if self._target.ended(node) is None and self._target.ready(node):
                    self.recorder.record(Recovered(self._now, node))
                    waiting.discard(node)
            self._hurt = frozenset(waiting)
            self._watch()
            time.sleep(RECOVERED_POLL_S)
        return not waiting

    def _wait(self, seconds: float) -> None:
        until_then = self._now + seconds
        while (left := until_then - self._now) > 0:
            self._watch()
            time.sleep(min(WATCH_POLL_S, left))

    def _watch(self) -> None:
        """Record nodes that have ended by themselves, and start them again, as a supervisor would."""
        for node in self._target.nodes:
            code = self._target.ended(node)
            if code is not None and node not in self._hurt:
                self.recorder.record(Ended(self._now, node, code))
                self._target.start_again(node)
        self._show()

    def _show(self) -> None:
        at = f"{self._now - self._began:4.0f} of {self._terms.seconds:.0f} s"
        self._progress(f"{at}  {self._load.confirmed:>9,} confirmed  {self._doing}")
