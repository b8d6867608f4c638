"""The unit of deploy/systemd as systemd itself reads it (Debian's package systemd): `make test-compose`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.tree import ROOT

pytestmark = pytest.mark.compose

UNIT = ROOT / "deploy" / "systemd" / "quorate.service"
INSTALLED = "/opt/quorate/bin/quorate"
EXPOSURE = 20
"""In tenths, of `systemd-analyze security`: 0 for what may do nothing at all, 100 for what root may."""


def analyze(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def verified(text: str, directory: Path) -> str:
    """The complaints of systemd about the unit; the unit's program exists, which systemd checks, too."""
    unit = directory / "quorate.service"
    unit.write_text(text.replace(INSTALLED, sys.executable), encoding="utf-8")
    return analyze("verify", "--man=no", unit)[1]


def test_systemd_knows_all_that_the_unit_says(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert text.count(INSTALLED) == 1
    assert verified(text, tmp_path) == ""
    wrong = text.replace("ProtectClock=", "ProtectClocks=")
    assert "'ProtectClocks'" in verified(wrong, tmp_path)


def test_the_service_may_do_little(tmp_path: Path) -> None:
    limit = f"--threshold={EXPOSURE}"
    code, said = analyze("security", "--offline=true", "--no-pager", limit, UNIT)
    assert code == 0, said
    open_wide = tmp_path / "quorate.service"
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    open_wide.write_text("\n".join(line for line in lines if not line.startswith("Protect")))
    assert analyze("security", "--offline=true", "--no-pager", limit, open_wide)[0] != 0
