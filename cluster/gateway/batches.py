"""Batches of commands about queues (seed 000, §6.3.1), which the catalog carries out as one command.

The front end places each new queue, as for a single declaration, and checks what no other command of the
batch can change. The catalog decides about the rest (`cluster.catalog.batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.catalog.batches import StepRefusedError
from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.local_parts import asks_for_part
from cluster.catalog.owner_parts import whole_name
from cluster.catalog.policy_settings import mistake_in_update
from cluster.catalog.redeclaration import refuse_reserved
from cluster.gateway.context import GatewayContext
from cluster.gateway.descriptions import Descriptions
from cluster.gateway.queue_declarations import Creation, QueueDeclarations
from node.message.streams import X_DEFAULT_PUBLISH_TARGET, X_RECOVERY_POINT
from node.queue.features.arguments import read_queue_arguments
from node.queue.placement_arguments import X_OWNERS
from node.refusal import PreconditionFailedError, Refusal
from node.routing.matching import normal_value
from node.session.batch_port import (
    AssertQueue,
    BatchCommand,
    CommandDone,
    MakeQueue,
    QueryQueues,
    RefusedCommand,
    RemoveQueue,
    RenameQueue,
    TakeBatch,
    UpdateQueue,
)
from node.session.filter_arguments import check_arguments_known
from node.session.ports import DeclaredQueue, QueueDeclaration, QueueRef
from node.session.queue_description import QueueDescription

MOST_DESCRIBED: Final = 1000
"""Queues that the queries of one batch describe."""

OLDER_RELEASE: Final = (
    "a node of the cluster runs a release without batches of commands; upgrade all nodes first"
)


class BatchStep(NamedTuple):
    """A step of the catalog's command, and the number of its command in the batch."""

    number: int
    name: str
    arguments: dict[str, Any]


