"""The commands in the documents work, and the targets of their links exist."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.quorate import Quorate
from cluster.cli.local.layout import HOST, PEER_OFFSET, is_free
from cluster.config.addresses import Address
from tests.processes.nodes import AMQP_PORTS, HTTP_PORTS
from tests.structure.snippets import Snippet, documents, matches, parse, run, snippets, with_ports
from tests.structure.tree import ROOT

Ports = tuple[int, int]
"""The first of the cluster's AMQP ports, and of its HTTP ports."""


def free_ports() -> Ports:
    chance = random.Random()
    while True:
        amqp, http = chance.choice(AMQP_PORTS), chance.choice(HTTP_PORTS)
        peers = amqp + PEER_OFFSET
        if all(is_free(Address(HOST, first + node)) for first in (amqp, http, peers) for node in range(3)):
            return amqp, http


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """Those of a cluster that runs for the snippets."""
    found = free_ports()
    nodes = Quorate(tmp_path_factory.mktemp("documents") / "cluster", *found)
    try:
        nodes.start()
        yield found
    finally:
        nodes.stop()


@pytest.mark.parametrize("snippet", snippets(), ids=str)
def test_snippet_runs(snippet: Snippet, ports: Ports, tmp_path: Path) -> None:
    done = run(snippet.language, with_ports(snippet.code, *ports), tmp_path)
    assert done.returncode == 0, f"{snippet}\n{done.stdout}{done.stderr}"
    if snippet.output is not None:
        assert matches(with_ports(snippet.output, *ports), done.stdout), done.stdout


@pytest.mark.parametrize("document", documents(), ids=lambda file: file.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", document.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing, f"{document.name} links to {missing}"


def test_snippets_are_found_with_their_output(tmp_path: Path) -> None:
    text = "A\n\n```shell run\necho 5672\n```\n\n```text output\n5672\n```\n\n```python\nnot run\n```\n"
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert list(parse("page.md", tmp_path / "page.md")) == [
        Snippet("page.md", 3, "shell", "echo 5672\n", "5672\n")
    ]


def test_ports_are_those_of_the_cluster() -> None:
    code = "amqp://localhost:5672 http://localhost:15674 56720"
    assert with_ports(code, 6000, 7000) == "amqp://localhost:6000 http://localhost:7002 56720"


def test_output_may_leave_text_open() -> None:
    assert matches("sent ... in ... s\n", "sent 10 in 0.1 s")
    assert not matches("sent ...", "lost 10")
