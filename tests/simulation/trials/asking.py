"""Requests of jobs, which ask any nodes until one has answered. A node that is lost answers no more."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from cluster.gateway.broker_port import FrontEnd
from node.refusal import Refusal
from node.session.ports import QueueRef
from tests.simulation.scripts import Answer
from tests.simulation.trials.trial import Trial

Told = Generator[Answer | float, Any, list[Any]]
"""Steps to the owner's answer."""

Begin = Callable[[FrontEnd, QueueRef, Callable[[list[Any]], None]], None]


def ask_nodes(trial: Trial, queue: str, begin: Begin) -> Told:
    """Ask a node about a queue, and others until one has answered."""
    told = list[list[Any]]()
    while not told:
        yield from trial.pause(trial.chance.choice((0.0, 0.005)))
        nodes = trial.nodes.ready_nodes()
        if not nodes:
            continue
        node = trial.chance.choice(nodes)
        life, port, refused = node.life, trial.nodes.place(node).front_ends.of(node), list[Refusal]()

        def asked(port: FrontEnd = port, refused: list[Refusal] = refused) -> None:
            try:
                begin(port, port.queue("/", queue, 0), told.append)
            except Refusal as refusal:
                refused.append(refusal)

        node.input(asked)
        while not told and not refused and node.life == life and node.up:
            yield from trial.pause(0.005)
    return told[0]
