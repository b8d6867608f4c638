"""Options and fixtures of the whole test suite."""

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-scenarios", action="store_true", help="write scenario transcripts anew")


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
