"""The node `amqp$admin` (seed 000, §6.3.1) of one session: batches of commands as messages.

A batch is carried out whole or not at all, and is one command of the catalog's log. The batches of a session
are carried out one after the other, in the order in which they came.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from node.message.requests import RequestMessage
from node.message.run import Run
from node.names import ADMIN_NODE
from node.refusal import NotImplementedRefusal, PreconditionFailedError, Refusal
from node.session.access_checks import AccessChecks
from node.session.batch_port import BatchCommand, CommandDone, QueryQueues, RefusedCommand
from node.session.batch_reading import BatchError, entries_of, read_batch
from node.session.permissions import Scope
from node.session.ports import BrokerPort
from node.session.publishing_session import PublishingSession
from node.session.queue_description import QueueDescription
from node.session.statuses import NOT_IMPLEMENTED, status_of
from node.wire.formats import format_of

WAITING_BATCHES: Final = 16
"""With more batches waiting, the session publishes nothing more before all of them have been carried out."""

BATCH_OCTETS: Final = 64 * 1024
"""Octets of the body of a batch."""

ANSWER_OCTETS: Final = 4 * 1024 * 1024
"""Octets of an answer as JSON. A longer one is sent without the queues that queries have found."""

OK, CREATED, TOO_LARGE, FAILED_DEPENDENCY, UNAVAILABLE = 200, 201, 413, 424, 503

NOT_CARRIED_OUT: Final = "the batch has been refused for another command"


def is_for_admin(run: Run) -> bool:
    """Whether the messages of a run, which no queue takes, are for the node. All of them have one route."""
    if run.exchange:
        return False
    key = run.routing_key if run.routing_key is not None else format_of(run).routing_keys(run)[0]
    return key == ADMIN_NODE


def transacted() -> PreconditionFailedError:
    """The refusal of a batch in a transaction."""
    return PreconditionFailedError(
        f"a message to '{ADMIN_NODE}' takes no part in a transaction: its commands would wait for the commit"
    )


class WaitingBatch(NamedTuple):
    """A batch that has no answer. `tag` is that of the publish; 0: the client wants no confirm. `scope` is
    that of the session at the publish.
    """

    scope: Scope
    holder: int
    channel: int
    run: Run
    tag: int


class AdminNode:
    """See the module's docstring. The node carries out batches that have come, also when the session has
    ended.
    """

    def __init__(self, port: BrokerPort, session: PublishingSession) -> None:
        self._port, self._session = port, session
        self._waiting: deque[WaitingBatch] = deque()
        self._busy = self._held = False

    def takes(self, scope: Scope, holder: int, channel: int, run: Run, first_tag: int) -> bool:
        """Whether the messages of a run, which no queue takes, are for the node: the node carries them out,
        and confirms or refuses each by its tag. `holder` is the number of the connection.
        """
        if not is_for_admin(run):
            return False
        for index in range(run.count):
            tag = first_tag + index if first_tag else 0
            self._waiting.append(WaitingBatch(scope, holder, channel, run.slice(index, 1), tag))
        self._go_on()
        if len(self._waiting) > WAITING_BATCHES and not self._held:
            self._held = True
            self._session.hold(channel)
        return True

    def _go_on(self) -> None:
        while self._waiting and not self._busy:
            self._busy = True
            self._begin(self._waiting.popleft())
        if self._held and not self._waiting and not self._busy:
            self._held = False
            self._session.unblocked()

    def _begin(self, batch: WaitingBatch) -> None:
        request = format_of(batch.run).request(batch.run, BATCH_OCTETS)
        try:
            commands = read_batch(entries_of(request))
        except BatchError as error:
            self._refuse(batch, request, error.index, error.status, _refusal_of(error))
            return
        refused = self._without_rights(batch, commands)
        if refused is not None:
            self._answered(batch, request, commands, [], refused)
            return
        answered = partial(self._answered, batch, request, commands)
        self._port.batches.carry_out(batch.scope.vhost, batch.holder, commands, answered)

    def _without_rights(self, batch: WaitingBatch, commands: Sequence[BatchCommand]) -> RefusedCommand | None:
        """The first command to which the user has no right."""
        access = AccessChecks(self._port)
        for index, command in enumerate(commands):
            try:
                access.check_batched(batch.scope, batch.holder, command)
            except Refusal as refusal:
                return RefusedCommand(index, refusal)
        return None

    def _answered(
        self,
        batch: WaitingBatch,
        request: RequestMessage,
        commands: Sequence[BatchCommand],
        done: list[CommandDone],
        refused: RefusedCommand | None,
    ) -> None:
        if refused is None:
            found = list(map(_told, commands, done))
            self._finish(batch, request, found, None)
        elif refused.number < 0:
            self._refuse(batch, request, None, UNAVAILABLE, refused.refusal)
        else:
            refusal, status = refused.refusal, status_of(refused.refusal, UNAVAILABLE)
            self._refuse(batch, request, refused.number, status, refusal, len(commands))

    def _refuse(
        self,
        batch: WaitingBatch,
        request: RequestMessage,
        index: int | None,
        status: int,
        refusal: Refusal,
        count: int = 0,
    ) -> None:
        answers: list[dict[str, Any]] = [{"status": status, "reason": str(refusal)}]
        if index is not None:
            other: dict[str, Any] = {"status": FAILED_DEPENDENCY, "reason": NOT_CARRIED_OUT}
            answers = [other] * index + answers + [other] * (count - index - 1)
        self._finish(batch, request, answers, refusal)

    def _finish(
        self,
        batch: WaitingBatch,
        request: RequestMessage,
        answers: list[dict[str, Any]],
        refusal: Refusal | None,
    ) -> None:
        """Send the answer, tell the outcome of the publish, and begin with the next batch."""
        if request.place is not None:
            self._send(batch, request, request.place, answers)
        if batch.tag and refusal is None:
            self._session.confirm(batch.channel, batch.tag, batch.tag)
        elif batch.tag and refusal is not None:
            self._session.batch_refused(batch.channel, batch.tag, refusal)
        self._busy = False
        self._go_on()

    def _send(
        self,
        batch: WaitingBatch,
        request: RequestMessage,
        place: tuple[str, str],
        answers: list[dict[str, Any]],
    ) -> None:
        """Publish the answer with the rights of the user. An address to which the user may not publish, or
        where there is no queue, gets none.
        """
        octets = _json(answers)
        if len(octets) > ANSWER_OCTETS:
            answers = [_without_queues(one) for one in answers]
            octets = _json(answers)
        answer = format_of(batch.run).response(batch.run, request, place, answers, octets)
        permissions = self._port.permissions
        try:
            route = self._port.route(batch.scope, *place)
            if permissions.write_filters and permissions.kept_out(batch.scope, answer):
                return
        except Refusal:
            return
        if route:
            self._port.publish(self._session, batch.channel, answer, route, 0)


def _json(answers: list[dict[str, Any]]) -> bytes:
    # Values that field tables have, and JSON has not, are told as texts.
    return json.dumps(answers, separators=(",", ":"), default=_as_text).encode()


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _without_queues(answer: dict[str, Any]) -> dict[str, Any]:
    if "queues" not in answer:
        return answer
    return {"status": TOO_LARGE, "reason": "the queues that are found take too many octets: ask for fewer"}


def _refusal_of(error: BatchError) -> Refusal:
    kind: Callable[[str], Refusal] = (
        NotImplementedRefusal if error.status == NOT_IMPLEMENTED else PreconditionFailedError
    )
    return kind(str(error))


def _told(command: BatchCommand, done: CommandDone) -> dict[str, Any]:
    if isinstance(command, QueryQueues):
        return {"status": OK, "complete": not done.cut, "queues": [_shown(queue) for queue in done.found]}
    return {"status": CREATED if done.created else OK}


def _shown(queue: QueueDescription) -> dict[str, Any]:
    return {
        "name": queue.name,
        "type": queue.kind,
        "durable": queue.durable,
        "exclusive": queue.exclusive,
        "auto_delete": queue.auto_delete,
        "arguments": dict(queue.arguments),
        "leader": queue.leader,
        "replicas": list(queue.replicas),
    }
