"""^C in the middle of `quorate cluster`: nothing is half done, and the command may be said again (F2)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.processes.nodes import Cluster, until
from tests.processes.shell import Shell
from tests.processes.test_membership import at_rest, check_messages, declare
from tests.structure.tree import ROOT

pytestmark = pytest.mark.requirement("F2.2")

INTERRUPTED = 130
"""The exit code of a command that ^C ended before it was answered: 128 and the signal, as shells have it."""

ESTABLISHED = "01"
"""State of a connection in /proc/net/tcp."""

Interrupt = Callable[[Cluster, list[str]], None]


def begin(cluster: Cluster, words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cluster", *words, "--url", cluster[0].http]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def while_it_is_said(cluster: Cluster, words: list[str]) -> None:
    """The node that is asked hangs: the command has sent its request, and has no answer."""
    cluster[0].send(signal.SIGSTOP)
    with begin(cluster, words) as process:
        until(lambda: is_connected(cluster[0].http), "the command speaks with the node")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    cluster[0].send(signal.SIGCONT)
    assert (process.returncode, said) == (INTERRUPTED, "")


def while_it_is_watched(cluster: Cluster, words: list[str]) -> None:
    """It is under way, and the command shows how far it is."""
    with begin(cluster, words) as process:
        assert process.stderr is not None
        assert "is being" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, "stopped watching; the change goes on" in said) == (0, True), said


def is_connected(url: str) -> bool:
    """Whether any process has a connection to this port of loopback."""
    port = f"0100007F:{urlsplit(url).port:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
    return any(remote == port and state == ESTABLISHED for _, _, remote, state, *_ in rows)


@pytest.mark.parametrize(
    ("interrupt_adding", "interrupt_draining"),
    [
        (while_it_is_said, while_it_is_watched),
        pytest.param(while_it_is_watched, while_it_is_said, marks=pytest.mark.proof),
    ],
)
def test_adding_and_draining_may_be_said_again(
    own_cluster: Cluster, interrupt_adding: Interrupt, interrupt_draining: Interrupt
) -> None:
    declare(own_cluster, 9)
    node = own_cluster.newcomer("n4")
    node.start()
    shell = Shell(own_cluster)
    adding = ["cluster", "add", "n4", *node.whereabouts]
    interrupt_adding(own_cluster, adding)
    shell.do(*adding, "--no-wait")
    node.wait_ready()
    rows = at_rest(own_cluster)
    assert rows["n4"]["state"] == "member" and rows["n4"]["replicas"] > 0
    draining = ["cluster", "drain", "n3"]
    interrupt_draining(own_cluster, draining)
    shell.do(*draining, "--no-wait")
    rows = at_rest(own_cluster)
    assert (rows["n3"]["state"], rows["n3"]["owns"], rows["n3"]["replicas"]) == ("draining", 0, 0)
    check_messages(own_cluster, 9, place=3)


@pytest.mark.parametrize(
    ("interrupt_replacing", "interrupt_removing"),
    [
        (while_it_is_watched, while_it_is_said),
        pytest.param(while_it_is_said, while_it_is_watched, marks=pytest.mark.proof),
    ],
)
def test_replacing_and_removing_may_be_said_again(
    own_cluster: Cluster, interrupt_replacing: Interrupt, interrupt_removing: Interrupt
) -> None:
    """Also once it has happened: the interrupted user need not know how far the command came."""
    declare(own_cluster, 9)
    old, new = own_cluster[2], own_cluster.newcomer("n4")
    new.start()
    shell = Shell(own_cluster)
    replacing = ["cluster", "replace", "n3", "n4", *new.whereabouts]
    removing = ["cluster", "remove", "n4"]
    for words, leaving, left, interrupt in (
        (replacing, old, {"n1", "n2", "n4"}, interrupt_replacing),
        (removing, new, {"n1", "n2"}, interrupt_removing),
    ):
        interrupt(own_cluster, words)
        shell.do(*words, "--no-wait")
        assert leaving.reap() == 0, "it ends by itself"
        own_cluster.nodes.remove(leaving)
        rows = at_rest(own_cluster)
        assert rows.keys() == left
        assert {row["replicas"] for row in rows.values()} == {rows["n1"]["replicas"]}
        shell.do(*words, "--no-wait")
        assert at_rest(own_cluster).keys() == left
    check_messages(own_cluster, 9, place=1)
