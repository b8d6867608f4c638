"""The epochs of sinks over HTTP: branches are staged, and a commit makes all of an epoch visible as one
(docs/log-api.md, requirement F8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import told_in_time
from cluster.admin.api.errors import ApiError, bad_request, no_such_object
from cluster.admin.api.internal_channel import InternalChannel, internal_channel
from cluster.admin.api.loop_share import LoopShare
from cluster.admin.api.posted_blocks import BlockSyntaxError, read_posted_block
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.definitions import PartitionKind
from cluster.gateway.epochs import FULL, TellEpoch
from cluster.peers.epoch_requests import ABANDONED, COMMITTED, MISSING, OVERTAKEN
from cluster.peers.link_messages import UNREACHABLE
from node.message.run import Run
from node.queue.epoch_operations import LAST_EPOCH, BranchName
from node.refusal import NotFoundError
from node.session.commands import DeclareQueue, DeleteQueue
from node.session.permissions import IMPERSONATOR
from node.session.ports import QueueDeclaration, QueueRef, Route
from node.wire.checked_messages import MessageChecks

endpoints = Endpoints()

LEDGER_PREFIX: Final = "sink."
"""The ledger of a sink is the queue with this in front of the sink's name."""

STAGED_AT_ONCE: Final = 64 * 1024 * 1024
"""Octets of blocks that a node stages at a time; a further block is refused (503)."""

MOST_BRANCHES: Final = 100_000
"""Branches that one commit may name."""

_LAST_U32: Final = (1 << 32) - 1
_LAST_U64: Final = (1 << 64) - 1
_FAIL, _DROP = "fail", "drop"

_REPLICATED: Final[dict[str, Any]] = {"x-queue-type": "quorum"}
_PATH: Final = "/sinks/{vhost}/{sink}"


@endpoints.on("POST", _PATH + "/epochs/{epoch}/branches/{task}/{attempt}/{number}")
async def stage_branch(services: Services, call: Call) -> dict[str, Any]:
    """Stage a branch: the body is a block of messages."""
    epoch, unroutable = _number(call, "epoch", LAST_EPOCH), _unroutable(call)
    name = BranchName(
        _number(call, "task", _LAST_U32),
        _number(call, "attempt", _LAST_U64),
        _number(call, "number", _LAST_U32),
    )
    _check_ready(services)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        ledger = _ledger(services, call, channel)
        with _STAGING.of(len(call.body)):
            routed = await _routed(services, call, channel, drops=unroutable == _DROP)
            answer = partial(services.front_end.epochs.stage, ledger, epoch, name, routed.publishes)
            told = await _told(answer)
    state = COMMITTED if told[0] == COMMITTED else "staged"
    return {"state": state, "rows": routed.rows, "unroutable": routed.unroutable}


@endpoints.on("POST", _PATH + "/epochs/{epoch}/commit")
async def commit_epoch(services: Services, call: Call) -> dict[str, Any]:
    """Make the named branches of an epoch visible as one, and drop all others."""
    epoch, branches, after = _number(call, "epoch", LAST_EPOCH), _branches(call), _after(call)
    _check_known(services)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        ledger = _ledger(services, call, channel)
        await _told(partial(services.front_end.epochs.commit, ledger, epoch, branches, after))
    return {"state": COMMITTED}


@endpoints.on("POST", _PATH + "/epochs/{epoch}/abort")
async def abort_epoch(services: Services, call: Call) -> dict[str, Any]:
    """Drop the branches of an epoch, unless the epoch is committed."""
    epoch = _number(call, "epoch", LAST_EPOCH)
    _check_known(services)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        ledger = _ledger(services, call, channel)
        told = await _told(partial(services.front_end.epochs.drop, ledger, epoch))
    return {"state": told[0]}


@endpoints.on("PUT", _PATH)
async def make_sink(services: Services, call: Call) -> None:
    """Declare the ledger of a sink, if it is not there."""
    _check_known(services)
    declaration = QueueDeclaration(LEDGER_PREFIX + call.path["sink"], True, False, False, _REPLICATED)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        await channel.call(DeclareQueue(declaration))


