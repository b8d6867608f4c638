"""The rates of real clients against three nodes, as shares of their rates against bench.sink.

A share near 1 says that the client is the limit. The programs of bench.client_programs run one at a time, in
turn against the sink and against a node that does not own the queue.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from bench.brokers import NODES, Address, BrokerError
from bench.load import run_load
from bench.measures import UNLIMITED_SECONDS, Samples, Stage
from bench.probe import declare, delete

ROOT: Final = Path(__file__).parents[1]
INSTALLED: Final = ROOT / ".venv-clients" / "bin" / "python"
"""`make clients` installs the clients there, Celery among them."""

PROGRAM_S: Final = 120.0
"""Seconds that a program may take beyond its own: a worker of Celery declares some 30 queues."""

MEASURED: Final = ("rate", "client", "broker", "others")
"""The results of a program."""

WAITING: Final = {
    "pika-consume": 40_000,
    "aio-pika-consume": 20_000,
    "celery-consume": 3_000,
    "celery-consume-ahead": 3_000,
}
"""Messages in the queue of a consumer, for each second: more than the consumer takes."""


class Sink:
    """A sink in a process of its own, while the context lasts."""

    def __enter__(self) -> Sink:
        command = [sys.executable, "-m", "bench.sink"]
        self._process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = self._process.stdout.readline()
        if not port:
            raise BrokerError("the sink has not started")
        self.address = Address("127.0.0.1", int(port))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid


def environment() -> dict[str, str]:
    """The path of this process, so that a child takes compiled packages where this process does."""
    path = os.environ.get("PYTHONPATH", "")
    return os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}" if path else str(ROOT)}


def interpreter() -> str:
    """The one that `make clients` made; without it the one that runs the bench."""
    return str(INSTALLED) if INSTALLED.exists() else sys.executable


@cache
def installed(client: str) -> bool:
    """Whether the client's package is there for the programs."""
    found = f"import sys; from importlib.util import find_spec; sys.exit(find_spec({client!r}) is None)"
    return subprocess.run([interpreter(), "-c", found]).returncode == 0


def share_of_sink(stage: Stage, program: str) -> Samples:
    """The program's rate against each node as a share of its rate against the sink just before.

    `client`, `broker` and `others` are shares of a processor: of the client, of the sink or all nodes, and of
    everything else on the machine.
    """
    samples: Samples = {"share": []}
    samples |= {f"{name}{at}": [] for at in ("", "_at_sink") for name in MEASURED}
    nodes = [stage.cluster.pid(node) for node in range(NODES)]
    with Sink() as sink:
        for turn in range(NODES):
            queue = f"bench-{program}-{turn}"
            fill(stage, sink.address, queue, program, one=True)
            alone = run(program, sink.address, queue, stage.seconds, [sink.pid])
            declare(stage.cluster.address(turn), queue, "quorum")
            # The other two nodes in turn: 1 or 2 after the owner.
            node = (stage.cluster.owner(queue, turn) + 1 + turn % 2) % NODES
            address = stage.cluster.address(node)
            fill(stage, address, queue, program)
            found = run(program, address, queue, stage.seconds, nodes)
            delete(address, queue)
            samples["share"].append(found["rate"] / alone["rate"])
            for name in MEASURED:
                samples[name].append(found[name])
                samples[f"{name}_at_sink"].append(alone[name])
    return samples


def fill(stage: Stage, address: Address, queue: str, program: str, *, one: bool = False) -> None:
    """Publish the messages of a consumer. The sink needs one, which it delivers again and again."""
    if program not in WAITING:
        return
    count = 1 if one else round(WAITING[program] * (stage.seconds + 1))
    if program.startswith("celery"):
        run("celery-fill", address, queue, count=count)
        return
    run_load(
        UNLIMITED_SECONDS, queue=queue, type="quorum", publish_to=str(address),
        consumers=0, count=count, purge=0, window=2000,
    )  # fmt: skip


def run(
    program: str,
    address: Address,
    queue: str,
    seconds: float = 0.0,
    brokers: list[int] | None = None,
    count: int = 1,
) -> dict[str, float]:
    """One run of a program; its line of JSON. Raises BrokerError when the program fails or does not end."""
    command = [
        interpreter(), "-m", "bench.client_programs", program, str(address), queue,
        "--seconds", str(seconds), "--count", str(count),
    ]  # fmt: skip
    for pid in brokers or []:
        command += ["--broker", str(pid)]
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=seconds + PROGRAM_S
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"{program} did not end within {error.timeout:.0f} s") from error
    if done.returncode != 0:
        raise BrokerError(f"{program} failed: {done.stderr.strip()[-1000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
