"""Limits of memory for nodes that run: the kernel may need a while for one."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from chaos.targets import memory
from chaos.targets.memory import Groups
from chaos.targets.target import TargetError

pytestmark = pytest.mark.interpreted


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    monkeypatch.setattr(memory, "GROUPS", (tmp_path, tmp_path / "none"))
    found = Groups("test", ["n1"])
    found.make()
    return found


def fail(monkeypatch: pytest.MonkeyPatch, errors: list[OSError]) -> list[str]:
    """Have writes to files of the kernel fail; the texts of those that do not."""
    written: list[str] = []

    def write(self: Path, text: str, encoding: str) -> int:
        if errors:
            raise errors.pop(0)
        written.append(text)
        return len(text)

    monkeypatch.setattr(Path, "write_text", write)
    return written


def test_a_limit_that_is_below_what_is_being_written_is_set_once_it_is(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = fail(monkeypatch, [OSError(errno.EBUSY, "busy"), OSError(errno.EBUSY, "busy")])
    groups.relax("n1")
    assert written == ["-1"]


def test_a_limit_follows_a_node_that_grows_while_the_kernel_refuses(
    groups: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "test-n1"
    (group / "cgroup.procs").write_text("7\n", encoding="ascii")
    (group / "memory.stat").write_text("cache 900\nshmem 50\nrss 7\ntotal_shmem 60\n", encoding="ascii")
    octets = iter(range(1000, 9000, 1000))
    monkeypatch.setattr(memory, "margin_bytes", lambda pid: next(octets))
    written = fail(monkeypatch, [OSError(errno.EBUSY, "busy"), OSError(errno.EBUSY, "busy")])
    groups.squeeze("n1")
    assert written == ["3050"]


def test_a_limit_that_may_not_be_set_is_no_limit(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, [OSError(errno.EACCES, "denied")])
    with pytest.raises(TargetError, match="limit of -1 octets for n1"):
        groups.relax("n1")
