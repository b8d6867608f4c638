"""The runs that transactions of a session's channels will publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from node.delivery.settlements import Outcome, Settlement
from node.message.run import Run
from node.refusal import PreconditionFailedError, Refusal
from node.session.batch_node import is_for_admin, transacted
from node.session.ports import BrokerPort, Done, Route
from node.session.traffic import Traffic


class HeldRun(NamedTuple):
    """A run that a transaction will publish. `route` may lead to no queue."""

    run: Run
    route: Route
    mandatory: bool


class TransactionRuns:
    """The runs of each channel's transaction, with their routes at the time of the publish.

    `unroutable` is called with the channel, a run that no queue takes, and whether it is mandatory.
    """

    def __init__(
        self, port: BrokerPort, traffic: Traffic, unroutable: Callable[[int, Run, bool], None]
    ) -> None:
        self._port, self._traffic, self._unroutable = port, traffic, unroutable
        self._held: dict[int, list[HeldRun]] = {}
        self._refused: dict[int, Refusal] = {}
        """Why the transaction of a channel lacks a run."""

    def hold(self, channel: int, run: HeldRun) -> None:
        """The channel's transaction will publish the run. Raises PreconditionFailedError for batches of
        commands.
        """
        if not run.route and is_for_admin(run.run):
            raise transacted()
        self._held.setdefault(channel, []).append(run)

    def refuse(self, channel: int, refusal: Refusal) -> None:
        """The channel's transaction lacks a run."""
        self._refused.setdefault(channel, refusal)

    def take(self, channel: int) -> list[HeldRun]:
        """The runs of the channel's transaction, which holds none any more. Raises Refusal where it lacks a
        run.
        """
        held, refused = self._held.pop(channel, []), self._refused.pop(channel, None)
        if refused is not None:
            raise refused
        for one in held:
            self._traffic.published += one.run.count
            one.route.flow.published += one.run.count
        return held

    def roll_back(self, channel: int) -> None:
        """Discard the runs of the channel's transaction."""
        self._held.pop(channel, None)
        self._refused.pop(channel, None)

    def forget(self) -> None:
        """The session has ended: discard all runs, and drop the reference to the session."""
        self._held = {}
        self._unroutable = _ignored

    def commit(self, channel: int, settled: Sequence[Settlement], done: Done, *, whole: bool) -> None:
        """Publish the runs of the channel's transaction and settle, atomically.

        `done` is called without a refusal once a majority of each partition has everything on disk; with a
        refusal nothing has been published or settled. `unroutable` is called before `done`. `whole`: the
        commit is refused where a publish of the transaction was refused, or no queue takes a mandatory
        message; the deliveries go back as failed ones.
        """
        publishes: list[tuple[Run, Route]] = []
        lost: list[HeldRun] = []
        for one in self._held.pop(channel, []):
            self._traffic.published += one.run.count
            one.route.flow.published += one.run.count
            # A queue may have been deleted since; only mandatory messages are returned then, as by RabbitMQ.
            if one.route and (not one.mandatory or self._port.still_leads(one.route)):
                publishes.append((one.run, one.route))
            else:
                lost.append(one)

        refused = self._refused.pop(channel, None)
        if refused is None and any(one.mandatory for one in lost):
            refused = PreconditionFailedError("no queue takes a message of the transaction")
        if whole and refused is not None:
            for lease, ranges, *_ in settled:
                self._port.give_back(lease, ranges, Outcome.LOST)
            done(refused)
            return

        def answered(refusal: Refusal | None) -> None:
            if refusal is None:
                for one in lost:
                    self._unroutable(channel, one.run, one.mandatory)
            done(refusal)

        self._port.commit(publishes, settled, answered)


def _ignored(channel: int, run: Run, mandatory: bool) -> None:
    """For a client that has left, to which nothing is returned."""
