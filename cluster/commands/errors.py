"""How a command fails: the text goes to standard error, the code to the shell."""

from __future__ import annotations

import click


class CommandError(click.ClickException):
    """The command did not work; the text says what, where, and what to do."""

    exit_code = 1


class WrongUsageError(CommandError):
    """The command cannot work as it was asked: an option or the configuration has to change."""

    exit_code = 2
