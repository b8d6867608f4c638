"""The load generators: building amqpload.c and amqp10load.c, running them, reading their one line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Generator(Enum):
    """The programs, by the protocol that each speaks. Both print the same result."""

    AMQP_0_9_1 = "amqpload"
    AMQP_1_0 = "amqp10load"

    @property
    def program(self) -> Path:
        return HERE / self.value

    @property
    def source(self) -> Path:
        return HERE / f"{self.value}.c"


SET_UP_SECONDS = 120
"""Seconds that a run may take beyond its own (connecting, declaring, waiting for what is on its way)."""

QUIET_SECONDS = 8
"""A generator that only consumes ends when nothing has come for so long."""


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
    """Compiles the generators whose sources are newer. Raises LoadError with the compiler's words."""
    for generator in Generator:
        program, source = generator.program, generator.source
        if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
            continue
        try:
            command = ["cc", "-O2", "-o", str(program), str(source)]
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise LoadError("the load generator needs a C compiler (cc)") from error
        except subprocess.CalledProcessError as error:
            raise LoadError(f"cc failed on {source.name}:\n{error.stderr}") from error


def run_load(
    seconds: float, generator: Generator = Generator.AMQP_0_9_1, /, **options: str | int | float
) -> LoadResult:
    """One run of a generator; `options` are its own, with underscores (`ack_every=50`).

    `seconds` bounds the publishing. Raises LoadError when the generator fails or does not end.
    """
    return finished(started(generator, seconds, options), seconds)


def run_two(
    seconds: float,
    publishing: Mapping[str, str | int],
    consuming: Mapping[str, str | int],
    generators: tuple[Generator, Generator],
    **options: str | int,
) -> LoadResult:
    """One run in which one generator publishes and another one consumes, with options of their own.

    The rate is that of the deliveries, from the first one to the last. Raises LoadError.
    """
    publisher, consumer = generators
    elsewhere = options.pop("publishers", 1)
    consumers = options.pop("consumers", 1)
    receiving = started(
        consumer,
        seconds + SET_UP_SECONDS,
        {**options, **consuming, "publishers": 0, "consumers": consumers, "elsewhere": elsewhere,
         "drain": QUIET_SECONDS},
    )  # fmt: skip
    try:
        sent = run_load(
            seconds, publisher, **{**options, **publishing, "publishers": elsewhere, "consumers": 0}
        )
        received = finished(receiving, SET_UP_SECONDS)
    finally:
        receiving.kill()
        receiving.wait()
    missing = sent.confirmed - (received.delivered - received.duplicates)
    return replace(
        received, published=sent.published, confirmed=sent.confirmed, nacked=sent.nacked, lost=max(0, missing)
    )


def started(
    generator: Generator, seconds: float, options: Mapping[str, str | int | float]
) -> subprocess.Popen[str]:
    """A generator that runs."""
    command = [str(generator.program), "--seconds", str(seconds)]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str], seconds: float) -> LoadResult:
    """The result of a generator that was to run for so long. Raises LoadError."""
    words = " ".join(map(str, process.args)) if isinstance(process.args, list) else str(process.args)
    try:
        output, errors = process.communicate(timeout=seconds + SET_UP_SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise LoadError(f"did not end within {error.timeout:.0f} s: {words}") from error
    if process.returncode != 0:
        raise LoadError(f"{errors.strip() or process.returncode}: {words}")
    return LoadResult.parse(output)
