"""The journals of nodes that run, are killed, and run again, read by the pipeline meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pika import BasicProperties

from pipeline.audit.audit import audit
from pipeline.audit.verdict import Verdict
from pipeline.journal.rows import MessageRow
from pipeline.journal.segments import segments_in
from pipeline.journal.tables import read_table
from tests.processes.nodes import Cluster

AUDITS = 4
BATCH = 20


def verdict_of(cluster: Cluster) -> Verdict:
    return audit(segments_in(node.local.config.data_dir) for node in cluster.nodes)


class Load:
    """A publisher that waits for the confirm of each message, and a consumer that acknowledges some, until
    there have been enough audits.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._enough = threading.Event()
        self.published = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        connection = self._cluster[0].connect()
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        while self.published % BATCH or not self._enough.is_set():
            channel.basic_publish("", "q", b"%d" % self.published, BasicProperties(delivery_mode=2))
            self.published += 1
            if self.published % BATCH == 0:
                for _ in range(BATCH // 2):
                    method, _, _ = channel.basic_get("q")
                    channel.basic_ack(method.delivery_tag)
        connection.close()


@pytest.mark.requirement("F8.2", "F8.6")
def test_running_nodes_are_read_and_keep_their_promises(own_cluster: Cluster) -> None:
    with Load(own_cluster) as load:
        own_cluster[2].kill()
        for number in range(AUDITS):
            verdict = verdict_of(own_cluster)
            assert (verdict.violations, verdict.damage) == ([], [])
            if number == AUDITS // 2:
                own_cluster[2].start()
        own_cluster[2].wait_ready()
    verdict = verdict_of(own_cluster)
    assert (verdict.violations, verdict.damage) == ([], [])
    parts = verdict.partitions.values()
    # The last commit indexes wait for another batch.
    assert load.published - BATCH <= sum(one.published for one in parts) <= load.published
    bodies = bodies_of(own_cluster[0].local.config.data_dir)
    assert bodies == {b"%d" % number for number in range(load.published)}


def bodies_of(directory: Path) -> set[bytes | None]:
    found = set[bytes | None]()
    for segment in segments_in(directory):
        found |= {MessageRow(*row).body for row in read_table(segment, "messages")}
    return found
