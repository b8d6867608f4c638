"""The options of the source of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pipeline.log.options import (
    DEFAULT_TASK_OCTETS,
    GONE_CONTINUES,
    GONE_FAILS,
    TOPIC_OPTIONS,
    check_options,
    named_options,
    node_urls,
    number_option,
    password_of,
    reader_option,
)
from pipeline.log.takes import QueueReader, TakeClient
from pipeline.options import OptionError

QUEUE: Final = "queue"
"""The option that asks for a queue, and not for topics."""

QUEUE_OPTIONS: Final = (
    "url", "user", "passwordFile", "caFile", "vhost", "queue", "reader", "maxRows", "maxBytes", "taskBytes",
    "onGone", "takes",
)  # fmt: skip

MOST_ROWS: Final = 10_000_000
"""The messages of a take at most, as the API has it."""

_OF_TOPICS: Final = {one.lower(): one for one in TOPIC_OPTIONS if one not in QUEUE_OPTIONS}


class QueueOptions(NamedTuple):
    """Checked options. `reader` is empty where none is given. `max_rows` and `max_octets` limit a batch of a
    streaming query, and `max_rows` what a batch query takes. `takes`: the numbers that a batch query reads,
    None for those that its reader holds.
    """

    urls: list[str]
    user: str
    password_file: str | None
    ca_file: str | None
    vhost: str
    queue: str
    reader: str
    max_rows: int | None
    max_octets: int | None
    task_octets: int
    on_gone: str
    takes: range | None = None


def asks_for_queue(given: Mapping[str, str]) -> bool:
    """Whether options are those of the source of queues."""
    return any(name.lower() == QUEUE for name in given)


def checked_queue_options(given: Mapping[str, str]) -> QueueOptions:
    """The options of a source. Their names are of any case, as Spark has them. Raises OptionError."""
    for name in given:
        if name.lower() == "topic":
            raise OptionError("topic and queue: a source reads topics, or takes messages of one queue")
        if wrong := _OF_TOPICS.get(name.lower()):
            raise OptionError(f"{wrong} is for topics: a queue gives its ready messages, the oldest first")
    found = {"vhost": "/", "onGone": GONE_FAILS} | named_options(given, QUEUE_OPTIONS)
    check_options(found, ("url", "user", QUEUE), onGone=(GONE_FAILS, GONE_CONTINUES))
    max_rows = number_option(found, "maxRows")
    return QueueOptions(
        node_urls(found["url"]),
        found["user"],
        found.get("passwordFile"),
        found.get("caFile"),
        found["vhost"],
        found[QUEUE],
        reader_option(found),
        max_rows,
        number_option(found, "maxBytes"),
        number_option(found, "taskBytes") or DEFAULT_TASK_OCTETS,
        found["onGone"],
        _numbers(found),
    )


def _numbers(found: Mapping[str, str]) -> range | None:
    """Raises OptionError."""
    if "takes" not in found:
        return None
    parts = dict(enumerate(found["takes"].split("-", 1)))
    first, last = (number_option({"takes": parts.get(place, parts[0])}, "takes") or 0 for place in (0, 1))
    return range(first, last + 1)


def take_client(options: QueueOptions, environment: Mapping[str, str]) -> TakeClient:
    """A client as the options say. Raises OptionError, and OSError for certificates that are not there."""
    password = password_of(options.password_file, environment)
    return TakeClient(options.urls, options.user, password, options.ca_file)


def reader_named(options: QueueOptions, name: str) -> QueueReader:
    """The reader of the queue with a name."""
    return QueueReader(options.vhost, options.queue, name)
