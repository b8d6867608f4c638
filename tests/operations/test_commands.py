"""The `quorate` command without a broker: usage, errors and exit codes."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cluster.cli.commands.broker import parameters
from cluster.cli.commands.errors import WrongUsageError
from cluster.cli.local.layout import plan
from cluster.cli.main import main
from cluster.config.passwords import PasswordHash
from cluster.config.tables import ConfigError, read_secret
from replication.transport import CurveKeys
from tests.operations.test_http import free_address

STATUS = {
    "nodes": [
        {
            "name": "n1",
            "pid": 42,
            "amqp": "127.0.0.1:5672",
            "http": "127.0.0.1:15672",
            "ready": True,
            "build": "compiled",
            "c_modules": True,
        },
        {"name": "n2", "pid": None, "amqp": "127.0.0.1:5673", "http": "127.0.0.1:15673", "ready": False},
    ],
    "partitions": [
        {"id": 0, "owner": "n1", "term": 3, "replicas": ["n1", "n2"], "lag": {"n2": 17}},
        {"id": 1, "owner": None, "term": 4, "replicas": ["n1"], "lag": 0},
    ],
    "queues": [{"vhost": "/", "name": "a\x1bb", "owner": "n1", "partition": 1, "ready": 5, "leased": 2}],
}


def quorate(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=input, catch_exceptions=False)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """The URL of an HTTP server with one answer."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Not of interest."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_status_is_shown_as_tables() -> None:
    with answering(200, json.dumps(STATUS).encode()) as url:
        result = quorate("status", "--url", url + "/")
    assert result.exit_code == 0
    assert result.stdout == (
        "nodes (2)\n"
        "  name  pid  amqp            http             ready  build     c_modules\n"
        "  n1    42   127.0.0.1:5672  127.0.0.1:15672  yes    compiled  yes\n"
        "  n2    -    127.0.0.1:5673  127.0.0.1:15673  no     -         -\n"
        "\n"
        "partitions (2)\n"
        "  id  owner  term  replicas  lag\n"
        "  0   n1     3     n1,n2     n2:17\n"
        "  1   -      4     n1        0\n"
        "\n"
        "queues (1)\n"
        "  vhost  name  owner  partition  ready  leased\n"
        "  /      a?b   n1     1          5      2\n"
        "\n"
    )


def test_status_as_json_is_the_nodes_answer() -> None:
    with answering(200, json.dumps(STATUS).encode()) as url:
        assert json.loads(quorate("status", "--url", url, "--json").stdout) == STATUS


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (504, b'{"error": "no answer"}', 'answered 504: {"error": "no answer"}'),
        (200, b"<html>", "did not answer with JSON: is this a node's HTTP port?"),
        (200, b"[]", "did not answer with a status"),
    ],
)
def test_status_from_something_else(status: int, body: bytes, said: str) -> None:
    with answering(status, body) as url:
        result = quorate("status", "--url", url)
    assert result.exit_code == 1
    assert said in result.stderr


def test_status_of_a_node_that_does_not_run() -> None:
    address = free_address()
    result = quorate("status", "--url", f"http://{address}")
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: http://{address}/api/status cannot be reached: [Errno 111] Connection refused; "
        "is the node running (`quorate up`), or is --url wrong?\n"
    )


