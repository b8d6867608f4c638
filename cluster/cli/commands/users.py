"""`quorate users`: the users of a cluster."""

from __future__ import annotations

from typing import Any

import click

from cluster.cli.commands.errors import WrongUsageError
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show
from cluster.config.passwords import SCRYPT, PasswordHash

TAGS = ("administrator", "monitoring", "policymaker", "management", "impersonator")

_limits = {"max_connections": "max-connections", "max_channels": "max-channels"}


@click.group()
def users() -> None:
    """Add users, give them passwords, tags and limits, and delete them."""


@users.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print all that there is to say as JSON.")
@management_options
def list_users(client: ManagementClient, as_json: bool) -> None:
    """Show the users with their tags and limits."""
    show("users", ("name", "tags", "limits"), client.get("users"), as_json)


@users.command("add")
@click.argument("name")
@click.option("--tag", "tags", multiple=True, help=f"Such as {', '.join(TAGS)}; repeatable.")
@click.option("--new-password", envvar="QUORATE_NEW_PASSWORD", help="Asked for when not given.")
@click.option("--password-hash", help="What `quorate hash-password` printed, instead of a password.")
@click.option("--no-password", is_flag=True, help="Only a certificate lets the user in.")
@management_options
def add_user(
    client: ManagementClient,
    name: str,
    tags: tuple[str, ...],
    new_password: str | None,
    password_hash: str | None,
    no_password: bool,
) -> None:
    """Add the user NAME, or give the user another password and other tags. `quorate permissions` sets the
    permissions of users."""
    if sum((new_password is not None, password_hash is not None, no_password)) > 1:
        raise WrongUsageError("give one of --new-password, --password-hash and --no-password")
    if no_password:
        secret: dict[str, Any] = {"password_hash": ""}
    elif password_hash is not None:
        secret = _hashed(password_hash)
    else:
        secret = {"password": new_password or _asked(name)}
    client.put("users", name, body={**secret, "tags": ",".join(tags)})


@users.command("delete")
@click.argument("name")
@management_options
def delete_user(client: ManagementClient, name: str) -> None:
    """Delete the user NAME and close the user's connections."""
    client.delete("users", name)


@users.command("set-password")
@click.argument("name")
@click.option("--new-password", envvar="QUORATE_NEW_PASSWORD", help="Asked for when not given.")
@management_options
def set_password(client: ManagementClient, name: str, new_password: str | None) -> None:
    """Give the user NAME another password; connections that are there stay."""
    tags = client.get("users", name)["tags"]
    client.put("users", name, body={"password": new_password or _asked(name), "tags": ",".join(tags)})


@users.command("set-tags")
@click.argument("name")
@click.argument("tags", nargs=-1)
@management_options
def set_tags(client: ManagementClient, name: str, tags: tuple[str, ...]) -> None:
    """Give the user NAME these TAGS instead of those before."""
    known = client.get("users", name)
    kept = {key: known[key] for key in ("password_hash", "hashing_algorithm")}
    client.put("users", name, body={**kept, "tags": ",".join(tags)})


@users.command("limit")
@click.argument("name")
@click.option("--max-connections", type=int, help="In the whole cluster; -1 lifts the limit.")
@click.option("--max-channels", type=int, help="Of all connections; -1 lifts the limit.")
@management_options
def limit_user(client: ManagementClient, name: str, **limits: int | None) -> None:
    """Limit the connections and channels of the user NAME."""
    for option, limit in _limits.items():
        if limits[option] is not None:
            client.put("user-limits", name, limit, body={"value": limits[option]})


def _asked(name: str) -> str:
    answer: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return answer


def _hashed(text: str) -> dict[str, str]:
    try:
        PasswordHash.parse(text)
    except ValueError as error:
        raise WrongUsageError(f"--password-hash {error}") from None
    return {"password_hash": text, "hashing_algorithm": SCRYPT}
