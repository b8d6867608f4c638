"""Feeds streams with the changes of the rows of views (D15; docs/decisions/0094-views-as-topics.md). Pure.

The owner of such a stream reads the rows of the view from the owner of the queue under the view, as links on
views do. It compares the rows with those that the log says the stream has told, and publishes the
differences. The entry with the messages has the rows as they are told then (`node.queue.told_rows`). So each
difference is published once, whichever owner is lost.

One step looks at a few rows, and the next one waits until the changes of the last one are applied. A new
owner of the queue under the view counts all messages anew. Until its rows lack nothing, the stream tells
none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from cluster.owner.context import FedByView, Feeding
from cluster.owner.intake import Taking
from cluster.owner.referring import with_queues_over
from cluster.owner.row_changes import ChangedRows, FedStream, RowChanges
from cluster.owner.state import OwnerState
from node.message.run import Run, joined
from node.queue.operations import OWNER, OpKind
from node.queue.told_rows import NO_ROW, TellRows, encode_tell_rows, row_digest
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.view_port import UNKNOWN_VERSION, ViewRows
from node.wire.formats import AMQP_0_9_1, FORMATS

ROWS_WAIT_MS: Final = 20_000
"""A question for other rows waits so long."""

COUNTED_WAIT_MS: Final = 100
"""As ROWS_WAIT_MS, while a new owner counts the messages of the queue under the view."""

UNFED_PAUSE_S: Final = 1.0
"""A question that was refused is asked again after so many seconds."""

TOO_MANY_ROWS_S: Final = 10.0
"""A view with too many rows is read again after so many seconds."""

PAUSE_S_A_ROW: Final = 1e-5
"""Seconds between two readings for each row of the first: large views are read less often."""

KEY_HEADER: Final = "view_key"
"""The header with the key of the row: a JSON array of the values by which the view groups."""

DELETED_HEADER: Final = "view_deleted"
"""The header of a message that says that the view has the row no more; true."""

_GONE_BODY: Final = b"null"


def feed(owner: OwnerState, number: int) -> None:
    """Go on with the rows of a stream. Called when the stream is served."""
    queue = owner.queues.get(number)
    view = owner.described(number).view
    if queue is None or not view:
        return
    fed = owner.fed_streams.get(number)
    if fed is None:
        fed = owner.fed_streams[number] = FedStream()
    if fed.asking or fed.logging:
        return
    if fed.changes is None:
        _ask(owner, number, fed, view)
        return
    told = queue.delivery.state.rows
    changes = fed.changes.step({} if told is None else told.digests)
    if fed.changes.done:
        fed.changes = None
    if changes:
        _publish(owner, number, fed, view, changes)
    else:
        owner.serve_again(number)


def _ask(owner: OwnerState, number: int, fed: FedStream, view: str) -> None:
    """Ask for other rows than the last ones."""
    if owner.now < fed.resume_at:
        owner.alarms.set(number, owner.wall_ms() + 1 + int(1000 * (fed.resume_at - owner.now)))
        return
    fed.asking = True
    wait_ms = COUNTED_WAIT_MS if fed.withheld else ROWS_WAIT_MS
    try:
        owner.placed.read_view(
            number, view, fed.version, wait_ms, partial(_answered, owner, number, fed, view)
        )
    except Refusal as refusal:
        _answered(owner, number, fed, view, None, refusal)


def _answered(
    owner: OwnerState,
    number: int,
    fed: FedStream,
    view: str,
    found: ViewRows | None,
    refusal: Refusal | None,
) -> None:
    if owner.fed_streams.get(number) is not fed:
        # This node has lost the partition since, or the stream is gone.
        return
    fed.asking = False
    # The owners of a queue's parts refuse rows that are too many when they are merged.
    if isinstance(refusal, PreconditionFailedError) or (found is not None and found.cut):
        fed.resume_at = owner.now + TOO_MANY_ROWS_S
        _note(owner, number, fed, view, Feeding.TOO_MANY_ROWS)
    elif found is None:
        if isinstance(refusal, NotFoundError) and owner.catalog_fresh():
            # A later view of the name may be over another queue, whose owner counts other versions.
            fed.version, fed.whole_in = UNKNOWN_VERSION, 0
            _note(owner, number, fed, view, Feeding.NO_VIEW)
        fed.resume_at = owner.now + UNFED_PAUSE_S
    else:
        _note(owner, number, fed, view, Feeding.FED)
        told = owner.queues[number].delivery.state.rows if number in owner.queues else None
        _take(fed, found, owner.now, tells=told is not None)
    owner.serve_again(number)


def _take(fed: FedStream, found: ViewRows, now: float, *, tells: bool) -> None:
    """Take rows. Those of a new owner that lack something are none: rows would shrink and grow again.
    `tells`: the stream has told rows that the view may still have.
    """
    term = found.version.term
    if found.complete or not tells:
        fed.whole_in = term
    elif term != fed.whole_in:
        fed.withheld, fed.version = True, found.version
        return
    if not found.unchanged:
        fed.changes, fed.version = RowChanges(found), found.version
        fed.resume_at = now + PAUSE_S_A_ROW * len(found.rows)
    elif fed.withheld:
        fed.version = UNKNOWN_VERSION
    fed.withheld = False


def _note(owner: OwnerState, number: int, fed: FedStream, view: str, feeding: Feeding) -> None:
    """Tell what has become of the stream, where that is new."""
    if feeding is not fed.feeding:
        fed.feeding = feeding
        owner.recovery_points.note(FedByView(number, view, feeding))


def _publish(owner: OwnerState, number: int, fed: FedStream, view: str, changes: ChangedRows) -> None:
    """Publish changes, with the rows that are told by them in the same entry."""
    rows = ((key, NO_ROW if row is None else row_digest(row)) for key, row in changes.items())
    step = encode_tell_rows(OpKind.ROWS, TellRows(number, tuple(rows)))
    queues, first = with_queues_over(owner, (number,)), owner.next_sequence
    fed.logging = True
    owner.awaiting_marks.update(queues)
    taking = Taking(owner, b"", tried=False, kept=[])
    # The stream refuses the messages of others.
    taking.copies = True
    taking.take(_messages(view, changes.items()), queues, 0)
    taking.keep(step)
    taking.finish(OWNER, 0, first)
    owner.proposal.committed.append(partial(_logged, owner, number, fed))
    owner.wake()


def _logged(owner: OwnerState, number: int, fed: FedStream) -> None:
    """The entry is applied."""
    fed.logging = False
    if owner.fed_streams.get(number) is fed:
        owner.serve_again(number)


def _messages(view: str, changes: Iterable[tuple[bytes, bytes | None]]) -> Run:
    runs = []
    for key, row in changes:
        headers: dict[str, Any] = {KEY_HEADER: key.decode()}
        if row is None:
            headers[DELETED_HEADER] = True
        properties = {"content_type": "application/json", "delivery_mode": 2, "headers": headers}
        body = _GONE_BODY if row is None else row
        runs.append(FORMATS[AMQP_0_9_1].composed("", view, properties, body, None, len(body)))
    return joined(runs)
