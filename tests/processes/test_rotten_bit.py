"""An octet of a journal goes bad, while its node runs or before it starts: no client gets the bad message,
and messages that other nodes have are not lost.
"""

from __future__ import annotations

import json
import re
from contextlib import closing

import pika
import pytest

from cluster.process.journal_directory import COPIED_NAME
from cluster.process.scopes import ExitCode
from tests.processes.nodes import Cluster, Node, read_page, until

MESSAGES = 400
COUNTER = re.compile(r"^quorate_journal_(entries_\w+|messages_lost)_total (\S+)$", re.MULTILINE)
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def spoil(node: Node, mark: bytes) -> None:
    """Change an octet of the message that begins with the mark, behind the node's back."""
    for file in sorted(node.local.config.data_dir.glob("journal/*.segment")):
        at = file.read_bytes().find(mark)
        if at >= 0:
            with file.open("r+b") as handle:
                handle.seek(at + 3000)
                handle.write(b"\x55")
            return
    raise AssertionError(f"{mark!r} is in no segment")


def events(node: Node) -> list[str]:
    lines = node.local.log_file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["event"] for line in lines if line.startswith("{")]


def page_of(node: Node) -> str:
    return read_page(f"{node.http}/metrics", 10.0).decode()


def counted(node: Node) -> dict[str, int]:
    """The damage metrics on the node's page."""
    page = page_of(node)
    return {name: int(float(value)) for name, value in COUNTER.findall(page)}


def filled(cluster: Cluster, queue: str, kind: str) -> Node:
    """A queue of large messages; its owner, whose cache does not hold the first of them any more."""
    with closing(cluster[0].connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        for number in range(MESSAGES):
            channel.basic_publish("", queue, b"<%06d>" % number + bytes(16000), PERSISTENT)
    return cluster.owner(queue)


def consumed(node: Node, queue: str, count: int) -> list[int]:
    """The numbers of the messages that a consumer gets and acknowledges."""
    got: list[int] = []
    with closing(node.connect()) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        for method, _, body in channel.consume(queue, inactivity_timeout=20):
            assert method is not None, f"{len(got)} of {count} messages came"
            assert body[8:] == bytes(16000)
            got.append(int(body[1:7]))
            channel.basic_ack(method.delivery_tag)
            if len(got) == count:
                break
    return got


@pytest.mark.settings({"journal": {"cache_bytes": 1 << 20}})
def test_an_octet_that_rots_is_mended_from_another_replica(own_cluster: Cluster) -> None:
    owner = filled(own_cluster, "kept", "quorum")
    spoil(owner, b"<000040>")
    got = consumed(own_cluster.others(owner)[0], "kept", MESSAGES)
    assert sorted(got) == list(range(MESSAGES))
    until(lambda: "entry_repaired" in events(owner), "the entry is whole again")
    counts = {"entries_damaged": 1, "entries_repaired": 1, "messages_lost": 0}
    until(lambda: counted(owner) == counts, lambda: f"{counted(owner)}")
    assert own_cluster.owner("kept") is not owner


@pytest.mark.settings({"journal": {"cache_bytes": 1 << 20}})
def test_a_classic_queue_says_what_it_lost_and_serves_the_rest(own_cluster: Cluster) -> None:
    owner = filled(own_cluster, "alone", "classic")
    spoil(owner, b"<000040>")
    got = consumed(own_cluster.others(owner)[0], "alone", MESSAGES - 1)
    assert sorted(got) == [number for number in range(MESSAGES) if number != 40]
    assert events(owner).count("messages_lost") == 1
    until(lambda: counted(owner)["messages_lost"] == 1, lambda: f"{counted(owner)}")
    assert own_cluster.owner("alone") is owner
    own_cluster.new_errors()


SMALL_SEGMENTS = {"journal": {"segment_bytes": 1 << 20}}
"""So that what is spoiled lies in front of records that were durable after it."""


@pytest.mark.settings(SMALL_SEGMENTS)
def test_a_node_that_starts_with_a_damaged_journal_gets_everything_back(own_cluster: Cluster) -> None:
    owner = filled(own_cluster, "kept", "quorum")
    node = own_cluster.others(owner)[0]
    until((node.local.config.data_dir / COPIED_NAME).exists, "the other nodes have everything")
    node.terminate()
    spoil(node, b"<000040>")
    node.start()
    until(lambda: "rebuilt" in events(node), "everything is back")
    assert "journal_set_aside" in events(node)
    until(lambda: "quorate_journal_set_aside 1" in page_of(node), "the page tells it")
    own_cluster.new_errors()
    owner.kill()
    assert sorted(consumed(node, "kept", MESSAGES)) == list(range(MESSAGES))


@pytest.mark.settings(SMALL_SEGMENTS)
def test_a_node_that_holds_a_classic_queue_does_not_start_with_a_damaged_journal(
    own_cluster: Cluster,
) -> None:
    owner = filled(own_cluster, "alone", "classic")
    owner.terminate()
    spoil(owner, b"<000040>")
    owner.start()
    assert owner.reap() == ExitCode.DAMAGED
    assert "journal_damaged" in events(owner) and "journal_set_aside" not in events(owner)
    assert "other nodes do not have everything" in owner.local.log_file.read_text(encoding="utf-8")
    own_cluster.new_errors()
