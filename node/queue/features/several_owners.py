"""A queue with several owners (queue argument x-owners, docs/decisions/0074-several-owners.md). Each owner
has a part of the queue, and lends messages to the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from node.message.streams import STREAM_TYPE, X_HISTORY, X_QUEUE_TYPE, X_UNDERLYING_TOPIC
from node.queue.argument import Argument, beside_none_of
from node.queue.argument_types import UnacceptableError, read_integer
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, FeatureContext, Rule
from node.queue.placement_arguments import EACH_NODE, OWNERS_FIELD, X_OWNERS, X_REPLICATION
from node.queue.settings import QueueSettings

MOST_OWNERS: Final = 16
"""The most owners of one queue."""

OF_ONE_PLACE: Final = {
    "x-group-by": "one owner has to know which consumer has the messages of a group",
    "x-single-active-consumer": "one owner has to know all consumers",
    "x-key": "one owner has to know the last message of each key",
    "x-deduplication-window": "one owner has to know all ids of messages",
    "x-max-priority": "one owner has to know the highest of all messages",
    "x-priority-expression": "one owner has to know the highest of all messages",
    "x-target-queue-depth": "one owner has to know the order of all messages",
    "x-expires": "one owner has to know whether any client uses the queue",
    X_UNDERLYING_TOPIC: "the messages are those of a stream, which has one owner",
    X_HISTORY: "a history is a stream, which has one owner",
    X_REPLICATION: "a local queue has a part for the clients of each node alone",
}
"""The arguments that no queue with several owners has, and the reason of each."""


def _read_owners(value: object) -> int:
    """The number of owners; 0 for one at each node. Raises UnacceptableError."""
    if value == EACH_NODE:
        return 0
    number = read_integer(value)
    if not 2 <= number <= MOST_OWNERS:
        raise UnacceptableError(f"a queue with several owners has 2 to {MOST_OWNERS} of them, or {EACH_NODE}")
    return number


_clash = beside_none_of(X_OWNERS, tuple(OF_ONE_PLACE))


def _misfit(owners: object, arguments: Mapping[str, object]) -> str:
    if arguments.get(X_QUEUE_TYPE) == STREAM_TYPE:
        return "a stream has one owner"
    if owners == 0 and "x-barrier-expression" in arguments:
        return (
            f"no queue has both x-barrier-expression and {X_OWNERS} {EACH_NODE}: a barrier stands in each "
            "part, and the parts of nodes come and go"
        )
    clash = _clash(owners, arguments)
    reasons = (reason for name, reason in OF_ONE_PLACE.items() if name in arguments)
    return f"{clash}: {next(reasons)}" if clash else ""


def _refuse(_: object) -> None:
    """Raises UnacceptableError: no client declares a part."""
    raise UnacceptableError("the argument marks parts of queues with several owners")


OWNERS: Final = Argument("x-owners", _read_owners, OWNERS_FIELD, misfit=_misfit)

PART_OF: Final[Argument[None]] = Argument("x-part-of", _refuse)


class _SeveralOwners(Rule):
    """Describes the queue as one with several owners."""

    def describe(self, description: Description) -> None:
        description.shared = True


class Lending(Feature):
    """Has the owner lend and borrow, before limits drop messages for which other owners have room."""

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        if complete:
            context.lend()


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    return None if OWNERS.of(delivery.settings) is None else former or Lending()


def _rule(settings: QueueSettings) -> Rule | None:
    return None if OWNERS.of(settings) is None else _SeveralOwners()


FEATURE: Final[Declaration] = Declaration(OWNERS, PART_OF, make=_share, rule=_rule)
