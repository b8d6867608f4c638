"""Runs of encoded messages. The simulator reads them too, and has no test library."""

from __future__ import annotations

from array import array

from node.message.run import Run
from node.wire.amqp10.messages import facts_of
from node.wire.formats import AMQP_1_0


def run_of(*messages: bytes, key: str = "q", exchange: str = "", skip: bytes = b"") -> Run:
    """A run of such messages, all of the same traits, each behind `skip`."""
    facts = facts_of(messages[0], 0, len(messages[0]))
    pieces = [skip + one for one in messages]
    lengths = array("I", map(len, pieces))
    return Run(
        exchange, key, 0, facts.durable, len(pieces), len(skip), 0, lengths, max(lengths), b"".join(pieces),
        facts.special, AMQP_1_0,
    )  # fmt: skip
