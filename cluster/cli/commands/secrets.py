"""`quorate keygen` and `quorate hash-password`: make the keys and hashes for the configuration."""

from __future__ import annotations

from pathlib import Path

import click

from cluster.cli.commands.errors import CommandError
from cluster.config.passwords import PasswordHash
from cluster.system.data_directory import write_private
from replication.transport import CurveKeys


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def keygen(file: Path) -> None:
    """Write a new CURVE secret key to FILE and print its public key."""
    if file.exists():
        raise CommandError(f"{file} exists: a node that has this key would lose it; choose another file")
    keys = CurveKeys.generate()
    try:
        write_private(file, keys.secret.decode() + "\n")
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror}") from error
    click.echo(keys.public.decode())


@click.command("hash-password")
@click.password_option("--password", help="Asked for when not given.")
@click.option("--scram", is_flag=True, help="With a SCRAM-SHA-256 verifier, for clusters that keep them.")
def hash_password(password: str, scram: bool) -> None:
    """Print the hash of a password, for `password_hash` in the configuration."""
    click.echo(str(PasswordHash.of(password, scram)))
