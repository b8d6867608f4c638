"""The scopes of the event loop's exceptions, and the order of a node's end (`cluster.process.fail_stop`)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from cluster.process import fail_stop
from cluster.process.fail_stop import FailStop, fall_silent
from cluster.process.scopes import ExitCode, Origin
from replication.forms import RAFT_TAG
from replication.group import RaftGroup
from replication.journal import DamagedEntryError
from replication.raft import InvariantError, Raft, decode_message
from replication.transport import UndecodableError
from tests.raft.replica import Replica, log_of

# The group of replicas has no log here, which compiled code insists on.
pytestmark = pytest.mark.interpreted


class Logged:
    """The events that were logged, and their fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        self.lines.append((event, fields))

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.lines]


def leading() -> Raft:
    """The leader of term 5. Of its peers c has the longest log among the voters, and d, with a longer one,
    has no vote.
    """
    replica = Replica(log_of(*[4] * 10), learners="d")
    replica.become_leader()
    for peer, last in (("b", 7), ("c", 9), ("d", 10)):
        replica.acknowledge(peer, last)
    return replica.raft


class Ending:
    """A process's parts, as far as its end concerns them; `steps` is what they were told, in order."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.loop = asyncio.get_running_loop()
        self.log = Logged()

        def step(name: str) -> Callable[..., None]:
            return lambda *_: self.steps.append(name)

        led = RaftGroup(7, leading(), *[cast(Any, None)] * 2)
        self.host: Any = SimpleNamespace(fail=step("say nothing more of the log"), groups={7: led})
        self.transport: Any = SimpleNamespace(
            discard=step("drop what waits for peers"),
            send=self._send,
            flush=step("send"),
            close=step("leave peers"),
        )
        self.clients: Any = [SimpleNamespace(abort=step("cut client"))]
        self.stop = step("stop")

    def end(self, error: BaseException) -> None:
        fall_silent(error, self.host, self.transport, self.clients)
        self.stop()

    def damaged(self, error: BaseException) -> None:
        self.steps.append("mend an entry")

    def _send(self, peer: str, parts: Sequence[bytes]) -> None:
        assert parts[0][:1] == RAFT_TAG
        self.steps.append(f"{peer}: {decode_message(parts[1:])}")


@pytest.fixture(autouse=True)
def timers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Those that would end the process without order."""
    begun: list[tuple[float, int]] = []

    def timer(seconds: float, _end: object, arguments: tuple[int]) -> Any:
        return SimpleNamespace(start=lambda: begun.append((seconds, *arguments)))

    monkeypatch.setattr(fail_stop, "Timer", timer)
    return begun


def on_loop(body: Callable[[Ending, FailStop], Awaitable[None]]) -> tuple[Ending, FailStop]:
    async def run() -> tuple[Ending, FailStop]:
        process = Ending()
        stopping = FailStop(process.loop, cast(Any, process.log), process.damaged, process.end)
        await body(process, stopping)
        return process, stopping

    return uvloop.run(run())


def broken() -> None:
    raise InvariantError("two leaders in term 3: n1 and n2")


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


ORDER = [
    "say nothing more of the log",
    "drop what waits for peers",
    "c: TimeoutNow(sender='a', to='c', term=5)",
    "send",
    "leave peers",
    "cut client",
    "stop",
]


def test_a_node_that_ends_drops_what_it_had_to_say_and_has_others_lead(
    timers: list[tuple[float, int]],
) -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        process.loop.call_soon(broken)
        process.loop.call_soon(broken)
        await turns()

    process, stopping = on_loop(body)
    assert process.steps == ORDER
    ((event, fields),) = process.log.lines
    assert event == "node_failed"
    assert fields["what"] == "InvariantError: two leaders in term 3: n1 and n2"
    assert fields["exit_code"] == 70
    assert fields["remedy"]
    assert stopping.failure is not None and stopping.failure.code is ExitCode.DEFECT
    assert timers == [(fail_stop.STOP_S, 70)]


