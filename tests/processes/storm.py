"""Steady load over all nodes while nodes are killed and frozen, judged by the checkers afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chaos import signals
from chaos.checks import check
from chaos.clients import ClientLoop, Consumer, ConsumerTerms, Place, Publisher, PublisherTerms
from chaos.history import Faulted, QueueDeclared, Recorder, to_lines
from chaos.recovery import pauses, report
from tests.processes.nodes import Cluster, Node, until

RATE, RATE_OF_PROOFS = 20.0, 60.0
"""Messages a second of each publisher: steady, and far from what the machine can do."""

STEADY_S = 0.4
"""Each publisher must get the confirms of so many seconds before a phase of the test ends."""

REPLICATED = ("storm-1", "storm-2", "storm-3")
ONCE = "storm-once"
AUTOMATIC = "storm-automatic"
"""Its consumers acknowledge nothing: the broker removes a message before it sends it."""


class Storm:
    """The load, the faults and the verdict of one test."""

    def __init__(self, cluster: Cluster, directory: Path, *, proof: bool = False) -> None:
        self.cluster = cluster
        self._rate = RATE_OF_PROOFS if proof else RATE
        self.recorder = Recorder()
        self.clients = ClientLoop(self.recorder)
        self._directory = directory
        self._early = 0
        self._declare()
        self.clients.start()
        self._start_clients()
        self.settle()

    # -- the load -------------------------------------------------------------------------------

    def _declare(self) -> None:
        for place, queue in enumerate((*REPLICATED, ONCE, AUTOMATIC)):
            arguments = {"x-semantics": "at-most-once"} if queue == ONCE else {}
            connection = self.cluster[place % 3].connect()
            connection.channel().queue_declare(queue, durable=True, arguments=arguments)
            connection.close()
            removing = queue in (ONCE, AUTOMATIC)
            self.recorder.record(QueueDeclared(self.recorder.clock(), queue, at_most_once=removing))

    def _start_clients(self) -> None:
        """Each queue is used on its owner's node and on the others.

        Half of the clients come back to their node, the other half to whichever lives.
        """
        for at, queue in enumerate(REPLICATED):
            self._publisher(f"stays-{queue}", queue, self._places(at + 1)[:1])
            self._publisher(f"moves-{queue}", queue, self._places(at))
            self._consumer(f"reader-{queue}", queue, self._places(at + 2)[:1], return_every=97)
            self._consumer(f"wanderer-{queue}", queue, self._places(at))
        for at, queue in enumerate((ONCE, AUTOMATIC)):
            self._publisher(f"stays-{queue}", queue, self._places(at)[:1])
            for step in (0, 1):
                places = self._places(at + 1 + step)
                self._consumer(f"taker-{step}-{queue}", queue, places, no_ack=queue == AUTOMATIC)

    def _places(self, first: int) -> tuple[Place, ...]:
        nodes = [self.cluster[(first + step) % 3] for step in range(3)]
        return tuple(Place(node.name, node.amqp.host, node.amqp.port) for node in nodes)

    def _publisher(self, name: str, queue: str, places: tuple[Place, ...]) -> Publisher:
        return self.clients.publish(PublisherTerms(name, queue, places, self._rate))

    def _consumer(
        self, name: str, queue: str, places: tuple[Place, ...], *, no_ack: bool = False, return_every: int = 0
    ) -> None:
        self.clients.consume(ConsumerTerms(name, queue, places, no_ack=no_ack, return_every=return_every))

    def settle(self, without: Iterable[Node] = ()) -> None:
        """Return when every publisher that is not on one of the nodes has had new messages confirmed."""
        hurt = {node.name for node in without}
        steady = int(self._rate * STEADY_S)
        waiting = {
            publisher: publisher.confirmed + len(publisher.outstanding) + steady
            for publisher in self.clients.publishers
            if not publisher.told_to_finish and publisher.place.name not in hurt
        }

        def all_confirmed() -> bool:
            for publisher in [one for one, wanted in waiting.items() if one.confirmed >= wanted]:
                del waiting[publisher]
            return not waiting

        def missing() -> str:
            states = [
                f"{one.life or one.name} on {one.place.name}, {len(one.outstanding)} of its unanswered"
                for one in waiting
            ]
            return f"steady confirms to {'; '.join(states)}"

        until(all_confirmed, missing, 30.0)

    # -- the faults -----------------------------------------------------------------------------

    def kill(self, targets: list[Node], kind: str) -> None:
        """SIGKILL; publishers that were not there before go on at the living nodes at once."""
        owned = self._owned(targets)
        signals.kill(self.recorder, kind, targets, owned)
        early = self._publish_early(targets, owned)
        for node in targets:
            node.reap()
        self._settle_among_the_living(targets)
        for node in targets:
            node.start()
        self._recover(targets)
        self.clients.finish(early)

    def freeze(self, targets: list[Node], kind: str, seconds: float) -> None:
        """SIGSTOP for so long."""
        owned = self._owned(targets)
        until_then = self.recorder.clock() + seconds
        signals.freeze(self.recorder, kind, targets, owned)
        early = self._publish_early(targets, owned)
        self._settle_among_the_living(targets)
        until(lambda: self.recorder.clock() >= until_then, "the end of the freeze", seconds + 1)
        signals.thaw(targets)
        self._recover(targets)
        self.clients.finish(early)

    def lose_disk(self, target: Node, kind: str) -> None:
        """SIGKILL, and everything that the node had stored is gone."""
        owned = self._owned([target])
        signals.kill(self.recorder, kind, [target], owned)
        early = self._publish_early([target], owned)
        target.reap()
        self._settle_among_the_living([target])
        target.erase()
        target.start()
        self._recover([target])
        self.clients.finish(early)

    def restart(self, target: Node, kind: str) -> None:
        """SIGTERM, and a start once the process has ended by itself; publishers go on elsewhere meanwhile."""
        owned = self._owned([target])
        self.recorder.record(Faulted(self.recorder.clock(), target.name, kind, tuple(sorted(owned))))
        code = target.terminate()
        assert code == 0, f"{target.name} ended with {code}"
        self._settle_among_the_living([target])
        target.start()
        self._recover([target])

    def _settle_among_the_living(self, hurt: list[Node]) -> None:
        if len(hurt) < len(self.cluster.nodes):
            self.settle(without=hurt)

    def _recover(self, targets: list[Node]) -> None:
        self.cluster.wait_ready()
        signals.recovered(self.recorder, targets)
        self.settle()

    def _owned(self, targets: list[Node]) -> list[str]:
        names = {node.name for node in targets}
        return [row["name"] for row in self.cluster.status()["queues"] if row["owner"] in names]

    def _publish_early(self, hurt: list[Node], queues: list[str]) -> list[Publisher]:
        """Publishers that connect now, before there is a new owner."""
        living = [place for place in range(3) if self.cluster[place] not in hurt]
        publishers = []
        for turn, queue in enumerate(queues if living else ()):
            place = living[turn % len(living)]
            self._early += 1
            publishers.append(self._publisher(f"early-{self._early}", queue, self._places(place)[:1]))
        return publishers

    # -- the verdict ----------------------------------------------------------------------------

    def verdict(self) -> str:
        """Drain everything, judge, and report the pauses. Fails with the broken promises."""
        self._finish(self.clients.publishers)
        until(self._drained, "empty queues", 60.0)
        self._finish(self.clients.consumers)
        self.clients.stop()
        violations = check(self.recorder.events)
        if violations:
            file = self._directory / "history.jsonl"
            file.write_text("".join(to_lines(self.recorder.events)), encoding="utf-8")
            shown = "\n".join(map(str, violations[:20]))
            raise AssertionError(f"{len(violations)} broken promises; the history is {file}\n{shown}")
        confirmed = sum(publisher.confirmed for publisher in self.clients.publishers)
        return f"{confirmed} messages confirmed\n{report(pauses(self.recorder.events))}"

    def _finish(self, clients: Iterable[Publisher | Consumer]) -> None:
        clients = list(clients)
        self.clients.finish(clients)
        until(lambda: all(client.finished for client in clients), "all clients end", 60.0)

    def _drained(self) -> bool:
        rows = self.cluster.status()["queues"]
        return len(rows) >= 5 and not any(row["ready"] + row["leased"] for row in rows)
