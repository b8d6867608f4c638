"""RabbitMQ's own command line tool, taken from an installed RabbitMQ: its management plugin serves it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.processes.nodes import Node

INSTALLED: Final = Path("/usr/lib/rabbitmq")
_PLUGIN: Final = "lib/*/plugins/rabbitmq_management-[0-9]*"
_INSIDE: Final = "priv/www/cli/rabbitmqadmin"


def source() -> bytes | None:
    """The tool's text; None where no RabbitMQ is installed. The plugin is a directory, or a zip file."""
    for plugin in sorted(INSTALLED.glob(_PLUGIN)):
        if plugin.is_dir() and (plugin / _INSIDE).exists():
            return (plugin / _INSIDE).read_bytes()
        if plugin.suffix == ".ez":
            with zipfile.ZipFile(plugin) as archive:
                for name in archive.namelist():
                    if name.endswith(_INSIDE):
                        return archive.read(name)
    return None


class RabbitmqAdmin:
    """Runs the tool against a node, as a user would."""

    def __init__(self, directory: Path, node: Node, options: Iterable[str] = ()) -> None:
        self._file = directory / "rabbitmqadmin"
        text = source()
        assert text is not None
        self._file.write_bytes(text)
        host, _, port = node.http.removeprefix("http://").partition(":")
        self._options = ["--host", host, "--port", port, *options]
        self._directory = directory

    def run(self, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(self._file), *self._options, *arguments]
        environment = {"HOME": str(self._directory), "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            command, input=input, env=environment, capture_output=True, text=True, timeout=60
        )

    def __call__(self, *arguments: str, input: str = "") -> str:
        """Run the tool, which must succeed; return its output."""
        done = self.run(*arguments, input=input)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        return done.stdout
