"""The last release's wheel and this tree in one cluster: upgraded node by node under load, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest

from cluster.config.formats import FORMAT_LEVEL
from tests.processes.nodes import Cluster, Node, until
from tests.processes.releases import install, last_release
from tests.processes.storm import Storm
from tests.processes.test_journals import verdict_of

LAST_FORMATS = 0
"""`cluster.catalog.membership.formats.FORMATS` of the last release, which had none yet."""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(last_release(), tmp_path_factory.mktemp("released"))


@pytest.fixture
def cluster_of_last(tmp_path: Path, released: Path) -> Iterator[Cluster]:
    """Three nodes of the last release."""
    cluster = Cluster(tmp_path / "nodes")
    for node in cluster.nodes:
        node.installed = released
    with cluster.running():
        yield cluster


def takes(node: Node, installed: Path | None, formats: int | None) -> None:
    """The code of the node's next start: another release, or this tree, which holds formats back."""
    node.installed = installed
    tables = node.configured()
    tables["cluster"].pop("formats", None)
    if formats is not None:
        tables["cluster"]["formats"] = formats
    node.replace_configuration(tables)


def written(cluster: Cluster) -> list[int]:
    """The numbers of the newest formats that the nodes write."""
    return [row.get("formats", LAST_FORMATS) for row in cluster.status()["nodes"]]


@pytest.mark.requirement("F2.3")
def test_a_cluster_is_upgraded_node_by_node_under_load_and_taken_back(
    cluster_of_last: Cluster, released: Path, tmp_path: Path
) -> None:
    with closing(cluster_of_last[0].connect()) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "kept", b"of the last release", pika.BasicProperties(delivery_mode=2))
    storm = Storm(cluster_of_last, tmp_path)
    try:
        for node in cluster_of_last.nodes:
            takes(node, None, LAST_FORMATS)
            storm.restart(node, "upgraded")
        for node in cluster_of_last.nodes:
            takes(node, released, None)
            storm.restart(node, "taken back")
        with closing(cluster_of_last[1].connect()) as connection:
            assert connection.channel().basic_get("kept", auto_ack=True)[2] == b"of the last release"
        print(storm.verdict())
    finally:
        storm.clients.abandon()


@pytest.mark.requirement("F2.3", "F8.2", "F8.6")
def test_what_is_new_is_written_once_the_last_node_is_upgraded(
    cluster_of_last: Cluster, tmp_path: Path
) -> None:
    storm = Storm(cluster_of_last, tmp_path)
    try:
        for node in cluster_of_last.nodes:
            assert written(cluster_of_last) == [LAST_FORMATS] * 3
            takes(node, None, None)
            storm.restart(node, "upgraded")
        until(lambda: written(cluster_of_last) == [FORMAT_LEVEL] * 3, "every node writes the new formats")
        print(storm.verdict())
        # The journals have records of both releases.
        audited = verdict_of(cluster_of_last)
        assert (audited.violations, audited.damage, audited.unknown) == ([], [], 0)
        assert audited.entries > 0
    finally:
        storm.clients.abandon()