def test_status_wants_an_http_url() -> None:
    result = quorate("status", "--url", "localhost:15672")
    assert result.exit_code == 2
    assert "must begin with http://" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("publish", "-q", "x", "hi"), ("get", "-q", "x"), ("consume", "-q", "x")]
)
def test_messages_to_a_node_that_does_not_run(arguments: tuple[str, ...]) -> None:
    address = free_address()
    result = quorate(*arguments, "--url", f"amqp://user:hunter2@{address}/v")
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: amqp://{address}/v cannot be reached: [Errno 111] Connection refused; "
        "is the node running (`quorate up`), or is --url wrong?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("publish", "hi"), "either --queue NAME or --exchange NAME"),
        (("publish", "-q", "a", "-e", "b", "hi"), "either --queue NAME or --exchange NAME"),
        (("publish", "-q", "a", "--size", "3", "hi"), "leave MESSAGE out"),
        (("publish", "-q", "a", "-n", "2"), "--count repeats MESSAGE or --size"),
        (("publish", "-q", "a", "-n", "0", "hi"), "0 is not in the range"),
        (("publish", "-q", "a", "--url", "http://x", "hi"), "must begin with amqp://"),
        (("publish", "-q", "a", "--url", "amqp://x:notaport", "hi"), "--url:"),
        (("get",), "Missing option '--queue'"),
        (("consume", "-q", "a", "--idle", "0"), "0.0 is not in the range"),
        (("up", "--nodes", "0"), "0 is not in the range"),
        (("up", "--base-port", "70000"), "--base-port (AMQP): ports 70000 to 70002"),
        (("node",), "Missing option '--config'"),
        (("nothing",), "No such command"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    result = quorate(*arguments, input="")
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_node_says_what_is_wrong_with_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nname = "n1"\n[cluster.nodes]\n')
    result = quorate("node", "--config", str(file))
    assert result.exit_code == 2
    assert f"Error: {file}: node.data_dir: missing" in result.stderr


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "No space left on device: '/data/n1/1.log'. Free space there and start the node"),
        (errno.EIO, "Input/output error: '/data/n1/1.log'\n"),
    ],
)
def test_a_node_says_where_its_disk_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def run(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number), "/data/n1/1.log")

    monkeypatch.setattr("cluster.process.run.run_node", run)
    (local,) = plan(1, tmp_path, 5672, 15672, {})
    local.file.parent.mkdir()
    local.file.write_text(local.text)
    local.file.chmod(0o600)
    result = quorate("node", "--config", str(local.file))
    assert result.exit_code == 1
    assert f"node n1: [Errno {number}] {said}" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[node]\nname = 'x'\n", "may hold the table [cluster] only"),
        ("[cluster.nodes.n1]\n", "cluster.nodes: `quorate up` sets the nodes"),
        ("[cluster.limits]\nchannels = 0\n", "cluster.limits.channels"),
        ("?", "Invalid statement"),
    ],
)
def test_mistakes_in_the_settings_of_up(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    result = quorate("up", "--data", str(tmp_path / "data"), "--config", str(file))
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "data").exists()


def test_keygen_writes_a_private_file_once(tmp_path: Path) -> None:
    file = tmp_path / "n1.key"
    result = quorate("keygen", str(file))
    assert result.exit_code == 0
    assert CurveKeys.from_secret(read_secret(file, "key")).public.decode() == result.stdout.strip()
    assert file.stat().st_mode & 0o777 == 0o600
    again = quorate("keygen", str(file))
    assert again.exit_code == 1
    assert f"{file} exists" in again.stderr
    nowhere = quorate("keygen", str(tmp_path / "none" / "n1.key"))
    assert nowhere.exit_code == 1
    assert "cannot be written: No such file or directory" in nowhere.stderr


def test_hash_password_asks_twice() -> None:
    result = quorate("hash-password", input="wonder\nwonder\n")
    assert result.exit_code == 0
    assert PasswordHash.parse(result.stdout.splitlines()[-1]).matches("wonder")


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a:b/c@d?\nnot this\n", encoding="utf-8")
    for url in ("amqp://me@host:1/", "amqp://me:other@host:1/"):
        found = parameters(url, file)
        assert (found.host, found.port) == ("host", 1)
        assert (found.credentials.username, found.credentials.password) == ("me", "a:b/c@d?")
    with pytest.raises(WrongUsageError, match="no user for the password"):
        parameters("amqp://host:1/", file)


def test_every_command_explains_itself() -> None:
    for command in ((), ("up",), ("node",), ("status",), ("publish",), ("consume",), ("get",)):
        result = quorate(*command, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")


def test_a_secret_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "n1.key"
    quorate("keygen", str(file))
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret(file, "secret key")
