"""The outcomes of transactions over several partitions whose front end is lost, and of the branches of
epochs: an owner's part, as a participant and as the coordinator.

Participants ask the coordinator for the outcome, and the coordinator tells participants the outcome: both may
happen, and more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from cluster.owner.context import OwnerContext
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.state import OwnerState
from node.queue.transaction_format import encode_abandon, encode_end
from node.queue.transaction_operations import (
    Abandon,
    Decided,
    LoggedTransactional,
    Prepared,
    TransactionKey,
)

ASK_OUTCOME: Final = "outcome"
"""The request of a participant to the coordinator: is the transaction committed? The answer to a question
about a staged branch is None: the coordinator will tell.
"""

TELL_OUTCOME: Final = "committed"
"""The request of a coordinator to a participant: conclude the transaction, which is committed."""

TELL_DROPPED: Final = "dropped"
"""The request of a coordinator to a participant: conclude the branch, which is dropped."""

Learn = Callable[[TransactionKey, bool], None]


class Outcomes:
    """See the module's docstring."""

    def __init__(
        self, owner: OwnerState, context: OwnerContext, dead_letters: DeadLetters, learn: Learn
    ) -> None:
        """`learn` concludes a prepared transaction, or does nothing where it is concluded."""
        self._owner, self._context, self._dead_letters = owner, context, dead_letters
        self._conclude = learn
        # Decided, or abandoned, by an entry that is not applied yet.
        self.deciding: set[TransactionKey] = set()
        self._abandoning: set[TransactionKey] = set()
        # Transactions whose coordinator was asked, and participants that have not confirmed the outcome yet.
        self._asked: set[TransactionKey] = set()
        self._telling: dict[TransactionKey, set[int]] = {}
        # Callbacks with the decided branches whose participants are to be told first.
        self._waiting: list[tuple[set[TransactionKey], Callable[[], None]]] = []

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._telling, self._waiting = {}, []
        for keys in (self.deciding, self._abandoning, self._asked):
            keys.clear()

    def applied(self, step: LoggedTransactional) -> None:
        """The step of a transaction is applied."""
        if type(step) is Decided:
            self.deciding.discard(step.key)
        elif type(step) is Abandon:
            self._abandoning.discard(step.key)

    def abandons(self, key: TransactionKey) -> bool:
        """Whether the transaction is abandoned, or about to be."""
        return key in self._owner.machine.transactions.abandoned or key in self._abandoning

    # -- asking and telling ---------------------------------------------------------------------

    def retry(self, prepared: Mapping[TransactionKey, Prepared]) -> None:
        """Go on with transactions whose front end does not: `prepared` are those that this partition has."""
        gone = self._context.transit.gone
        for key, one in list(prepared.items()):
            # A coordinator that is gone by now does not answer.
            if self._is_away(key) and (key not in self._asked or gone(one.coordinator)):
                self._ask_outcome(key, one.coordinator)
        for key, decided in list(self._owner.machine.transactions.decided.items()):
            if key.branch or self._is_away(key):
                self._tell(key, decided.participants, TELL_OUTCOME)
        for key, participants in list(self._owner.machine.transactions.epochs.dropped.items()):
            self._tell(key, participants, TELL_DROPPED)

    def tell_branches(self) -> None:
        """Tell the participants of branches that an entry has decided or dropped."""
        table = self._owner.machine.transactions
        for key in [one for one in table.decided if one.branch]:
            self._tell(key, table.decided[key].participants, TELL_OUTCOME)
        for key, participants in list(table.epochs.dropped.items()):
            self._tell(key, participants, TELL_DROPPED)

    def when_told(self, then: Callable[[], None]) -> None:
        """Call back once the participants of all branches that are decided now have concluded them."""
        waiting = {key for key in self._owner.machine.transactions.decided if key.branch}
        if waiting:
            self._waiting.append((waiting, then))
        else:
            then()

    def _is_away(self, key: TransactionKey) -> bool:
        front_ends = self._context.front_ends
        return not front_ends.alive(key.front_end) or front_ends.dead(key.front_end)

    def _ask_outcome(self, key: TransactionKey, coordinator: int) -> None:
        if self._context.transit.gone(coordinator):
            # The coordinator was in memory that is lost. No client has been told of a commit: the front end
            # answers the client only after all participants have concluded.
            self._learn(key, False)
            return
        self._asked.add(key)
        learn = partial(self._learn, key)
        if coordinator == self._owner.partition:
            self.asked(ASK_OUTCOME, list(key), learn)
        else:
            self._dead_letters.link(coordinator).ask(ASK_OUTCOME, list(key), learn)

    def _learn(self, key: TransactionKey, committed: bool | None) -> None:
        """The coordinator tells the outcome; None: the branch waits for its epoch, and the coordinator will
        tell.
        """
        if committed is not None:
            self._asked.discard(key)
            self._conclude(key, committed)

    def _tell(self, key: TransactionKey, participants: Sequence[int], outcome: str) -> None:
        if key not in self._telling:
            self._telling[key] = set(participants)
            for participant in participants:
                told = partial(self._told, key, participant)
                if participant == self._owner.partition:
                    self.asked(outcome, list(key), told)
                else:
                    self._dead_letters.link(participant).ask(outcome, list(key), told)
        for participant in [one for one in self._telling.get(key, ()) if self._context.transit.gone(one)]:
            self._told(key, participant, None)

    def _told(self, key: TransactionKey, participant: int, _answer: Any) -> None:
        waiting = self._telling.get(key)
        if waiting is not None and participant in waiting:
            waiting.discard(participant)
            if not waiting:
                self._owner.operation(encode_end(key))
                self._owner.proposal.committed.append(lambda: self._forget(key))

    def _forget(self, key: TransactionKey) -> None:
        self._telling.pop(key, None)
        for keys, _ in self._waiting:
            keys.discard(key)
        ended = [then for keys, then in self._waiting if not keys]
        self._waiting = [one for one in self._waiting if one[0]]
        for then in ended:
            then()

    # -- requests of other partitions -----------------------------------------------------------

    def asked(self, name: str, arguments: list[Any], answer: Callable[[Any], None]) -> bool:
        """Carry out `ASK_OUTCOME`, `TELL_OUTCOME` or `TELL_DROPPED` of another partition's owner. Returns
        False for every other request.
        """
        if name not in (ASK_OUTCOME, TELL_OUTCOME, TELL_DROPPED):
            return False
        key = TransactionKey(*arguments)
        if name != ASK_OUTCOME:
            self._learn(key, name == TELL_OUTCOME)
            self._owner.after_proposed(partial(answer, None))
            return True
        table = self._owner.machine.transactions
        if key not in table.decided and key not in table.abandoned and key not in self.deciding:
            # Presumed abort: from now on the coordinator refuses to decide for a commit. A branch that is
            # staged, or that an entry before this one stages, stays so.
            self._abandoning.add(key)
            self._owner.operation(encode_abandon(key))
        self._owner.after_proposed(lambda: answer(self._outcome(key)))
        return True

    def _outcome(self, key: TransactionKey) -> bool | None:
        """Whether a transaction is committed; None where it is a branch that is staged."""
        table = self._owner.machine.transactions
        return None if table.epochs.is_staged(key) else key in table.decided
