"""Links on which peers follow the rows of views: reads the rows for the machine of the connection
(`node.wire.amqp10.row_links`).

The rights are those of a read of the view, asked at each reading: a peer that loses them loses the link.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from node.message.json_text import to_json
from node.refusal import NotFoundError, Refusal
from node.session.amqp10.refusals import refusal_error
from node.session.command_limits import CommandLimitError, check_command
from node.session.commands import ReadView, Result, ViewRead
from node.session.core import MachineSession, SessionCore
from node.session.view_port import ViewRows, version_of
from node.wire.amqp10 import effects
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import AmqpCondition, Error, LinkCondition
from node.wire.amqp10.followed_rows import NO_VERSION, FollowedRows, RowsRead
from node.wire.amqp10.links import OutgoingLink

TOO_MANY_ROWS: Final = Error(
    AmqpCondition.RESOURCE_LIMIT_EXCEEDED,
    "the view has more rows than a link follows: group by less, or read the view with a filter",
)

TOO_LARGE: Final = Error(
    LinkCondition.MESSAGE_SIZE_EXCEEDED, "a row is larger than the messages that the link takes"
)


class ViewLinks:
    """Carries out the effects of one connection that are about views."""

    def __init__(self, session: MachineSession, core: SessionCore, connection: Connection) -> None:
        self._session, self._core, self._connection = session, core, connection

    def handlers(self) -> dict[type[Any], Callable[[Any], None]]:
        """By effects."""
        return {effects.ReadRows: self._read_rows, effects.RowTooLarge: self._too_large}

    def attach(self, link: OutgoingLink, view: str, missing: Refusal | None = None) -> None:
        """Attach a link to a view. Where there is no such view, the refusal is `missing`."""
        rows = FollowedRows(view)
        self._read(link, rows, NO_VERSION, 0, partial(self._attached, link, rows, missing))

    def _read(
        self,
        link: OutgoingLink,
        rows: FollowedRows,
        version: tuple[int, ...],
        wait_ms: int,
        answer: Callable[[Result | Refusal], None],
    ) -> None:
        command = ReadView(rows.view, version_of(version), wait_ms, keyed=True)
        try:
            check_command(command)
        except CommandLimitError as error:
            answer(NotFoundError(str(error)))
        else:
            self._core.carry_out(link.session, command, answer)

    def _attached(
        self, link: OutgoingLink, rows: FollowedRows, missing: Refusal | None, result: Result | Refusal
    ) -> None:
        with self._session:
            sessions = self._connection.sessions
            if isinstance(result, Refusal):
                gone = missing is not None and isinstance(result, NotFoundError)
                sessions.refuse(link, refusal_error(missing if missing is not None and gone else result))
            elif isinstance(result, ViewRead) and result.found.cut:
                sessions.refuse(link, TOO_MANY_ROWS)
            elif isinstance(result, ViewRead):
                rows.take(rows_read(result.found))
                sessions.following(link, rows)
            self._session.answered()

    def _read_rows(self, effect: effects.ReadRows) -> None:
        answer = partial(self._rows_read, effect)
        self._read(effect.link, effect.rows, effect.version, effect.wait_ms, answer)

    def _rows_read(self, effect: effects.ReadRows, result: Result | Refusal) -> None:
        link, rows, sessions = effect.link, effect.rows, self._connection.sessions
        with self._session:
            if self._core.ended or not sessions.parts.rows.answered(link, rows, waited=effect.wait_ms > 0):
                return
            if isinstance(result, Refusal):
                sessions.cannot_follow(link, _ended(result))
            elif isinstance(result, ViewRead) and result.found.cut:
                sessions.cannot_follow(link, TOO_MANY_ROWS)
            elif isinstance(result, ViewRead):
                rows.take(rows_read(result.found))
            self._session.answered()

    def _too_large(self, effect: effects.RowTooLarge) -> None:
        self._connection.sessions.cannot_follow(effect.link, TOO_LARGE)


def rows_read(found: ViewRows) -> RowsRead:
    """An answer of the broker as the machine takes it, with the texts of keys and rows."""
    rows = None
    if not found.unchanged:
        texts = (to_json(dict(zip(found.fields, row, strict=True))).encode() for row in found.rows)
        rows = dict(zip(map(to_json, found.keys), texts, strict=True))
    return RowsRead(found.version.numbers, rows, found.behind, found.complete, found.at_once)


def _ended(refusal: Refusal) -> Error:
    """The error of a link that was attached."""
    if isinstance(refusal, NotFoundError):
        return Error(AmqpCondition.RESOURCE_DELETED, str(refusal))
    return refusal_error(refusal)
