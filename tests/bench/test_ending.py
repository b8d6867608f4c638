"""A bench that is ended by a signal leaves no node behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from bench.brokers import alive
from cluster.cli.local.layout import is_free
from cluster.config.addresses import Address
from tests.processes.nodes import UP_PORTS, own_part, until
from tests.structure.tree import ROOT

BENCH = """
import signal, sys
from pathlib import Path
from bench.__main__ import end_on_signal
from bench.quorate import Quorate

signal.signal(signal.SIGTERM, end_on_signal)
port = int(sys.argv[2])
cluster = Quorate(Path(sys.argv[1]) / "quorate", base_port=port, http_port=port + 1, nodes=1)
try:
    cluster.start()
    print(cluster.pid(0), flush=True)
    signal.pause()
finally:
    cluster.stop()
"""


def test_a_signal_stops_the_nodes_and_removes_their_data(tmp_path: Path) -> None:
    ports = own_part(UP_PORTS)
    port = next(port for port in ports if all(is_free(Address("127.0.0.1", one)) for one in (port, port + 1)))
    command = [sys.executable, "-c", BENCH, str(tmp_path), str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        node = int(bench.stdout.readline())
        bench.send_signal(signal.SIGTERM)
        assert bench.wait() == 128 + signal.SIGTERM
    until(lambda: not alive(node), "the node is gone")
    assert not (tmp_path / "quorate").exists()
