"""Batches of commands about queues, carried out whole or not at all (seed 000, §6.3.1). Pure and
deterministic.

A batch goes through its steps twice. The first time each step is checked against the queues as the steps
before it would leave them (`Draft`), and the catalog stays as it is. Where no step is refused, the second
time carries them out, with the functions of single commands. A refused step refuses the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from cluster.catalog.definitions import PartitionDefinition, PartitionKind, QueueDefinition
from cluster.catalog.histories import check_not_history, history_of, queue_of
from cluster.catalog.owner_parts import check_whole
from cluster.catalog.redeclaration import check_redeclared, check_stated
from cluster.catalog.renaming import NamedQueues, give_name, renamed
from cluster.catalog.topics import Topics
from node.message.streams import X_HISTORY, X_VIEW, history_name
from node.queue.operations import Semantics
from node.refusal import NotFoundError, PreconditionFailedError, Refusal, locked

_Name = tuple[str, str]
"""A virtual host and the name of a queue in it."""


class StepRefusedError(Refusal):
    """The batch is refused, and changes nothing: `cause` is the refusal of step `step`, counted from 0."""

    code = 406

    def __init__(self, step: int, cause: Refusal) -> None:
        super().__init__(str(cause))
        self.step: Final = step
        self.cause: Final = cause


class QueueCommands(NamedQueues, Protocol):
    """The catalog's state, as far as batches read and change it."""

    @property
    def partitions(self) -> dict[int, PartitionDefinition]: ...
    def check_queue_limit(self, vhost: str, name: str, others: int = 0) -> None: ...
    def check_placed(self, replicas: Sequence[str], transient: bool, front_end: int) -> tuple[str, ...]: ...
    @property
    def declare_queue(self) -> Callable[..., dict[str, Any]]: ...
    def remove_queue(self, queue: QueueDefinition) -> None: ...


class Draft:
    """The queues as they are once the steps so far are carried out."""

    def __init__(self, present: Mapping[_Name, QueueDefinition]) -> None:
        self._present = present
        self._changed: dict[_Name, QueueDefinition | None] = {}
        """The queues that the steps change; None for those that the steps delete."""
        self.made: dict[_Name, PartitionDefinition] = {}
        """The kind and size of the partition of each queue that the steps create."""

    def get(self, name: _Name) -> QueueDefinition | None:
        """The queue of this virtual host and name; None for none."""
        return self._changed[name] if name in self._changed else self._present.get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, tuple) and self.get(name) is not None

    def more(self, vhost: str) -> int:
        """How many queues the virtual host has more than before the batch."""
        changed = [(name, queue) for name, queue in self._changed.items() if name[0] == vhost]
        return sum((queue is not None) - (name in self._present) for name, queue in changed)

    def put(self, queue: QueueDefinition) -> None:
        """A step creates or changes a queue."""
        self._changed[queue.vhost, queue.name] = queue

    def remove(self, queue: QueueDefinition) -> None:
        """A step deletes a queue, and with it the stream that keeps its history."""
        self._changed[queue.vhost, queue.name] = None
        history = self.get((queue.vhost, history_name(queue.name)))
        if history is not None and queue_of(history) == queue.name:
            self._changed[history.vhost, history.name] = None


