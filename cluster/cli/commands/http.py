"""Requests of the commands to a node's HTTP port."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from cluster.cli.commands.errors import CommandError, WrongUsageError
from cluster.cli.commands.password_file import first_line

REQUEST_TIMEOUT_S: Final = 30.0
DEFAULT_URL: Final = "http://127.0.0.1:15672"
UNAUTHORISED: Final = 401

F = TypeVar("F", bound=Callable[..., Any])


def request(
    url: str, method: str = "GET", body: Any = None, authorisation: str = "", farewell: str = ""
) -> Any:
    """The JSON value of an answer; None where the answer has no body. Raises `CommandError`.

    `farewell` is the reason that the node tells the client whose connection the request closes.
    """
    if not url.startswith(("http://", "https://")):
        raise WrongUsageError(f"--url {url}: must begin with http://, such as {DEFAULT_URL}")
    octets = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, octets, {"Content-Type": "application/json"}, method=method)
    if farewell:
        asked.add_header("X-Reason", farewell)
    if authorisation:
        asked.add_unredirected_header("Authorization", authorisation)
    try:
        # Proxies are for other machines; a node is asked directly.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=REQUEST_TIMEOUT_S) as response:
            text = response.read()
    except urllib.error.HTTPError as error:
        raise CommandError(f"{url} answered {error.code}: {_reason(error)}") from error
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise CommandError(
            f"{url} cannot be reached: {reason}; is the node running (`quorate up`), or is --url wrong?"
        ) from error
    try:
        return json.loads(text) if text else None
    except ValueError as error:
        raise CommandError(f"{url} did not answer with JSON: is this a node's HTTP port?") from error


def _reason(error: urllib.error.HTTPError) -> str:
    text = error.read(2000).decode(errors="replace").strip()
    try:
        told = json.loads(text)
        reason = str(told["reason"])
    except (ValueError, KeyError, TypeError):
        reason = text or str(error.reason)
    if error.code == UNAUTHORISED:
        return f"{reason}: give --user and --password-file, or QUORATE_USER and QUORATE_PASSWORD"
    return reason


@dataclass(frozen=True, slots=True)
class ManagementClient:
    """The management API of a node, as one user. Each method raises `CommandError`."""

    url: str
    user: str
    password: str = field(repr=False)

    def get(self, *path: str) -> Any:
        return self._call("GET", path)

    def put(self, *path: str, body: Any) -> None:
        self._call("PUT", path, body)

    def post(self, *path: str, body: Any) -> Any:
        return self._call("POST", path, body)

    def delete(self, *path: str, reason: str = "", **only_if: bool) -> None:
        """`only_if` are conditions of the API, such as `if_empty`; `reason` is told to a client whose
        connection this closes.
        """
        query = "&".join(f"{name.replace('_', '-')}=true" for name, given in only_if.items() if given)
        self._call("DELETE", path, query=query, reason=reason)

    def _call(
        self, method: str, path: tuple[str, ...], body: Any = None, query: str = "", reason: str = ""
    ) -> Any:
        """Send a request; the names in the path may hold any characters."""
        url = f"{self.url.rstrip('/')}/api" + "".join("/" + quote(name, safe="") for name in path)
        credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return request(f"{url}?{query}" if query else url, method, body, f"Basic {credentials}", reason)


MANAGEMENT_OPTIONS: Final = (
    click.option(
        "--password-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with the password in its first line; counts more than --password.",
    ),
    click.option(
        "--password",
        envvar="QUORATE_PASSWORD",
        default="guest",
        help="That user's password; better in QUORATE_PASSWORD, as other accounts see command lines.",
    ),
    click.option(
        "--user",
        envvar="QUORATE_USER",
        default="guest",
        show_default=True,
        help="Who you are; also QUORATE_USER.",
    ),
    click.option(
        "--url",
        envvar="QUORATE_URL",
        default=DEFAULT_URL,
        show_default=True,
        help="HTTP address of any node; also QUORATE_URL.",
    ),
)
"""The options of commands that ask the HTTP API, in the reverse of the order in which their help has them."""


def management_options(command: F) -> F:
    """Adds `--url`, `--user`, `--password` and `--password-file`, which the command gets as one `client`."""

    def with_client(
        *arguments: Any, url: str, user: str, password: str, password_file: Path | None, **options: Any
    ) -> Any:
        if password_file is not None:
            password = first_line(password_file)
        return command(*arguments, client=ManagementClient(url, user, password), **options)

    with_client.__name__, with_client.__doc__ = command.__name__, command.__doc__
    with_client.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    for option in MANAGEMENT_OPTIONS:
        with_client = option(with_client)
    return with_client  # type: ignore[return-value]