@pytest.mark.parametrize(
    "how", ["call_soon", "call_later", "call_soon_threadsafe", "add_reader", "future", "task"]
)
def test_no_exception_of_a_callback_escapes(how: str) -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        loop = process.loop
        if how == "call_later":
            loop.call_later(0.0, broken)
            await asyncio.sleep(0.005)
        elif how == "add_reader":
            here, there = __import__("socket").socketpair()
            loop.add_reader(here, broken)
            there.send(b"x")
            await asyncio.sleep(0.005)
            loop.remove_reader(here)
            here.close()
            there.close()
        elif how == "future":
            done = loop.run_in_executor(None, lambda: None)
            done.add_done_callback(lambda _: broken())
            await done
            await turns()
        elif how == "task":
            from replication.transport.dialer import _finished

            async def work() -> None:
                broken()

            loop.create_task(work()).add_done_callback(_finished)
            await turns()
        else:
            getattr(loop, how)(broken)
            await turns()

    process, _ = on_loop(body)
    assert process.steps == ORDER


def test_damage_that_no_replica_can_mend_ends_the_node_that_a_session_met_it_on() -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        def damaged(error: BaseException) -> None:
            raise error

        mended = FailStop(process.loop, cast(Any, process.log), process.damaged, process.end)
        assert mended.spares_node(DamagedEntryError("n1.segment", 0, "a bit", 1, 1), Origin.SESSION)
        assert process.steps == ["mend an entry"] and not process.log.lines
        process.steps.clear()
        lost = FailStop(process.loop, cast(Any, process.log), damaged, process.end)
        assert not lost.spares_node(DamagedEntryError("n1.segment", 0, "a bit", 1, 1), Origin.SESSION)
        assert lost.failure is not None and lost.failure.code is ExitCode.DAMAGED

    process, _ = on_loop(body)
    assert process.steps == ORDER


def test_what_a_peer_does_to_its_socket_ends_nothing_else() -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        gone = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        process.loop.call_exception_handler({"message": "SSL", "exception": gone, "transport": object()})
        process.loop.call_exception_handler({"message": "Task was destroyed but it is pending"})

    process, stopping = on_loop(body)
    assert not process.steps and stopping.failure is None


def test_an_exception_in_the_protocol_of_a_socket_ends_that_socket() -> None:
    ended: list[str] = []

    class Faulty(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise KeyError(data)

        def connection_lost(self, error: Exception | None) -> None:
            ended.append("faulty")

    async def body(process: Ending, stopping: FailStop) -> None:
        server = await process.loop.create_server(Faulty, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x")
        while not ended:
            await asyncio.sleep(0.001)
        writer.close()
        server.close()

    process, stopping = on_loop(body)
    assert not process.steps and stopping.failure is None
    assert process.log.events == ["connection_failed"]


def test_a_disk_that_fails_is_told_by_its_own_event_and_code(timers: list[tuple[float, int]]) -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        stopping.end(OSError(errno.EIO, "Input/output error"), "the journal's disk")

    process, stopping = on_loop(body)
    assert process.log.events == ["journal_failed"]
    assert stopping.failure is not None and stopping.failure.code is ExitCode.DISK_FAILED
    assert timers == [(fail_stop.STOP_S, 74)]


def test_an_undecodable_message_is_told_and_ends_that_connection() -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        from cluster.peers.ownership_messages import Announcement

        with pytest.raises(UndecodableError, match="kind b'A'"):
            try:
                Announcement.decode([b"A", b"\xc1"])
            except Exception as error:
                stopping.of_message(error, "n2", b"A")
        assert stopping.spares_node(ValueError("a request's"), Origin.REQUEST)

    process, stopping = on_loop(body)
    assert not process.steps and stopping.failure is None
    assert process.log.events == ["peer_message_refused"]


def test_a_password_that_cannot_be_hashed_ends_neither_the_node_nor_a_connection() -> None:
    async def body(process: Ending, stopping: FailStop) -> None:
        stopping.of_hashing(MemoryError())
        await turns()

    process, stopping = on_loop(body)
    assert not process.steps and stopping.failure is None
    assert process.log.lines == [("password_not_hashed", {"what": "MemoryError"})]