@endpoints.on("GET", _PATH)
async def show_sink(services: Services, call: Call) -> dict[str, Any]:
    """The ledger of a sink."""
    _check_known(services)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        ledger = _ledger(services, call, channel)
        _, committed, rows = await _told(partial(services.front_end.epochs.show, ledger))
    epochs = [{"epoch": epoch, "branches": count, "newest": newest} for epoch, count, newest in rows]
    return {
        "vhost": call.vhost,
        "sink": call.path["sink"],
        "ledger": ledger.name,
        "committed": None if committed < 0 else committed,
        "epochs": epochs,
    }


@endpoints.on("DELETE", _PATH)
async def forget_sink(services: Services, call: Call) -> None:
    """Delete the ledger of a sink, and drop its branches."""
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        await channel.call(DeleteQueue(LEDGER_PREFIX + call.path["sink"], False, False))


# -- ledgers --------------------------------------------------------------------------------------


def _ledger(services: Services, call: Call, channel: InternalChannel) -> QueueRef:
    """The ledger's queue, which the user may write. Raises Refusal and ApiError."""
    name = LEDGER_PREFIX + call.path["sink"]
    try:
        ledger, _ = channel.writable(name)
    except NotFoundError:
        raise no_such_object() from None
    partition = services.state.partitions.get(ledger.partition)
    if partition is None or partition.kind is not PartitionKind.REPLICATED:
        raise bad_request(f"queue '{name}' in vhost '{call.vhost}' is no ledger: it is not replicated")
    return ledger


def _check_known(services: Services) -> None:
    """Raises ApiError."""
    if not services.front_end.epochs.known:
        raise bad_request("upgrade all nodes first: one runs a release without epochs")


def _check_ready(services: Services) -> None:
    """Whether messages are taken now. Raises ApiError."""
    _check_known(services)
    if (reason := services.shortage()) is not None:
        raise ApiError(503, "service_unavailable", f"publishers are held back: {reason}")


# -- blocks ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Routed:
    """The messages of a block, with their routes."""

    publishes: list[tuple[Run, Route]]
    rows: int = 0
    unroutable: int = 0


class _Staging:
    """The octets of the blocks that a node stages now."""

    def __init__(self) -> None:
        self.octets = 0
        self.share = LoopShare()

    def of(self, octets: int) -> _Octets:
        """Count a block, as long as the context lasts. Raises ApiError where too many octets are staged."""
        if self.octets and self.octets + octets > STAGED_AT_ONCE:
            raise ApiError(503, "service_unavailable", "too many blocks at once; try again later")
        return _Octets(self, octets)


class _Octets:
    def __init__(self, staging: _Staging, octets: int) -> None:
        self._staging, self._octets = staging, octets

    def __enter__(self) -> None:
        self._staging.octets += self._octets

    def __exit__(self, *_: object) -> None:
        self._staging.octets -= self._octets


_STAGING: Final = _Staging()
"""Of this process, which is one node."""


async def _routed(services: Services, call: Call, channel: InternalChannel, *, drops: bool) -> _Routed:
    """The messages of the block in the body. Raises Refusal and ApiError, also for a message that no queue
    takes, unless these are dropped (`drops`).
    """
    user = None if IMPERSONATOR in call.identity.tags else call.user
    checks = MessageChecks(user, services.config.cluster.limits.message_max_bytes)
    found = _Routed([])
    try:
        async with _STAGING.share.turn():
            for run in read_posted_block(call.body, checks):
                if run is not None:
                    _route(channel, run, found, drops=drops)
                await _STAGING.share.breath()
    except BlockSyntaxError as error:
        facts = {"octet": error.at} | ({} if error.row < 0 else {"row": error.row})
        raise ApiError(400, "bad_request", str(error), **facts) from None
    return found


