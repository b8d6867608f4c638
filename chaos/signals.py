"""Faults done to running nodes, written into the history before they happen."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import Protocol

from chaos.history import Faulted, Recorder, Recovered


class Target(Protocol):
    """A process that runs a node."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int: ...


def kill(recorder: Recorder, kind: str, targets: Sequence[Target], queues: Iterable[str]) -> None:
    """SIGKILL to all targets at once. `queues`: those that they own."""
    _hurt(recorder, kind, targets, queues, signal.SIGKILL)


def freeze(recorder: Recorder, kind: str, targets: Sequence[Target], queues: Iterable[str]) -> None:
    """SIGSTOP to all targets: their connections stay open and say nothing."""
    _hurt(recorder, kind, targets, queues, signal.SIGSTOP)


def thaw(targets: Sequence[Target]) -> None:
    """SIGCONT to all targets."""
    for target in targets:
        os.kill(target.pid, signal.SIGCONT)


def recovered(recorder: Recorder, targets: Sequence[Target]) -> None:
    """The targets take clients again."""
    for target in targets:
        recorder.record(Recovered(recorder.clock(), target.name))


def _hurt(
    recorder: Recorder, kind: str, targets: Sequence[Target], queues: Iterable[str], number: signal.Signals
) -> None:
    names = tuple(sorted(queues))
    now = recorder.clock()
    for place, target in enumerate(targets):
        # The pause of a queue is counted once, however many nodes were hurt together.
        recorder.record(Faulted(now, target.name, kind, () if place else names))
    for target in targets:
        os.kill(target.pid, number)
