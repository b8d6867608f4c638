"""The files of a new cluster are made wherever `quorate` is installed, by root or by any account."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cluster.config.models import parse
from cluster.config.passwords import PasswordHash
from replication.transport import CurveKeys
from tests.structure.tree import ROOT

NODES = ("q-0=q-0.nodes", "q-1=q-1.nodes")


def found(directory: Path, *nodes: str) -> None:
    command = directory / "bin" / "quorate"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cluster "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    given = directory / "given"
    given.write_text("wonder land\nnot this\n", encoding="utf-8")
    environment = os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PASSWORD_FILE": str(given),
    }
    words = [ROOT / "deploy" / "found.sh", ROOT / "deploy" / "quorate.toml", directory / "made", *nodes]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_node_gets_its_key_and_all_get_the_same_file(tmp_path: Path) -> None:
    found(tmp_path, *NODES)
    made = tmp_path / "made"
    shared = made / "shared" / "quorate.toml"
    text = shared.read_text(encoding="utf-8")
    for name in ("q-0", "q-1"):
        config = parse(text, "quorate.toml", {"QUORATE_NODE__NAME": name})
        member = config.cluster.nodes[name]
        assert str(member.peers) == f"{name}.nodes:25672"
        keys = CurveKeys.from_secret((made / name / "key").read_text(encoding="utf-8"))
        assert keys.public.decode() == member.public_key
    stored = config.cluster.users["quorate"].password_hash
    assert stored is not None and PasswordHash.parse(str(stored)).matches("wonder land")
    assert (made / "secret" / "password").read_text(encoding="utf-8") == "wonder land\n"
    looker = config.cluster.users["prometheus"]
    told = (made / "prometheus" / "password").read_text(encoding="utf-8").rstrip("\n")
    assert looker.tags == ("monitoring",)
    assert PasswordHash.parse(str(looker.password_hash)).matches(told)
    for file in (*made.glob("shared/*"), *made.glob("q-*/*")):
        seen = file.read_text(encoding="utf-8")
        assert "wonder" not in seen and told not in seen, f"{file} is shown to nodes"
    assert {path.stat().st_mode & 0o077 for path in made.rglob("*")} == {0}
    found(tmp_path, *NODES, "q-2=q-2.nodes")
    assert shared.read_text(encoding="utf-8") == text, "what is there stays"
