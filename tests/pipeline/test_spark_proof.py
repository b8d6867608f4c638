"""The proof of the pipeline, a few kills of each kind: `make proof-pipeline` has hundreds (F8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.proof.run import KINDS, Proof

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1", "F8.3", "F8.4")]

KILLS = 3
SEED = 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_there_once_over_kills(kind: str, tmp_path: Path) -> None:
    verdict = Proof(kind, SEED, tmp_path, print).run(KILLS)
    assert verdict.kept, verdict.line()
    assert verdict.kills.total() == KILLS
