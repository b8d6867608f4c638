"""The test suites that clients bring themselves: what is run of each, which tests may fail, and why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.clients.checkouts import checkout
from tests.processes.nodes import Node

RUNNER: Final = Path(__file__).with_name("suite_runner.py")
SUITE_S: Final = 1200.0
TEST_S: Final = 120


@dataclass(frozen=True, slots=True)
class Suite:
    """`project` is a directory of CHECKOUTS, or None for what is in an installed package.

    `may_fail` gives the reason for each test that fails now and then, with RabbitMQ too, by its name without
    parameters. `options` are pytest's.
    """

    name: str
    project: str | None
    options: tuple[str, ...]
    may_fail: Mapping[str, str] = field(default_factory=dict)

    def present(self) -> bool:
        return self.project is None or checkout(self.project) is not None

    def unexplained(self, failed: set[str]) -> set[str]:
        return {name for name in failed if name.partition("[")[0] not in self.may_fail}

    def run(self, node: Node, directory: Path) -> tuple[int, set[str]]:
        """How many tests passed on the node, and the names of those that failed."""
        where = directory if self.project is None else checkout(self.project)
        report = directory / "report.xml"
        http = str(node.local.config.listen.http.port)
        command = [sys.executable, str(RUNNER), str(node.amqp.port), http, *OPTIONS, f"--junitxml={report}"]
        done = subprocess.run(
            [*command, *self.options],
            cwd=where,
            env=os.environ | _environment(node),
            capture_output=True,
            text=True,
            timeout=SUITE_S,
        )
        assert report.exists(), done.stdout + done.stderr
        return _read(report)


OPTIONS: Final = (
    # No option here stops pytest-rerunfailures: a test that its authors mark flaky runs again.
    *("-q", "-p", "no:cacheprovider"),
    *("--override-ini=addopts=", f"--timeout={TEST_S}"),
)


def _environment(node: Node) -> dict[str, str]:
    """Where suites that can be told find their broker."""
    return {
        "AMQP_HOST": node.amqp.host,
        "AMQP_USERNAME": "guest",
        "AMQP_PASSWORD": "guest",
        "AMQP_URI": node.url + "%2F",
        "AMQP_HTTP_URL": node.http,
        "RABBITMQ_HOST": node.amqp.host,
        # uvloop, which quorate brings, connects without Python's sockets: no proxy could redirect it.
        "AIOMISC_USE_UVLOOP": "0",
    }


def _read(report: Path) -> tuple[int, set[str]]:
    passed, failed = 0, set()
    for case in ElementTree.parse(report).iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed.add(f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}")
        elif "skipped" not in outcomes:
            passed += 1
    return passed, failed


AIO_PIKA_MAY_FAIL: Final = {
    "test_memory_leak::test_leak_unclosed_channel": (
        "counts channels while the client's callbacks for their closing may still wait to run"
    ),
    "test_amqp_robust_proxy::test_channel_reconnect_stairway": (
        "loses its connection again and again, and has 30 s: too few on a busy machine"
    ),
}

# The test of the context's provider, which has its name from TLS too, connects to nothing.
AIORMQ_WITHOUT_TLS: Final = "not amqps and not ssl_verification and (provider or not ssl_context)"

AIORMQ_MAY_FAIL: Final = {
    "test_channel::test_confirm_multiple": "gives ten confirms 0.2 s: too few on a busy machine"
}

SUITES: Final = (
    Suite("amqpstorm", None, ("--pyargs", "amqpstorm.tests.functional", "-k", "not management and not ssl")),
    Suite("pika", "pika", ("tests/acceptance",)),
    # In a checkout these two skip, without a word of failure, what was not asked for with -E.
    Suite("kombu", "kombu", ("-E", "py-amqp", "t/integration/test_py_amqp.py")),
    # Of TLS: the nodes here have no port for it.
    Suite("py-amqp", "py-amqp", ("-E", "rabbitmq", "t/integration/test_rmq.py", "-k", "not tls")),
    Suite("aiormq", "aiormq", ("-p", "no:asyncio", "tests", "-k", AIORMQ_WITHOUT_TLS), AIORMQ_MAY_FAIL),
    Suite("aio-pika", "aio-pika", ("-p", "no:asyncio", "tests", "-k", "not amqps"), AIO_PIKA_MAY_FAIL),
)
