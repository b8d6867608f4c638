"""The commands that manage a cluster, run as an operator would."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from cluster.cli.main import main
from tests.processes.nodes import Cluster


class Shell:
    """Runs commands against one node, as an administrator unless told otherwise."""

    def __init__(self, cluster: Cluster, place: int = 0) -> None:
        self._environment = {"QUORATE_URL": cluster[place].http}

    def run(self, *arguments: str, input: str | None = None, **environment: str) -> Result:
        """In this process: the machine has better to do than to start interpreters."""
        return CliRunner().invoke(main, arguments, input=input, env=self._environment | environment)

    def do(self, *arguments: str, input: str | None = None, **environment: str) -> str:
        done = self.run(*arguments, input=input, **environment)
        assert (done.exit_code, done.stderr) == (0, ""), done.exception
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return list(json.loads(self.do(*arguments, "--json")))
