"""The load generator: building amqpload.c, running it, reading its one line of JSON."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE / "amqpload.c"
PROGRAM = HERE / "amqpload"

SET_UP_SECONDS = 120
"""Seconds that a run may take beyond its own (connecting, declaring, waiting for what is on its way)."""


class LoadError(Exception):
    """The generator could not be built, or gave up: what it printed is the message."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The figures that one run reported. Rates are messages a second, latencies milliseconds, and `octets` is
    the length of all delivered bodies. `processor_seconds` is the time of the processes of the option `watch`
    meanwhile.
    """

    publish_rate: float
    deliver_rate: float
    end_to_end_rate: float
    confirm_p50: float
    confirm_p99: float
    published: int
    confirmed: int
    delivered: int
    octets: int
    processor_seconds: float
    lost: int
    duplicates: int
    misordered: int
    nacked: int

    @classmethod
    def parse(cls, text: str) -> LoadResult:
        """Raises LoadError when the text is not what the generator prints."""
        try:
            values: dict[str, Any] = json.loads(text)
            return cls(
                confirm_p50=values["confirm_ms"]["p50"],
                confirm_p99=values["confirm_ms"]["p99"],
                **{name: values[name] for name in cls.__slots__ if not name.startswith("confirm_")},
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LoadError(f"cannot read the generator's result {text!r}: {error!r}") from error

    @property
    def broken_promises(self) -> list[str]:
        """The errors that the run counted, as `name=count`; empty after a good run."""
        counted = ("lost", "duplicates", "misordered", "nacked")
        return [f"{name}={getattr(self, name)}" for name in counted if getattr(self, name)]


def build() -> None:
    """Compiles the generator when its source is newer. Raises LoadError with the compiler's words."""
    if PROGRAM.exists() and PROGRAM.stat().st_mtime >= SOURCE.stat().st_mtime:
        return
    try:
        command = ["cc", "-O2", "-o", str(PROGRAM), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise LoadError("the load generator needs a C compiler (cc)") from error
    except subprocess.CalledProcessError as error:
        raise LoadError(f"cc failed on {SOURCE.name}:\n{error.stderr}") from error


def run_load(seconds: float, **options: str | int | float) -> LoadResult:
    """One run of the generator; `options` are its own, with underscores (`ack_every=50`).

    `seconds` bounds the publishing. Raises LoadError when the generator fails or does not end.
    """
    command = [str(PROGRAM), "--seconds", str(seconds)]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + SET_UP_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"did not end within {error.timeout:.0f} s: {' '.join(command[1:])}") from error
    if done.returncode != 0:
        raise LoadError(f"{done.stderr.strip() or done.returncode}: {' '.join(command[1:])}")
    return LoadResult.parse(done.stdout)