class FrontEndBatches:
    """Implements `node.session.batch_port.BatchPort`."""

    def __init__(
        self, context: GatewayContext, declarations: QueueDeclarations, descriptions: Descriptions
    ) -> None:
        self._context, self._catalog = context, context.catalog
        self._declarations, self._placing = declarations, declarations.placing
        self._descriptions = descriptions

    def carry_out(self, vhost: str, holder: int, commands: Sequence[BatchCommand], answer: TakeBatch) -> None:
        """See `node.session.batch_port.BatchPort`."""
        if not self._context.formats.know_batches():
            answer([], RefusedCommand(0, PreconditionFailedError(OLDER_RELEASE)))
            return
        steps, index = list[BatchStep](), 0
        known = dict[str, dict[str, Any]]()
        try:
            for index, command in enumerate(commands):
                step = self._step(vhost, command, known)
                if step is not None:
                    asking = {"front_end": self._context.config.front_end, "holder": holder}
                    steps.append(BatchStep(index, step[0], {**asking, **step[1]}))
        except Refusal as refusal:
            answer([], RefusedCommand(index, refusal))
            return

        def told() -> None:
            answer(self._done(vhost, commands, {}), None)

        if steps:
            self._submit(vhost, commands, steps, answer)
        else:
            self._catalog.when_visible(told)

    def _submit(
        self, vhost: str, commands: Sequence[BatchCommand], steps: Sequence[BatchStep], answer: TakeBatch
    ) -> None:
        def created(made: set[int]) -> None:
            churn = self._declarations.churn
            churn.created += len(made)
            churn.deleted += sum(step.name == "delete" for step in steps)
            answer(self._done(vhost, commands, dict.fromkeys(made, True)), None)

        creations = BatchCreations(self._context, vhost, steps, created)

        def visible(value: Any, refusal: Refusal | None) -> None:
            if refusal is None:
                creations.visible(value)
            elif isinstance(refusal, StepRefusedError):
                answer([], RefusedCommand(steps[refusal.step].number, refusal.cause))
            else:
                answer([], RefusedCommand(-1, refusal))

        arguments = {"vhost": vhost, "steps": [[step.name, step.arguments] for step in steps]}
        self._catalog.submit("batch", arguments, visible, creations.applied)

    # -- steps ----------------------------------------------------------------------------------

    def _step(
        self, vhost: str, command: BatchCommand, known: dict[str, dict[str, Any]]
    ) -> tuple[str, dict[str, Any]] | None:
        """The step of a command; None for a query. `known` has the arguments of queues as the commands before
        leave them. Raises Refusal.
        """
        if isinstance(command, QueryQueues):
            return None
        if isinstance(command, MakeQueue):
            known[command.name] = command.arguments
            return "create", self._creating(vhost, command)
        name = self._placing.name_here(vhost, command.name)
        queue = self._catalog.state.queues.get((vhost, name))
        if queue is not None:
            self._placing.check_here(queue)
        if isinstance(command, AssertQueue):
            stated = {"properties": command.properties, "arguments": command.arguments}
            return "assert", {"name": name, **stated}
        if isinstance(command, RemoveQueue):
            known.pop(command.name, None)
            return "delete", {"name": name}
        if isinstance(command, RenameQueue):
            return "rename", {"name": name, "to": self._renaming(command, queue, known)}
        assert isinstance(command, UpdateQueue)
        present = known.get(command.name, {} if queue is None else queue.arguments)
        known[command.name] = self._updated(vhost, command, present)
        return "update", {"name": name, "arguments": command.arguments}

    def _creating(self, vhost: str, command: MakeQueue) -> dict[str, Any]:
        name, arguments = command.name, command.arguments
        if asks_for_part(arguments):
            raise PreconditionFailedError(f"cannot create queue '{name}': a batch creates no local queue")
        if X_OWNERS in arguments:
            raise PreconditionFailedError(
                f"cannot create queue '{name}': a batch creates no queue with several owners"
            )
        declaration = QueueDeclaration(name, command.durable, False, command.auto_delete, arguments)
        self._check_known(vhost, name, arguments)
        settings = read_queue_arguments(arguments, name, vhost)
        placement = self._placing.place(vhost, declaration, "")
        self._declarations.churn.declared += 1
        return {
            "name": name,
            "durable": command.durable,
            "exclusive": False,
            "auto_delete": command.auto_delete,
            "arguments": arguments,
            "semantics": int(settings.semantics),
            "may_exist": command.may_exist,
            "holder": 0,
            **self._declarations.place_of(declaration, placement),
        }

    def _renaming(
        self, command: RenameQueue, queue: QueueDefinition | None, known: dict[str, dict[str, Any]]
    ) -> str:
        """The new name of a queue. Raises Refusal."""
        if not self._context.formats.know_renaming():
            raise PreconditionFailedError(
                "a node of the cluster runs a release that renames no queues; upgrade all nodes first"
            )
        refuse_reserved(command.to)
        known[command.to] = known.pop(command.name, {} if queue is None else queue.arguments)
        return command.to

    def _updated(self, vhost: str, command: UpdateQueue, present: Mapping[str, Any]) -> dict[str, Any]:
        name = command.name
        if X_OWNERS in present:
            raise PreconditionFailedError(f"cannot update queue '{name}': it has several owners")
        mistake = mistake_in_update(command.arguments)
        if mistake is not None:
            raise PreconditionFailedError(f"cannot update queue '{name}' in vhost '{vhost}': {mistake}")
        if X_RECOVERY_POINT in command.arguments and not self._context.formats.know_changed_points():
            raise PreconditionFailedError(
                f"cannot update queue '{name}' in vhost '{vhost}': a node of the cluster runs a release that "
                f"changes no {X_RECOVERY_POINT}; upgrade all nodes first"
            )
        if X_RECOVERY_POINT in command.arguments and X_DEFAULT_PUBLISH_TARGET in present:
            raise PreconditionFailedError(
                f"cannot update queue '{name}' in vhost '{vhost}': {X_RECOVERY_POINT} of a queue over a "
                "pattern of streams counts at its declaration; declare another queue"
            )
        after = {key: value for key, value in {**present, **command.arguments}.items() if value is not None}
        self._check_known(vhost, name, after)
        read_queue_arguments(after, name, vhost)
        return after

    def _check_known(self, vhost: str, name: str, arguments: Mapping[str, Any]) -> None:
        absent = self._catalog.state.members.never_started
        check_arguments_known(name, vhost, arguments, self._context.formats.know_argument, absent)

    # -- answers --------------------------------------------------------------------------------

    def _done(
        self, vhost: str, commands: Sequence[BatchCommand], created: Mapping[int, bool]
    ) -> list[CommandDone]:
        found, left = list[CommandDone](), MOST_DESCRIBED
        for index, command in enumerate(commands):
            if isinstance(command, QueryQueues):
                done = self._queried(vhost, command, left)
                left -= len(done.found)
            else:
                done = CommandDone(created.get(index, False))
            found.append(done)
        return found

    def _queried(self, vhost: str, query: QueryQueues, most: int) -> CommandDone:
        """Describe queues as this node's catalog has them, `most` at most."""
        queues: Iterable[QueueDefinition] = self._catalog.state.queues.values()
        if query.name:
            one = self._catalog.state.queues.get((vhost, self._placing.name_here(vhost, query.name)))
            queues = () if one is None else (one,)
        found = list[QueueDescription]()
        for queue in queues:
            if queue.vhost == vhost and whole_name(queue) is None and _fits(queue, query):
                if len(found) == most:
                    return CommandDone(False, found, True)
                found.append(self._described(queue))
        return CommandDone(False, found)

    def _described(self, queue: QueueDefinition) -> QueueDescription:
        return self._descriptions.queue(QueueRef(queue.name, queue.partition, queue.id, queue.vhost))


def _fits(queue: QueueDefinition, query: QueryQueues) -> bool:
    """Whether the queue has the properties and arguments of a query; None: it lacks the argument."""
    properties = {
        "durable": queue.durable,
        "exclusive": queue.exclusive,
        "auto_delete": queue.auto_delete,
    }
    return all(properties[name] is value for name, value in query.properties.items()) and all(
        normal_value(queue.arguments.get(name)) == normal_value(value)
        for name, value in query.arguments.items()
    )


class BatchCreations:
    """The queues that a batch creates. Calls `done`, with the numbers of their commands, once every node sees
    the batch, and each queue is in its owner's log.
    """

    def __init__(
        self,
        context: GatewayContext,
        vhost: str,
        steps: Sequence[BatchStep],
        done: Callable[[set[int]], None],
    ) -> None:
        self._steps, self._done = steps, done
        self._created = set[int]()
        self._creations = {
            number: Creation(context, vhost, self._answered)
            for number, step in enumerate(steps)
            if step.name == "create"
        }
        self._left = len(self._creations)

    def applied(self, value: Any) -> None:
        """This node has carried out the batch; `value` has the result of each step."""
        for number, creation in self._creations.items():
            if value[number]["created"]:
                self._created.add(self._steps[number].number)
            creation.applied(value[number])

    def visible(self, value: Any) -> None:
        """Every node sees the batch."""
        if not self._creations:
            self._done(self._created)
        for number, creation in list(self._creations.items()):
            creation.visible(value[number])

    def _answered(self, declared: DeclaredQueue | None, refusal: Refusal | None) -> None:
        self._left -= 1
        if not self._left:
            self._done(self._created)
