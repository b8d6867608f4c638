"""Files and functions stay short enough to be read in one go."""

from __future__ import annotations

import pytest

from tests.structure.sizes import figures, measured, recorded, too_long


def test_files_and_functions_are_within_the_limits() -> None:
    wrong = too_long(measured())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", recorded())
def test_figure_only_improves(name: str) -> None:
    assert figures()[name] <= recorded()[name], f"{name}: the limit in ratchet.json only ever goes down"


def test_every_figure_is_ratcheted() -> None:
    assert recorded().keys() == figures().keys()
