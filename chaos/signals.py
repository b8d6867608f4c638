"""Injects faults by signals, and records each fault in the history before it happens."""

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
    """Send SIGKILL to all targets at once. `queues` are those that the targets own."""
    _hurt(recorder, kind, targets, queues, signal.SIGKILL)


def freeze(recorder: Recorder, kind: str, targets: Sequence[Target], queues: Iterable[str]) -> None:
    """Send SIGSTOP to all targets: their connections stay open and silent."""
    _hurt(recorder, kind, targets, queues, signal.SIGSTOP)


def thaw(targets: Sequence[Target]) -> None:
    """Send SIGCONT to all targets."""
    for target in targets:
        os.kill(target.pid, signal.SIGCONT)


def recovered(recorder: Recorder, targets: Sequence[Target]) -> None:
    """Record that the targets take clients again."""
    for target in targets:
        recorder.record(Recovered(recorder.clock(), target.name))


def _hurt(
    recorder: Recorder, kind: str, targets: Sequence[Target], queues: Iterable[str], number: signal.Signals
) -> None:
    names = tuple(sorted(queues))
    now = recorder.clock()
    for place, target in enumerate(targets):
        # A queue's pause counts once, for the first of the nodes.
        recorder.record(Faulted(now, target.name, kind, () if place else names))
    for target in targets:
        os.kill(target.pid, number)
