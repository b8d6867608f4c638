"""The interface of a target to a run, beside the means to inject faults (`chaos.faults.Means`)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from chaos.clients import Place
from chaos.faults import Means

START_S = 300.0
"""The time within which a cluster must be ready."""

COMMAND_S = 600.0
POLL_S = 0.1
"""The interval at which `until` asks."""


class TargetError(Exception):
    """The target does not do what the run asked. The text has the cause and the remedy."""


class Target(Means, Protocol):
    """A cluster that a run starts, injects faults into, and removes."""

    @property
    def broker(self) -> str: ...

    @property
    def at_most_once(self) -> dict[str, Any] | None:
        """Arguments of a queue that removes messages before it delivers them; None if the broker has none."""

    def start(self) -> None:
        """Returns when every node takes clients. Raises TargetError."""

    def stop(self) -> None:
        """End the nodes, and remove everything that the target made. May be called without `start`."""

    def places(self) -> tuple[Place, ...]:
        """The addresses of the nodes for clients, in the order of `nodes`."""

    def owners(self) -> dict[str, str]:
        """The owner of each queue that has one now."""

    def ready(self, node: str) -> bool:
        """Whether the node takes clients."""

    def ended(self, node: str) -> int | None:
        """The exit code of the node's process; None while it runs."""

    def keep_logs(self, directory: Path) -> None:
        """Copy the nodes' logs into the directory."""


def until(condition: Callable[[], bool], what: str, seconds: float = START_S) -> None:
    """Wait until the condition holds. Raises TargetError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TargetError(f"{what}: not within {seconds:.0f} s")
        time.sleep(POLL_S)


def shell(*command: str | Path, environment: dict[str, str] | None = None, given: str = "") -> str:
    """The output of the command, which gets `given` as input. Raises TargetError with the command's error
    output.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=COMMAND_S,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"{' '.join(words)}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise TargetError(f"{' '.join(words)}: exit code {done.returncode}: {said}")
    return done.stdout


def words_of(parts: Sequence[Sequence[str]]) -> list[str]:
    """Command prefixes, the outermost first, as one command line."""
    return [word for part in parts for word in part]