class Batches:
    """The catalog's command `batch`: `steps` are pairs of a name and arguments.

    `create`: those of `declare_queue`, and `may_exist`. The others have the `name` of a queue, and with
    `front_end` and `holder` the connection that asks. `assert` has `properties` and `arguments`, which the
    queue must have; `update` has `arguments`, of which None takes one away; `rename` has the new name `to`;
    `delete` has no more.
    """

    def __init__(self, catalog: QueueCommands) -> None:
        self._catalog = catalog

    def carry_out(self, vhost: str, steps: list[list[Any]]) -> list[dict[str, Any] | None]:
        """Carry out a batch. Returns the result of each step: for `create` that of `declare_queue`.

        Raises StepRefusedError, and has changed nothing then.
        """
        draft = Draft(self._catalog.queues)
        for number, (name, arguments) in enumerate(steps):
            try:
                _CHECKS[name](self, draft, vhost, arguments)
            except Refusal as refusal:
                raise StepRefusedError(number, refusal) from None
        return [_STEPS[name](self, vhost, arguments) for name, arguments in steps]

    # -- checks ---------------------------------------------------------------------------------

    def _check_create(self, draft: Draft, vhost: str, step: dict[str, Any]) -> None:
        name, arguments = step["name"], step["arguments"]
        there = draft.get((vhost, name))
        if there is not None:
            if not step["may_exist"]:
                raise PreconditionFailedError(f"cannot create queue '{name}' in vhost '{vhost}': it is there")
            check_redeclared(there, step, self._partition(draft, there))
            return
        if X_VIEW in arguments:
            raise PreconditionFailedError(
                f"cannot create queue '{name}' in vhost '{vhost}' in a batch: {X_VIEW} names a view, which "
                "the batch may change; declare the stream by itself"
            )
        self._catalog.parts.check_declared(vhost, name, arguments, draft)
        topic = Topics(draft.get).asked(vhost, name, arguments)
        history = history_of(vhost, name, arguments) if topic is None and X_HISTORY in arguments else None
        self._catalog.check_queue_limit(vhost, name, draft.more(vhost) + (history is not None))
        replicas, transient = step["replicas"], step["transient"]
        if topic is None:
            replicas = self._catalog.check_placed(replicas, transient, step["front_end"])
        kind = PartitionKind.TRANSIENT if transient else PartitionKind.REPLICATED
        draft.made[vhost, name] = PartitionDefinition(0, kind, tuple(replicas), size=step.get("size", 0))
        draft.put(_made(vhost, step))
        if history is not None:
            draft.put(QueueDefinition(id=0, partition=0, **history))

    def _partition(self, draft: Draft, queue: QueueDefinition) -> PartitionDefinition:
        if queue.id:
            return self._catalog.partitions[queue.partition]
        return draft.made.get((queue.vhost, queue.name), _OF_HISTORIES)

    def _check_assert(self, draft: Draft, vhost: str, step: dict[str, Any]) -> None:
        there = _found(draft, vhost, step)
        check_stated(there, step["properties"], step["arguments"], self._partition(draft, there))

    def _check_update(self, draft: Draft, vhost: str, step: dict[str, Any]) -> None:
        draft.put(_updated(_found(draft, vhost, step), step))

    def _check_delete(self, draft: Draft, vhost: str, step: dict[str, Any]) -> None:
        there = _found(draft, vhost, step)
        check_whole(there)
        check_not_history(there, draft)
        draft.remove(there)

    def _check_rename(self, draft: Draft, vhost: str, step: dict[str, Any]) -> None:
        there = _found(draft, vhost, step)
        new = renamed(there, step["to"], draft, self._catalog.parts)
        draft.remove(there)
        draft.put(new)
        made = draft.made.get((vhost, there.name))
        if made is not None:
            draft.made[vhost, new.name] = made

    # -- steps ----------------------------------------------------------------------------------

    def _create(self, vhost: str, step: dict[str, Any]) -> dict[str, Any] | None:
        asked = {name: value for name, value in step.items() if name != "may_exist"}
        return self._catalog.declare_queue(vhost=vhost, **asked)

    def _assert(self, vhost: str, step: dict[str, Any]) -> dict[str, Any] | None:
        return None

    def _update(self, vhost: str, step: dict[str, Any]) -> dict[str, Any] | None:
        self._catalog.change_queue(_updated(self._catalog.queues[vhost, step["name"]], step))
        return None

    def _delete(self, vhost: str, step: dict[str, Any]) -> dict[str, Any] | None:
        self._catalog.remove_queue(self._catalog.queues[vhost, step["name"]])
        return None

    def _rename(self, vhost: str, step: dict[str, Any]) -> dict[str, Any] | None:
        give_name(self._catalog, self._catalog.queues[vhost, step["name"]], step["to"])
        return None


_CHECKS: Final[dict[str, Callable[[Batches, Draft, str, dict[str, Any]], None]]] = {
    "create": Batches._check_create,
    "assert": Batches._check_assert,
    "update": Batches._check_update,
    "delete": Batches._check_delete,
    "rename": Batches._check_rename,
}

_STEPS: Final[dict[str, Callable[[Batches, str, dict[str, Any]], dict[str, Any] | None]]] = {
    "create": Batches._create,
    "assert": Batches._assert,
    "update": Batches._update,
    "delete": Batches._delete,
    "rename": Batches._rename,
}

_OF_HISTORIES: Final = PartitionDefinition(0, PartitionKind.REPLICATED, ())


def _made(vhost: str, step: dict[str, Any]) -> QueueDefinition:
    """A queue that a step creates; the catalog has no number and no partition for it yet."""
    fields = {name: step[name] for name in _FIELDS}
    return QueueDefinition(id=0, vhost=vhost, partition=0, semantics=Semantics(step["semantics"]), **fields)


_FIELDS: Final = ("name", "durable", "exclusive", "auto_delete", "arguments", "front_end", "holder")


def _found(draft: Draft, vhost: str, step: dict[str, Any]) -> QueueDefinition:
    """The queue of a step. Raises NotFoundError, and ResourceLockedError for that of another connection."""
    name = step["name"]
    queue = draft.get((vhost, name))
    if queue is None:
        raise NotFoundError(f"no queue '{name}' in vhost '{vhost}'")
    if queue.exclusive and (queue.front_end, queue.holder) != (step["front_end"], step["holder"]):
        raise locked(vhost, name)
    return queue


def _updated(queue: QueueDefinition, step: dict[str, Any]) -> QueueDefinition:
    arguments = {**queue.arguments, **step["arguments"]}
    kept = {name: value for name, value in arguments.items() if value is not None}
    return replace(queue, arguments=kept)
