"""The options of the source of topics, and the ranges that they ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pipeline.log.client import LogClient, Plan, Planner
from pipeline.options import OptionError, nearest

PASSWORD_VARIABLE: Final = "QUORATE_PASSWORD"
"""The variable of the environment with the password, where no file has it."""

TOPIC_OPTIONS: Final = (
    "url", "user", "passwordFile", "caFile", "vhost", "topic", "startingAt", "endingAt", "maxRows",
    "maxBytes", "taskBytes", "onGone", "reader", "filter", "pushdown",
)  # fmt: skip
GONE_FAILS, GONE_CONTINUES = "fail", "continue"
"""The values of `onGone`."""

_DEFAULTS: Final = {
    "vhost": "/",
    "startingAt": "earliest",
    "endingAt": "latest",
    "onGone": GONE_FAILS,
    "filter": "",
    "pushdown": "false",
}
_SECRET: Final = re.compile("password|passwd|secret|token|credential", re.IGNORECASE)
BOOKMARK: Final = re.compile("[0-9a-f]{24}")

MOST_OCTETS_OF_READER: Final = 255

DEFAULT_TASK_OCTETS: Final = 64 * 1024 * 1024


class TopicOptions(NamedTuple):
    """Checked options. `starting` is a position, `ending` is one that the last message is in front of.
    `reader` is a name under which a streaming query advances; empty for none.
    """

    urls: list[str]
    user: str
    password_file: str | None
    ca_file: str | None
    vhost: str
    topic: str
    starting: str
    ending: str
    max_rows: int | None
    task_octets: int
    on_gone: str
    max_octets: int | None = None
    reader: str = ""
    filter: str = ""
    pushdown: bool = False


class TopicRange(NamedTuple):
    """A range of one stream, which one task reads."""

    topic: str
    partition: int
    first: str
    end: str
    rows: int
    replicas: list[str]


class NotThereYetError(Exception):
    """The stream has not come to the end that was asked for."""


def named_options(given: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """The options by their names in `known`. Names are of any case, as Spark has them. Raises OptionError
    for a name that is not known, and for a secret.
    """
    names = {name.lower(): name for name in known}
    found = {}
    for name, value in given.items():
        if name.lower() in names:
            found[names[name.lower()]] = value
        elif _SECRET.search(name):
            raise OptionError(
                f"a secret is no option, as plans and event logs show {name}: passwordFile names a file "
                f"that has the password, or the environment has it as {PASSWORD_VARIABLE}"
            )
        else:
            raise OptionError(f"the option {name} is not known{nearest(name, known)}")
    return found


def check_options(found: Mapping[str, str], needed: Sequence[str], **choices: tuple[str, str]) -> None:
    """Check that options are there, and that others have one of two values. Raises OptionError."""
    for name in needed:
        if not found.get(name):
            raise OptionError(f"the option {name} is missing")
    for name, (one, other) in choices.items():
        if found[name] not in (one, other):
            raise OptionError(f"{name} is {one} or {other}, not {found[name]}")


def checked_options(given: Mapping[str, str]) -> TopicOptions:
    """The options of a source. Their names are of any case, as Spark has them. Raises OptionError."""
    found = _DEFAULTS | named_options(given, TOPIC_OPTIONS)
    check_options(found, ("url", "user", "topic"), onGone=(GONE_FAILS, GONE_CONTINUES))
    return TopicOptions(
        node_urls(found["url"]),
        found["user"],
        found.get("passwordFile"),
        found.get("caFile"),
        found["vhost"],
        found["topic"],
        found["startingAt"],
        behind_bookmark(found["endingAt"]),
        number_option(found, "maxRows"),
        number_option(found, "taskBytes") or DEFAULT_TASK_OCTETS,
        found["onGone"],
        number_option(found, "maxBytes"),
        reader_option(found),
        found["filter"],
        _flag(found, "pushdown"),
    )


def reader_option(found: Mapping[str, str]) -> str:
    """The name of a reader; empty where none is given. Raises OptionError."""
    name = found.get("reader", "")
    if "reader" in found and not 1 <= len(name.encode()) <= MOST_OCTETS_OF_READER:
        raise OptionError(f"reader is a name of 1 to {MOST_OCTETS_OF_READER} octets")
    return name


def _flag(found: Mapping[str, str], name: str) -> bool:
    """An option that is true or false. Raises OptionError."""
    text = found[name].lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not {found[name]}")
    return text == "true"


def node_urls(text: str) -> list[str]:
    """The addresses of nodes. Raises OptionError."""
    urls = [one.strip().rstrip("/") for one in text.split(",") if one.strip()]
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError("url is http://node:15672, https://node:15671, or several with a comma between")
        if parts.username or parts.password:
            raise OptionError("url has a user or a password: user and passwordFile are options of their own")
    if not urls:
        raise OptionError("the option url is missing")
    return urls


def behind_bookmark(ending: str) -> str:
    """The position behind a bookmark: the message with that bookmark is in front. Other ends as they are."""
    if BOOKMARK.fullmatch(ending) and ending[8:] != 16 * "f":
        return f"{ending[:8]}{int(ending[8:], 16) + 1:016x}"
    return ending


def number_option(found: Mapping[str, str], name: str) -> int | None:
    """An option that is a number above 0; None where it is not given. Raises OptionError."""
    text = found.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise OptionError(f"{name} is a number above 0, not {text}")
    return int(text)


def password_of(password_file: str | None, environment: Mapping[str, str]) -> str:
    """The user's password, of the file or the environment. Raises OptionError."""
    if password_file is None:
        if PASSWORD_VARIABLE not in environment:
            raise OptionError(f"no password: set passwordFile, or {PASSWORD_VARIABLE} in the environment")
        return environment[PASSWORD_VARIABLE]
    try:
        return Path(password_file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"passwordFile {password_file} is not read: {error}") from None


