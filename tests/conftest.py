"""Options and fixtures of the whole test suite."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import rabbitmqadmin


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-scenarios", action="store_true", help="write scenario transcripts anew")
    parser.addoption("--rewrite-pictures", action="store_true", help="take docs/img/console-*.png anew")


def pytest_report_header() -> list[str]:
    """What is left out because something that it needs is not installed."""
    if rabbitmqadmin.source() is not None:
        return []
    return [f"left out: tests/clients/test_rabbitmqadmin.py (no RabbitMQ below {rabbitmqadmin.INSTALLED})"]


@pytest.fixture
def check_transcript(request: pytest.FixtureRequest) -> Callable[[Path, Callable[[str], str]], None]:
    """`check_transcript(path, replay)`: its replay must give the transcript again, or it is rewritten."""

    def check(path: Path, replay: Callable[[str], str]) -> None:
        text = path.read_text(encoding="utf-8")
        replayed = replay(text)
        if request.config.getoption("--rewrite-scenarios"):
            path.write_text(replayed, encoding="utf-8")
        else:
            assert replayed == text

    return check
