"""The life of a node's process: from its configuration to its exit."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvloop

from cluster.config.models import NodeConfig
from cluster.config.tables import ConfigError
from cluster.log.event_log import EventLog, start_logging
from cluster.process.fail_stop import unreadable
from cluster.process.log_file import log_file
from cluster.process.node import NodeProcess
from cluster.process.time_slice import ask_for_time_slice
from cluster.system.data_directory import DataDirectory
from replication.journal import DamagedJournalError, JournalError, UnsupportedJournalError

SWITCH_INTERVAL_S: Final = 0.0005
"""Seconds that the journal's thread may have to wait for the interpreter after its fdatasync."""

GC_THRESHOLDS: Final = (100_000, 50, 100)
"""Thresholds of the garbage collector: the hot path makes no cycles, so it may run seldom."""


def run_node(config: NodeConfig, *, restores_users: bool = False) -> None:
    """Run a node until SIGTERM or SIGINT. Raises ConfigError, JournalError, OSError, NodeFailedError.

    `restores_users`: put the users of the configuration into the catalog, over those that it has.
    """
    config.curve_keys()
    start_logging(config.name, config.log_level, log_file(config.log))
    with suppress(OSError):
        # The name in ps(1) and top(1): a forked node has the command line of the fork server.
        Path("/proc/self/comm").write_text(f"quorate {config.name}", encoding="utf-8")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if config.time_slice_us and not ask_for_time_slice(config.time_slice_us):
        EventLog("node").warning("time_slice_refused", microseconds=config.time_slice_us)
    with DataDirectory(config.data_dir):
        try:
            uvloop.run(_serve(config, restores_users))
        except (DamagedJournalError, UnsupportedJournalError) as error:
            raise unreadable(error) from error


async def _serve(config: NodeConfig, restores_users: bool) -> None:
    stopped = asyncio.Event()
    process = NodeProcess(config, asyncio.get_running_loop(), stopped.set, restores_users)
    for number in (signal.SIGINT, signal.SIGTERM):
        process.loop.add_signal_handler(number, stopped.set)
    process.loop.add_signal_handler(signal.SIGHUP, process.reload)
    starting = asyncio.ensure_future(process.start())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        # Without a quorum `start` does not end, and the node must be able to stop nevertheless.
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            _begun(process, starting)
            await stopping
    finally:
        starting.cancel()
        stopping.cancel()
        await _stopped(process)
    if process.fail_stop.failure is not None:
        raise process.fail_stop.failure


def _begun(process: NodeProcess, starting: asyncio.Future[None]) -> None:
    """The start has ended. Raises its ConfigError, JournalError or OSError; ends the node for any other
    error.
    """
    error = starting.exception()
    if isinstance(error, ConfigError | JournalError | OSError):
        raise error
    if error is not None:
        process.fail_stop.end(error, "the start of the node")
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def _stopped(process: NodeProcess) -> None:
    try:
        await process.stop()
    except Exception as error:
        process.fail_stop.end(error, "the end of the process")
