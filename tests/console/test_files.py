"""The console's files as a node serves them, and what browsers are told to forbid them (F7)."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cluster.admin.console.assets import read_assets
from tests.processes.nodes import Cluster, Node
from tests.structure.tree import ROOT

STATIC = ROOT / "cluster" / "admin" / "console" / "static"


def fetch(
    node: Node, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(node.http).netloc, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return (
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read(),
        )
    finally:
        connection.close()


def test_every_file_is_served_as_it_is(cluster: Cluster) -> None:
    for path, asset in read_assets().items():
        status, headers, body = fetch(cluster[0], f"/console/{path}")
        assert (status, body) == (200, (STATIC / path).read_bytes())
        assert headers["content-type"] == asset.content_type
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_is_at_the_folder_and_people_are_led_to_it(cluster: Cluster) -> None:
    assert fetch(cluster[1], "/console/")[2] == (STATIC / "index.html").read_bytes()
    status, headers, _ = fetch(cluster[1], "/console")
    assert (status, headers["location"]) == (308, "/console/")
    status, headers, _ = fetch(cluster[1], "/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (status, headers["location"]) == (302, "/console/")
    assert b"/metrics\n" in fetch(cluster[1], "/")[2]


def test_browsers_are_told_what_to_forbid(cluster: Cluster) -> None:
    for path in ("/console/", "/console/js/main.js", "/console/nothing"):
        _, headers, _ = fetch(cluster[0], path)
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["trusted-types"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert (
            headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        )
        assert headers["permissions-policy"].startswith("camera=()")
        assert headers["server"] == "quorate"


def test_what_is_no_page_is_data_and_is_not_kept(cluster: Cluster) -> None:
    for path in ("/api/whoami", "/api/status", "/metrics", "/health/live", "/nowhere"):
        _, headers, _ = fetch(cluster[0], path)
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'", path
        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert "access-control-allow-origin" not in headers


def test_an_unchanged_file_is_not_sent_twice(cluster: Cluster) -> None:
    _, headers, _ = fetch(cluster[0], "/console/js/main.js")
    assert headers["cache-control"] == "no-cache"
    again = fetch(cluster[2], "/console/js/main.js", headers={"If-None-Match": headers["etag"]})
    assert (again[0], again[2]) == (304, b"")
    assert again[1]["content-security-policy"]
    assert fetch(cluster[0], "/console/js/main.js", headers={"If-None-Match": '"old"'})[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../assets.py",
        "js/../../server.py",
        "%2e%2e/assets.py",
        "..%2fassets.py",
        "js",
        "js/",
        "static/index.html",
        "\\",
    ],
)
def test_nothing_else_is_served(cluster: Cluster, path: str) -> None:
    status, _, body = fetch(cluster[0], f"/console/{path}")
    assert (status, body) == (404, b"404: Not Found")


def test_only_reading_is_answered(cluster: Cluster) -> None:
    assert fetch(cluster[0], "/console/", "HEAD")[::2] == (200, b"")
    assert fetch(cluster[0], "/console/", "POST")[0] == 405


def test_the_page_names_only_files_that_are_there_and_holds_no_code() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    names = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert names and not set(names) - set(read_assets())
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)


def test_the_distribution_holds_the_files(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    (source / "cluster").symlink_to(ROOT / "cluster")
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"cluster/admin/console/static/{path}" for path in read_assets()} <= held
