"""Serve a bakery on a free local port and run the workflow that polls it until an order is ready."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

WORKFLOW = Path(__file__).with_name("workflow.yaml")
BAKED_AFTER = 4


class Bakery(BaseHTTPRequestHandler):
    """Accept one order, and report it as ready after a few polls."""

    asked = count(1)

    def do_POST(self) -> None:
        """Accept an order."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._respond(201, {"id": "loaf-1"})

    def do_GET(self) -> None:
        """Return the status of the order."""
        times = next(self.asked)
        if times < BAKED_AFTER:
            self._respond(200, {"status": "in the oven"})
        else:
            self._respond(200, {"status": "ready", "bread": "rye", "asked": times})

    def _respond(self, status: int, value: dict[str, object]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the output of the workflow is enough."""


def main() -> int:
    """Run the workflow against the server and return its exit code. Arguments are passed to `windlass run`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Bakery) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        command = [
            sys.executable,
            "-m",
            "windlass",
            "run",
            str(WORKFLOW),
            "-i",
            f"url={url}",
            *sys.argv[1:],
        ]
        try:
            return subprocess.run(command, check=False).returncode
        finally:
            server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
