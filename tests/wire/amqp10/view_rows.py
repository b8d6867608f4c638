"""The messages that tell the rows of a view, taken apart."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from node.wire.amqp10.followed_rows import VIEW_BEHIND, VIEW_COMPLETE, VIEW_DELETED, VIEW_KEY
from node.wire.amqp10.messages import body_of
from node.wire.amqp10.sections import annotations_of, scan_sections
from node.wire.amqp10.values import ULong
from tests.wire.amqp10.runs import run_of


class ToldRow(NamedTuple):
    """A row as a message tells it; None for one that has gone."""

    key: list[Any]
    row: dict[str, Any] | None
    behind: int = 0
    complete: bool = True


def told_row(octets: bytes) -> ToldRow:
    """The row in a message."""
    sections = scan_sections(octets, 0, len(octets))
    annotations: Any = annotations_of(octets, sections.message_annotations)
    body = body_of(run_of(octets))
    assert isinstance(body, str | bytes)
    row = json.loads(body)
    assert annotations[VIEW_DELETED] is (row is None)
    behind = annotations[VIEW_BEHIND]
    assert isinstance(behind, ULong)
    return ToldRow(json.loads(annotations[VIEW_KEY]), row, int(behind), annotations[VIEW_COMPLETE])
