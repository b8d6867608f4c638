"""How a command fails: the text goes to standard error, the code to the shell."""

from __future__ import annotations

import click


class CommandError(click.ClickException):
    """The command did not work; the text names the place, the error and the remedy."""

    exit_code = 1


class WrongUsageError(CommandError):
    """The command cannot work as it was asked: an option or the configuration has to change."""

    exit_code = 2


class NodeEndedError(CommandError):
    """A node has ended by itself, with the exit code that says why (`cluster.process.scopes.ExitCode`)."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]  # click declares it for the class
