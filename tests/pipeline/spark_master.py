"""A Spark master with two workers of one core each, as processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from json import JSONDecodeError
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pyspark

from chaos.targets.ports import free_ports
from tests.processes.nodes import until
from tests.structure.tree import ROOT

WORKERS = ("one", "two")


def spark_environment() -> dict[str, str]:
    """The environment of Spark's processes: on loopback, with the Python and the tree of this one."""
    return {
        **os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip


@contextmanager
def running_master(directory: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a master, for as long as the context lasts."""
    program = str(Path(pyspark.__path__[0]) / "bin" / "spark-class")
    port, pages = free_ports(2)
    address, of = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    place = ["--host", "127.0.0.1"]
    ports = ["--port", str(port), "--webui-port", str(pages)]
    commands = [[program, f"{of}.master.Master", *place, *ports]]
    for name in WORKERS:
        own = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / name), "--webui-port", "0"]
        commands.append([program, f"{of}.worker.Worker", *place, *own, address])
    log = directory / "log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        for command in commands:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        page = f"http://127.0.0.1:{pages}/json/"
        until(lambda: _alive(page) == len(WORKERS), lambda: log.read_text("utf-8"), 120)
        yield address


def _alive(url: str) -> int:
    """How many workers the master at an address has. A master that starts has its page a moment before the
    JSON of the page, and answers with the page until then.
    """
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=10) as page:
            found: int = json.loads(page.read())["aliveworkers"]
            return found
    except (URLError, JSONDecodeError):
        return 0
