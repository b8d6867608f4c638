"""Messages of one format as messages of another (docs/decisions/0034)."""

from __future__ import annotations

from node.message.run import Run
from node.wire.amqp10.from_amqp091 import run_from_amqp091
from node.wire.amqp10.to_amqp091 import run_to_amqp091
from node.wire.formats import AMQP_0_9_1


def converted(run: Run, format: int) -> Run:
    """The messages of the run in a format; the run itself where it has that format.

    Exchange, routing key, number, order and persistence are those of the run. The caller takes a run whose
    messages have routing keys of their own (`run.OWN_METHODS`) apart first, with `MessageFormat.by_key`.
    """
    if run.format == format:
        return run
    return run_to_amqp091(run) if format == AMQP_0_9_1 else run_from_amqp091(run)
