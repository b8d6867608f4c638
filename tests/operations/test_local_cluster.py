"""What `quorate up` prepares: ports, directories, files."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cli.local.layout import LocalNode, PortInUseError, is_free, plan, prepare
from cluster.config.models import load
from cluster.config.tables import ConfigError
from cluster.system.data_directory import DataDirectory, DataDirectoryError
from tests.processes.nodes import UP_PORTS, own_part

_SLOTS = own_part(UP_PORTS)[::16]
"""Base ports of this worker of pytest. Between the look at a port and its use lies the start of a process."""
_slots = itertools.islice(itertools.cycle(_SLOTS), os.getpid() % len(_SLOTS), None)


def free_plan(nodes: int, data: Path) -> list[LocalNode]:
    """A plan for up to eight nodes on ports that nothing uses now."""
    for base in _slots:
        planned = plan(nodes, data, base, base + 8)
        listen = [node.config.listen for node in planned]
        if all(is_free(address) for each in listen for address in (each.amqp, each.http, each.peers)):
            return planned
    raise AssertionError("the slots are a cycle")


def test_ports_count_up_from_the_given_ones(tmp_path: Path) -> None:
    planned = plan(3, tmp_path, 5672, 15672)
    listen = [node.config.listen for node in planned]
    assert [node.name for node in planned] == ["n1", "n2", "n3"]
    assert [each.amqp.port for each in listen] == [5672, 5673, 5674]
    assert [each.http.port for each in listen] == [15672, 15673, 15674]
    assert [each.peers.port for each in listen] == [25672, 25673, 25674]
    assert all(address.is_loopback for each in listen for address in (each.amqp, each.http, each.peers))


def test_each_node_gets_a_file_that_reads_as_planned(tmp_path: Path) -> None:
    settings = {"default_queue_type": "classic", "limits": {"connections": 7, "handshake_timeout_s": 2.5}}
    planned = plan(2, tmp_path / "data", 5672, 15672, settings)
    for node in planned:
        node.file.parent.mkdir(parents=True)
        node.file.write_text(node.text)
        assert load(node.file) == node.config
        assert node.config.cluster.limits.connections == 7


def test_mistakes_in_settings_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.limits\.connections"):
        plan(1, tmp_path, 5672, 15672, {"limits": {"connections": 0}})


@pytest.mark.parametrize(
    ("nodes", "base", "http", "said"),
    [
        (3, 65534, 15672, r"--base-port \(AMQP\): ports 65534 to 65536 are not all from 1 to 65535"),
        (3, 5672, 0, r"--http-port \(HTTP\): ports 0 to 2"),
        (3, 5672, 5674, "ports 5672 to 5674 overlap those of --http-port"),
        (3, 5672, 25671, "overlap those of --base-port"),
    ],
)
def test_ports_out_of_range_or_in_each_others_way(
    tmp_path: Path, nodes: int, base: int, http: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(nodes, tmp_path, base, http)


@given(st.integers(1, 65535), st.integers(1, 9))
def test_peer_ports_are_in_range_for_every_base_port(base: int, nodes: int) -> None:
    try:
        planned = plan(nodes, Path("data"), base, 50_000 if base < 45_000 else 20_000)
    except ConfigError:
        return
    assert all(1 <= node.config.listen.peers.port <= 65535 for node in planned)


def test_directories_and_files_are_private(tmp_path: Path) -> None:
    planned = free_plan(2, tmp_path / "data")
    prepare(planned)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    for node in planned:
        assert node.config.data_dir.stat().st_mode & 0o777 == 0o700
        assert node.file.stat().st_mode & 0o777 == 0o600
    prepare(planned)


def test_data_of_another_number_of_nodes_is_not_touched(tmp_path: Path) -> None:
    prepare(free_plan(3, tmp_path))
    with pytest.raises(DataDirectoryError, match="belongs to a cluster of 3: use --nodes 3"):
        prepare(free_plan(2, tmp_path))


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    planned = free_plan(2, tmp_path)
    address = planned[1].config.listen.amqp
    with socket.socket() as holder:
        holder.bind(address)
        holder.listen()
        with pytest.raises(PortInUseError, match=f"port {address.port}, for AMQP of n2, is in use"):
            prepare(planned)


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="cannot be used"):
        prepare(free_plan(1, tmp_path / "file" / "data"))


def test_two_nodes_cannot_use_one_directory(tmp_path: Path) -> None:
    with (
        DataDirectory(tmp_path / "n1") as held,
        pytest.raises(DataDirectoryError, match="is in use by process"),
        DataDirectory(held.path),
    ):
        pass
    with DataDirectory(tmp_path / "n1"):
        assert (tmp_path / "n1").stat().st_mode & 0o777 == 0o700


def test_each_node_has_a_key_that_is_made_once_and_that_only_its_owner_may_read(tmp_path: Path) -> None:
    planned = free_plan(3, tmp_path)
    prepare(planned)
    again = free_plan(3, tmp_path)
    prepare(again)
    for node, later in zip(planned, again, strict=True):
        file = node.config.secret_key_file
        assert file is not None and file.stat().st_mode & 0o777 == 0o600
        assert node.config.curve_keys() == later.config.curve_keys() == later.keys
        assert {name: member.public_key for name, member in node.config.cluster.nodes.items()} == {
            one.name: one.keys.public.decode() for one in again
        }
    assert len({node.keys.public for node in planned}) == 3
