"""Messages of one format as messages of another (docs/decisions/0034)."""

from __future__ import annotations

from node.message.run import Run
from node.wire.amqp10 import modified
from node.wire.amqp10.errors import WireError
from node.wire.amqp10.from_amqp091 import run_from_amqp091
from node.wire.amqp10.to_amqp091 import run_to_amqp091
from node.wire.formats import AMQP_0_9_1, AMQP_1_0


def converted(run: Run, format: int) -> Run:
    """The messages of the run in a format; the run itself where it has that format.

    Exchange, routing key, number, order and persistence are those of the run. The caller takes a run whose
    messages have routing keys of their own (`run.OWN_METHODS`) apart first, with `MessageFormat.by_key`.
    """
    if run.format == format:
        return run
    return run_to_amqp091(run) if format == AMQP_0_9_1 else run_from_amqp091(run)


class AnnotationsRefusedError(ValueError):
    """The node does not keep annotations that consumers have given a message: they have too many octets, or
    another node has sent octets that are no annotations.
    """


def merged_annotations(former: bytes, later: bytes) -> bytes:
    """The octets of the annotations that consumers have given a message, earlier and now
    (`node.wire.amqp10.modified`). Raises AnnotationsRefusedError.
    """
    try:
        return modified.merged_maps(former, later)
    except WireError as error:
        raise AnnotationsRefusedError(str(error)) from None


def with_annotations(run: Run, octets: bytes) -> Run:
    """The messages of the run, of any format and with one routing key, with annotations that consumers have
    given them: as messages of AMQP 1.0.
    """
    return modified.with_map(converted(run, AMQP_1_0), octets)
