"""The scope that an exception ends (`cluster.process.scopes`)."""

from __future__ import annotations

import errno
import random
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from cluster.cli.local.supervisor import DAMAGED_EXIT
from cluster.peers.link_messages import receive_for_front_end, receive_for_owner
from cluster.peers.ownership_messages import Announcement
from cluster.process.scopes import ExitCode, FailureScope, Origin, ending_of, scope_of
from node.queue.entry_format import encode_batch, encode_create_queue, encode_entry, encode_publish
from node.queue.operations import Semantics
from node.queue.partition import PartitionMachine
from replication.journal import DamagedJournalError, JournalFailedError, UnsupportedJournalError
from replication.raft import InvariantError
from tests.replication.hosts import PARTITION, HostedNode
from tests.structure.tree import ROOT
from tests.wire.client import run_of

ABSENT = cast(Any, None)


def raised(work: Callable[[], object]) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def raise_(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize(
    "error",
    [
        InvariantError("two leaders in term 3"),
        DamagedJournalError("0000000001.segment", 512, "nothing"),
        UnsupportedJournalError("0000000001.segment", 0, "segment format 9 is not known"),
        JournalFailedError("the journal failed before"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_says_that_the_log_is_wrong_ends_the_node_in_any_scope(
    error: Exception, origin: Origin
) -> None:
    assert scope_of(raised(lambda: raise_(error)), origin) is FailureScope.NODE


@pytest.mark.parametrize("origin", Origin)
def test_an_entry_that_does_not_follow_ends_the_node(origin: Origin) -> None:
    machine = PartitionMachine()
    create, publish = encode_create_queue(1, Semantics.AT_LEAST_ONCE), encode_publish(run_of([b"x"]), (1,))
    machine.apply(1, encode_entry([encode_batch(5, 1, 7, [create, b"".join(publish)])]))
    again = encode_entry([encode_batch(5, 2, 7, [b"".join(publish)])])
    assert scope_of(raised(lambda: machine.apply(2, again)), origin) is FailureScope.NODE


@pytest.mark.parametrize(
    ("origin", "scope"),
    [
        (Origin.SESSION, FailureScope.CLIENT),
        (Origin.REQUEST, FailureScope.CLIENT),
        (Origin.CONNECTION, FailureScope.CLIENT),
        (Origin.HASHING, FailureScope.CLIENT),
        (Origin.PEER_MESSAGE, FailureScope.NODE),
        (Origin.NODE, FailureScope.NODE),
    ],
)
def test_any_other_exception_ends_what_it_was_met_in(origin: Origin, scope: FailureScope) -> None:
    assert scope_of(raised(lambda: raise_(KeyError(3))), origin) is scope


@pytest.mark.parametrize("origin", Origin)
def test_what_came_through_the_replication_ends_the_node(origin: Origin) -> None:
    """A client's session, too, may have called it: a half-done change of shared state concerns all
    clients.
    """
    host = HostedNode("a").host
    error = raised(lambda: host.propose(PARTITION + 1, b"", 0.0))
    assert isinstance(error, KeyError)
    assert scope_of(error, origin) is FailureScope.NODE


def test_a_message_that_cannot_be_decoded_ends_the_connection_that_it_came_over() -> None:
    chance = random.Random(1)
    node = HostedNode("a")
    raft, part = (tag + PARTITION.to_bytes(4, "big") for tag in (b"R", b"S"))
    bad = [b"", b"\xc1", b"\x93\x01\x02\x03", chance.randbytes(40)]
    for octets in bad:
        for work in (
            lambda octets=octets: node.host.receive("b", [raft, octets], 0.0),
            lambda octets=octets: node.host.receive("b", [part, octets], 0.0),
            lambda octets=octets: receive_for_owner(ABSENT, [b"L\x02" + bytes(20), octets]),
            lambda octets=octets: receive_for_owner(ABSENT, [octets, octets]),
            lambda octets=octets: receive_for_front_end(ABSENT, [b"O\x02" + bytes(20), octets]),
            lambda octets=octets: Announcement.decode([b"A", octets]),
        ):
            assert scope_of(raised(work), Origin.PEER_MESSAGE) is FailureScope.PEER, (octets, raised(work))


def test_the_exit_code_tells_a_disk_from_damage_from_a_defect() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/data/1.segment")
    assert ending_of(full).code is ExitCode.DISK_FAILED
    assert "free space" in ending_of(full).remedy
    assert ending_of(OSError(errno.EIO, "Input/output error")).code is ExitCode.DISK_FAILED
    assert ending_of(JournalFailedError("before")).code is ExitCode.DISK_FAILED
    assert ending_of(DamagedJournalError("1.segment", 512, "nothing")).code is ExitCode.DAMAGED
    assert ending_of(InvariantError("two leaders")).code is ExitCode.DEFECT
    assert ending_of(ZeroDivisionError()).code is ExitCode.DEFECT


def test_supervisors_go_by_the_exit_codes() -> None:
    """A node is not started again after an end that a restart does not cure."""
    unit = (ROOT / "deploy" / "systemd" / "quorate.service").read_text(encoding="utf-8")
    told = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert told is not None and told[1].split() == ["2", str(int(ExitCode.DAMAGED))]
    assert "Restart=on-failure" in unit
    assert ExitCode.DAMAGED == DAMAGED_EXIT
    documented = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    for code in ExitCode:
        assert f"| {int(code)} |" in documented
