"""A browser that is signed in, and clusters of real processes to look at with it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.processes import conftest as processes

WITHOUT_BROWSER = {"test_files.py"}

if find_spec("selenium") is None:
    # Where only `make test` was run, those of `make test-console` cannot be.
    here = Path(__file__).parent
    collect_ignore = [path.name for path in here.glob("test_*.py") if path.name not in WITHOUT_BROWSER]
else:
    from tests.console.browser import Browser

    @pytest.fixture(scope="session")
    def shared_browser() -> Iterator[Browser]:
        browser = Browser()
        yield browser
        browser.quit()

    @pytest.fixture
    def browser(shared_browser: Browser) -> Iterator[Browser]:
        """A browser with no session of its own yet, which must have no complaint in its log in the end."""
        shared_browser.forget()
        yield shared_browser
        complaints = shared_browser.complaints()
        assert not complaints, "\n".join(complaints)


shared_cluster = processes.shared_cluster
cluster = processes.cluster
own_cluster = processes.own_cluster
channel = processes.channel
name = processes.name
pytest_runtest_makereport = processes.pytest_runtest_makereport
