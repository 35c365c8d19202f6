"""Serve users page by page on a free local port, reject one page once, and run the workflow against the server."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

WORKFLOW = Path(__file__).with_name("workflow.yaml")
TEAMS = ("blue", "green", "red")
USERS = [
    {"id": number, "name": f"user {number}", "team": TEAMS[number % len(TEAMS)]}
    for number in range(1, 96)
]
REJECTED_PAGE = 4


class Users(BaseHTTPRequestHandler):
    """Respond with one page of users and whether there are more."""

    rejected = threading.Event()

    def do_GET(self) -> None:
        """Respond with one page. Reject one of them the first time, to show a retry between pages."""
        query = parse_qs(urlsplit(self.path).query)
        page, size = int(query["page"][0]), int(query["size"][0])
        reject = page == REJECTED_PAGE and not self.rejected.is_set()
        if reject:
            self.rejected.set()
        found = USERS[(page - 1) * size : page * size]
        response = {"data": found, "paging": {"page": page, "hasMore": page * size < len(USERS)}}
        body = json.dumps({} if reject else response).encode()
        self.send_response(503 if reject else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the output of the workflow is enough."""


def main() -> int:
    """Run the workflow against the server and return its exit code. Arguments are passed to `windlass run`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Users) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/users"
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
