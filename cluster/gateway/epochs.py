"""The branches and epochs of sinks, on the front end's side (docs/decisions/0077).

A branch is a transaction that the front end prepares in all partitions of its messages, and then has staged
in the ledger of its sink. The ledger's partition is the coordinator: it decides the branch, and tells the
participants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from cluster.catalog.membership.formats import Formats
from cluster.gateway.commits import Share
from cluster.gateway.link import Links, PartitionLink
from cluster.gateway.routes import Targets
from cluster.gateway.state import Vote
from cluster.peers.epoch_requests import COMMIT, DROP, EPOCH_REQUEST, SHOW, STAGE, STAGED
from cluster.peers.link_messages import NOTHING_TO_GET, UNREACHABLE, Delivery
from node.message.run import Run
from node.queue.epoch_operations import BranchName
from node.queue.transaction_format import encode_conclude, encode_prepare
from node.queue.transaction_operations import BRANCHES, TransactionKey
from node.session.ports import QueueRef, Route

FULL: Final = "full"
"""The first item of an answer: a queue refuses a message of the branch."""

TellEpoch = Callable[[list[Any]], None]
"""Takes the ledger's answer (`cluster.peers.epoch_requests`), FULL, or a refusal: a reply code and its
reason.
"""


class FrontEndEpochs:
    """The branches of one front end's clients. Requests are answered at once or in a later turn, also after
    failovers of all owners concerned.
    """

    def __init__(
        self,
        front_end: int,
        links: Links,
        formats: Formats,
        present: Callable[[Iterable[tuple[Run, Route]]], list[tuple[Run, Targets]]],
    ) -> None:
        """`present`: see `cluster.gateway.routes.Routes.present`."""
        self._front_end, self._links, self._formats = front_end, links, formats
        self._present = present
        self._last = BRANCHES

    @property
    def known(self) -> bool:
        """Whether all members of the cluster carry out epochs."""
        return self._formats.know_epochs()

    def stage(
        self,
        ledger: QueueRef,
        epoch: int,
        name: BranchName,
        publishes: Iterable[tuple[Run, Route]],
        answer: TellEpoch,
    ) -> None:
        """Prepare a branch, which `publishes` are, and have it staged. After every other answer than STAGED
        or TAKEN the branch is dropped.
        """
        shares: dict[PartitionLink, Share] = {}
        for run, route in self._present(publishes):
            route.flow.routed += run.count * route.queues
            for link, queues in route.links:
                shares.setdefault(link, Share()).publishes.append((run, queues))
        if any(link.unreachable for link in shares):
            # The only node of a queue is down: no other node can tell when the branch is prepared.
            answer(UNREACHABLE)
            return
        self._last += 1
        staging = _Staging(
            TransactionKey(self._front_end, self._last), ledger, epoch, name, list(shares), answer
        )
        staging.begin(self._links, shares)

    def commit(
        self,
        ledger: QueueRef,
        epoch: int,
        branches: Sequence[tuple[int, int, int]],
        after: int | None,
        answer: TellEpoch,
    ) -> None:
        """Commit an epoch: of each (task, attempt, count) the branches 0 to count - 1, where the last
        committed epoch is `after`, -1 for none; None: wherever the ledger is. Answers when all messages of
        the epoch are visible.
        """
        condition = [] if after is None else [after]
        _ask(self._links, ledger, [COMMIT, epoch, [list(one) for one in branches], *condition], answer)

    def drop(self, ledger: QueueRef, epoch: int, answer: TellEpoch) -> None:
        """Drop the branches of an epoch that is not committed."""
        _ask(self._links, ledger, [DROP, epoch], answer)

    def show(self, ledger: QueueRef, answer: TellEpoch) -> None:
        """Show the ledger."""
        _ask(self._links, ledger, [SHOW, 0], answer)


def _ask(links: Links, ledger: QueueRef, what: list[Any], answer: TellEpoch) -> None:
    def answered(value: Any, _: Delivery | None) -> None:
        answer(value)

    arguments = [*NOTHING_TO_GET, ledger.id, *what]
    links.request(links.to(ledger.partition), EPOCH_REQUEST, arguments, answered)


class _Staging:
    """One branch, as its front end drives it.

    state       the front end sends      and waits for      then
    preparing   prepare, to all          all votes          staging; after a no dropping
    staging     stage, to the ledger     its answer         the answer to the client, and after another one
                                                            than STAGED dropping
    dropping    conclude, to all that    -                  -
                are prepared

    If the front end dies while it prepares, the participants ask the ledger's partition, which does not know
    the branch, and drop it.
    """

    def __init__(
        self,
        key: TransactionKey,
        ledger: QueueRef,
        epoch: int,
        name: BranchName,
        participants: list[PartitionLink],
        answer: TellEpoch,
    ) -> None:
        self._key, self._ledger, self._epoch, self._name = key, ledger, epoch, name
        self._participants, self._answer = participants, answer
        self._prepared: list[PartitionLink] = []
        self._waiting = len(participants)

    def begin(self, links: Links, shares: dict[PartitionLink, Share]) -> None:
        """Send prepare to the participants, or stage at once without any."""
        for link, share in shares.items():
            parts = encode_prepare(self._key.number, self._ledger.partition, share.operations())
            link.transact(b"".join(parts), [], Vote(partial(self._voted, links, link)))
        if not shares:
            self._stage(links)

    def _voted(self, links: Links, link: PartitionLink, taken: bool) -> None:
        self._waiting -= 1
        if taken:
            self._prepared.append(link)
        if self._waiting:
            return
        if len(self._prepared) == len(self._participants):
            self._stage(links)
        else:
            self._drop()
            self._answer([FULL])

    def _stage(self, links: Links) -> None:
        participants = [link.partition for link in self._participants]
        what = [STAGE, self._epoch, *self._name, self._key.number, participants]
        _ask(links, self._ledger, what, partial(self._staged, links))

    def _staged(self, links: Links, value: list[Any]) -> None:
        if value == UNREACHABLE:
            # The lost node may have staged the branch: its word decides when it is back, or the branch may be
            # dropped here and committed there.
            self._answer(value)
            self._answer = _unheard
            self._stage(links)
            return
        if value[0] != STAGED:
            self._drop()
        self._answer(value)

    def _drop(self) -> None:
        for link in self._prepared:
            link.transact(encode_conclude(self._key, False), [], Vote(_dropped))


def _unheard(_: list[Any]) -> None:
    """The client has its answer already."""


def _dropped(_: bool) -> None:
    """The client has its answer already."""
