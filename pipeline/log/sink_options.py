"""The options of the sink of epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pipeline.log.options import check_options, named_options, node_urls, number_option, password_of
from pipeline.log.sinks import DROP, FAIL, SinkClient
from pipeline.options import OptionError

SINK_OPTIONS: Final = (
    "url", "user", "passwordFile", "caFile", "vhost", "queue", "exchange", "unroutable", "blockBytes",
    "checkpointLocation", "queryName",
)  # fmt: skip
"""Spark hands `checkpointLocation` and `queryName` of streaming queries on to the sink."""

DEFAULT_BLOCK_OCTETS: Final = 1024 * 1024
MOST_BLOCK_OCTETS: Final = 8 * 1024 * 1024
"""The most that `blockBytes` may be. A message that is larger has a block of its own."""


class SinkOptions(NamedTuple):
    """Checked options. `queue` and `exchange` are for frames without such a column."""

    urls: list[str]
    user: str
    password_file: str | None
    ca_file: str | None
    vhost: str
    queue: str | None
    exchange: str | None
    unroutable: str
    block_octets: int


def checked_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a sink. Their names are of any case, as Spark has them. Raises OptionError."""
    found = {"vhost": "/", "unroutable": FAIL} | named_options(given, SINK_OPTIONS)
    check_options(found, ("url", "user"), unroutable=(FAIL, DROP))
    if "queue" in found and "exchange" in found:
        raise OptionError("queue and exchange: messages go to a queue, or to an exchange")
    octets = number_option(found, "blockBytes") or DEFAULT_BLOCK_OCTETS
    if octets > MOST_BLOCK_OCTETS:
        raise OptionError(f"blockBytes is {MOST_BLOCK_OCTETS} at most, not {octets}")
    return SinkOptions(
        node_urls(found["url"]),
        found["user"],
        found.get("passwordFile"),
        found.get("caFile"),
        found["vhost"],
        found.get("queue"),
        found.get("exchange"),
        found["unroutable"],
        octets,
    )


def sink_client(options: SinkOptions, environment: Mapping[str, str]) -> SinkClient:
    """A client as the options say. Raises OptionError, and OSError for certificates that are not there."""
    password = password_of(options.password_file, environment)
    return SinkClient(options.urls, options.user, password, options.ca_file)
