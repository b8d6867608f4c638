"""The entry point of the installed `quorate` program, until the command's code is imported."""

from __future__ import annotations

import signal

from cluster.cli.interrupt import leave


def run() -> None:
    """Run the command that the process's arguments name. Does not return."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from cluster.cli.main import main

    main(prog_name="quorate")
