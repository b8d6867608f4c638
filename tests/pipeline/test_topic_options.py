"""The options of the source of topics: what they ask for, and what is refused (F8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.log.client import LogRange, Plan
from pipeline.log.options import NotThereYetError, checked_options, password_of, ranges_of, topics_of
from pipeline.options import OptionError

pytestmark = pytest.mark.requirement("F8.3")

GIVEN = {"url": "http://a:15672, https://b:15671/", "user": "u", "topic": "t"}
BOOKMARK = "0000002a" + 15 * "0"


def test_options_have_defaults_and_names_of_any_case() -> None:
    found = checked_options({**GIVEN, "STARTINGAT": "12h", "taskbytes": "1000"})
    assert (found.urls, found.vhost, found.ending) == (["http://a:15672", "https://b:15671"], "/", "latest")
    assert (found.starting, found.max_rows, found.task_octets) == ("12h", None, 1000)
    assert checked_options(GIVEN).task_octets == 64 << 20


def test_the_message_with_the_bookmark_of_the_end_is_read() -> None:
    assert checked_options({**GIVEN, "endingAt": BOOKMARK + "9"}).ending == BOOKMARK + "a"
    last = "0000002a" + 16 * "f"
    assert checked_options({**GIVEN, "endingAt": last}).ending == last


WRONG: dict[str, dict[str, str]] = {
    "the option topci is not known; topic is": {"topci": "t"},
    "the option colour is not known; these are: url, user": {"colour": "t"},
    "a secret is no option, as plans and event logs show password: passwordFile": {"password": "p"},
    "a secret is no option, as plans and event logs show authToken": {"authToken": "p"},
    "url has a user or a password": {"url": "http://u:p@a:15672"},
    "url is http://node:15672": {"url": "a:15672"},
    "the option url is missing": {"url": ","},
    "the option user is missing": {"user": ""},
    "maxRows is a number above 0, not 0": {"maxRows": "0"},
    "maxBytes is a number above 0, not -1": {"maxBytes": "-1"},
    "reader is a name of 1 to 255 octets": {"reader": ""},
    "reader is a name of 1 to": {"reader": 128 * "ä"},
    "taskBytes is a number above 0, not 64m": {"taskBytes": "64m"},
    "pushdown is true or false, not 1": {"pushdown": "1"},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=text) as caught:
        checked_options({**GIVEN, **WRONG[text]})
    assert ":p@" not in str(caught.value)


def test_the_password_is_in_a_file_or_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("p w\n", encoding="utf-8")
    with_file = checked_options({**GIVEN, "passwordFile": str(tmp_path / "secret")})
    assert password_of(with_file.password_file, {"QUORATE_PASSWORD": "other"}) == "p w"
    assert password_of(None, {"QUORATE_PASSWORD": "other"}) == "other"
    with pytest.raises(OptionError, match="set passwordFile, or QUORATE_PASSWORD"):
        password_of(None, {})
    with pytest.raises(OptionError, match=r"passwordFile .*nothing is not read"):
        password_of(str(tmp_path / "nothing"), {})


def test_a_pattern_takes_streams_by_their_names() -> None:
    def topics(pattern: str) -> list[str]:
        return topics_of(checked_options({**GIVEN, "topic": pattern}), lambda: ["a.eu", "a.us", "b.eu"])

    assert topics("^a[.].*$") == ["a.eu", "a.us"] and topics("t") == ["t"]
    with pytest.raises(OptionError, match="takes the name of no stream in virtual host /"):
        topics("^c$")
    with pytest.raises(OptionError, match="is no pattern"):
        topics("^($")


class Plans:
    """Plans of streams, each with the numbers 0 to `stable`, in ranges of ten messages, two for a plan."""

    def __init__(self, **stable: int) -> None:
        self.stable = stable
        self.asked: list[tuple[str, Any, Any, Any]] = []

    def streams(self, vhost: str) -> list[str]:
        return list(self.stable)

    def plan(self, vhost: str, topic: str, *, first: str, end: str, rows: int | None, **_: object) -> Plan:
        self.asked.append((topic, first, end, rows))
        stable = self.stable[topic]
        begin = 0 if first == "earliest" else int(first)
        wanted = stable if end == "latest" else int(end)
        ranges: list[LogRange] = []
        while begin < min(stable, wanted) and len(ranges) < 2 and (rows is None or rows > 0):
            count = min(10, min(stable, wanted) - begin, *([] if rows is None else [rows]))
            ranges.append(LogRange(f"{begin:02d}", f"{begin + count:02d}", count, 100))
            begin, rows = begin + count, None if rows is None else rows - count
        return Plan(7, "", f"{wanted:02d}", f"{begin:02d}", f"{stable:02d}", ranges, [])


def planned(plans: Plans, **options: str) -> list[tuple[str, str, str, int]]:
    ranges = ranges_of(checked_options({**GIVEN, **options}), plans)
    return [(one.topic, one.first, one.end, one.rows) for one in ranges]


def test_plans_are_asked_for_until_the_end_that_the_first_one_told() -> None:
    plans = Plans(t=35)
    assert [one[1:] for one in planned(plans)] == [
        ("00", "10", 10), ("10", "20", 10), ("20", "30", 10), ("30", "35", 5)
    ]  # fmt: skip
    assert [one[1:3] for one in plans.asked] == [("earliest", "latest"), ("20", "35")]


def test_max_rows_counts_over_all_topics() -> None:
    plans = Plans(a=15, b=35, c=5)
    found = planned(plans, topic="^.*$", maxRows="22")
    assert [(one[0], one[3]) for one in found] == [("a", 10), ("a", 5), ("b", 7)]
    assert sum(one[3] for one in planned(plans, topic="^.*$")) == 55


def test_an_end_that_has_not_come_is_no_short_answer() -> None:
    with pytest.raises(NotThereYetError, match="topic t ends at 35, in front of endingAt 50"):
        planned(Plans(t=35), endingAt="50")