def client_of(options: TopicOptions, environment: Mapping[str, str]) -> LogClient:
    """A client as the options say. Raises OptionError, and OSError for certificates that are not there."""
    password = password_of(options.password_file, environment)
    return LogClient(options.urls, options.user, password, options.ca_file)


def topics_of(options: TopicOptions, streams: Callable[[], list[str]]) -> list[str]:
    """The topic, or all streams whose names a pattern `^…$` takes. Raises OptionError."""
    topic = options.topic
    if not (topic.startswith("^") and topic.endswith("$")):
        return [topic]
    try:
        pattern = re.compile(topic)
    except re.error as error:
        raise OptionError(f"topic, {topic}, is no pattern: {error}") from None
    found = [name for name in streams() if pattern.search(name)]
    if not found:
        raise OptionError(f"topic, {topic}, takes the name of no stream in virtual host {options.vhost}")
    return found


def ranges_of(
    options: TopicOptions, client: Planner, wanted: Callable[[str], bool] = bool
) -> Iterator[TopicRange]:
    """The ranges to read, topic by topic. `wanted` says which topics the query asks for, where `maxRows` does
    not count over all of them. Raises OptionError, NotThereYetError, and as LogClient.
    """
    left = options.max_rows
    for topic in topics_of(options, lambda: client.streams(options.vhost)):
        if left is None and not wanted(topic):
            continue
        for one in ranges_between(options, client, topic, options.starting, options.ending, left):
            yield one
            left = None if left is None else left - one.rows


def planned_ranges(topic: str, plan: Plan) -> list[TopicRange]:
    """The ranges of a plan of one topic."""
    return [
        TopicRange(topic, plan.partition, one.first, one.end, one.rows, plan.replicas) for one in plan.ranges
    ]


def ranges_between(
    options: TopicOptions,
    client: Planner,
    topic: str,
    first: str,
    end: str,
    left: int | None = None,
    count: int | None = None,
) -> Iterator[TopicRange]:
    """The ranges of one topic between two positions, with `left` messages at most. `count` is that of the
    position `first`. Raises as `ranges_of`.
    """
    while left is None or left > 0:
        plan = client.plan(
            options.vhost,
            topic,
            first=first,
            end=end,
            rows=left,
            range_octets=options.task_octets,
            first_count=count,
        )
        yield from planned_ranges(topic, plan)
        left = None if left is None else left - sum(one.rows for one in plan.ranges)
        first, end, count = plan.end, plan.wanted, plan.end_count
        if plan.end >= plan.wanted or left == 0:
            return
        if plan.end >= plan.stable_end:
            raise NotThereYetError(f"topic {topic} ends at {plan.stable_end}, in front of endingAt {end}")
