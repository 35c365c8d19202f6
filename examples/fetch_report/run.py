"""Serve orders on a free local port, reject the first request, and run the workflow against the server."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORKFLOW = Path(__file__).with_name("workflow.yaml")
ORDERS = [
    {"customer": "Ada", "amount": 30},
    {"customer": "Grace", "amount": 75},
    {"customer": "Ada", "amount": 60},
    {"customer": "Alan", "amount": 20},
]


class Orders(BaseHTTPRequestHandler):
    """Respond 503 once, to show the retry, and with the orders from then on."""

    rejected = threading.Event()

    def do_GET(self) -> None:
        """Respond to one request."""
        first = not self.rejected.is_set()
        self.rejected.set()
        body = json.dumps({"orders": [] if first else ORDERS}).encode()
        self.send_response(503 if first else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the output of the workflow is enough."""


def main() -> int:
    """Run the workflow against the server and return its exit code. Arguments are passed to `windlass run`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Orders) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/orders"
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