def _route(channel: InternalChannel, run: Run, found: _Routed, *, drops: bool) -> None:
    try:
        pieces = channel.route(run)
    except NotFoundError as error:
        raise ApiError(400, "bad_request", f"row {found.rows}: {error}", row=found.rows) from None
    for piece in pieces:
        if piece.route:
            found.publishes.append((piece.run, piece.route))
        elif drops:
            found.unroutable += piece.run.count
        else:
            key = f"'{run.routing_key}' of exchange '{run.exchange}'"
            reason = f"row {found.rows} is unroutable: no queue takes the routing key {key}"
            raise ApiError(400, "unroutable", reason, row=found.rows)
        found.rows += piece.run.count


# -- answers --------------------------------------------------------------------------------------


async def _told(ask: Callable[[TellEpoch], None]) -> list[Any]:
    """The answer of the ledger. Raises ApiError."""
    told = await told_in_time(ask)
    if told[0] == FULL:
        raise ApiError(400, "refused", "a queue refuses a message of the branch: it is full, or deleted")
    if told[0] == MISSING:
        task, attempt, number = told[1:]
        reason = f"branch {number} of attempt {attempt} at task {task} is not staged"
        raise ApiError(409, "missing", reason, task=task, attempt=attempt, branch=number)
    if told[0] == OVERTAKEN:
        committed = None if told[1] < 0 else told[1]
        reason = f"the last committed epoch is {committed}: another job writes to the sink"
        raise ApiError(409, OVERTAKEN, reason, committed=committed)
    if told[0] == ABANDONED or told == UNREACHABLE:
        raise ApiError(503, "service_unavailable", "a node was lost meanwhile; try again")
    if not isinstance(told[0], str):
        raise no_such_object()
    return told


# -- parameters -----------------------------------------------------------------------------------


def _number(call: Call, name: str, highest: int) -> int:
    """Raises ApiError."""
    text = call.path[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= highest):
        raise bad_request(f"{name}, {text!r}, is no number from 0 to {highest}")
    return int(text)


def _unroutable(call: Call) -> str:
    """Raises ApiError."""
    for name in call.query:
        if name != "unroutable":
            raise bad_request(f"there is no parameter {name}; this one is: unroutable")
    asked = call.query.get("unroutable", _FAIL)
    if asked not in (_FAIL, _DROP):
        raise bad_request(f"unroutable is {_FAIL} or {_DROP}, not {asked!r}")
    return asked


def _branches(call: Call) -> list[tuple[int, int, int]]:
    """The branches that a commit names: (task, attempt, number of branches). Raises ApiError."""
    fields = call.fields()
    fields.require("branches")
    rows = fields.values["branches"]
    if not isinstance(rows, list):
        raise bad_request("branches is no list of [task, attempt, number of branches]")
    limits = (_LAST_U32, _LAST_U64, MOST_BRANCHES)
    found, total = list[tuple[int, int, int]](), 0
    for row in rows:
        if not (isinstance(row, list) and len(row) == len(limits) and all(map(_is_within, row, limits))):
            raise bad_request(f"branches: {row!r} is no [task, attempt, number of branches]")
        total += row[2]
        found.append((row[0], row[1], row[2]))
    if total > MOST_BRANCHES:
        raise bad_request(f"branches: {total} of them; {MOST_BRANCHES} are allowed")
    if len({task for task, _, _ in found}) < len(found):
        raise bad_request("branches: a task has two attempts")
    return found


def _after(call: Call) -> int | None:
    """The epoch that has to be the last committed one, -1 for none; None for no such condition. Raises
    ApiError.
    """
    values = call.fields().values
    if "after" not in values:
        return None
    after = values["after"]
    if after is None:
        return -1
    if not _is_within(after, LAST_EPOCH):
        raise bad_request(f"after: {after!r} is no number from 0 to {LAST_EPOCH}, and not null")
    return int(after)


def _is_within(value: object, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= highest
