"""Stands in for a node in tests of the supervisor: `run([HTTP_PORT, BEHAVIOUR])`.

Behaviours: `ready` answers health checks; `deaf` ignores SIGTERM; `misconfigured` ends with exit
code 2 and `failing` with 1, both before they are ready; `waiting` is never ready.
"""

import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def run(arguments: list[str]) -> None:
    port, behaviour = int(arguments[0]), arguments[1]
    print(f"starting as {behaviour}", file=sys.stderr, flush=True)
    if behaviour in ("misconfigured", "failing"):
        print("something is wrong", file=sys.stderr)
        sys.exit(2 if behaviour == "misconfigured" else 1)

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ready = behaviour != "waiting"
            body = (
                b'{"ready": true, "reasons": []}' if ready else b'{"ready": false, "reasons": ["no leader"]}'
            )
            self.send_response(200 if ready else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """The log is for what tests look for."""

    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda *_: sys.exit(0))
    server = ThreadingHTTPServer(("127.0.0.1", port), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        signal.pause()
