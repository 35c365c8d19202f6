"""The web UI: the files of the folder that it was built into, read once and answered from memory.

No path of a request reaches the file system. A build without the folder says so, and its API works all the same.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from windlass.api.policy import Policy

FOLDER = Path(__file__).parent.parent / "_ui"
PAGE = "index.html"
# Everything from the server itself, and nothing inline. Workers are bound by the policy that comes with their script.
CONTENT_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The names of these files change with what is in them.
HASHED = "/assets/"
FOREVER = b"public, max-age=31536000, immutable"
ASK_FIRST = b"no-cache"
TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".ico": b"image/x-icon",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".webmanifest": b"application/manifest+json",
    ".woff2": b"font/woff2",
}
OTHER_TYPE = b"application/octet-stream"
COMPRESSED = frozenset({".css", ".html", ".js", ".json", ".svg", ".txt", ".webmanifest"})
MISSING = b"""This build of Windlass has no web UI.

Build it with `make ui` and start the server again. The API works without it, at /api/v1; /api/v1/openapi.json
tells all of it.
"""

Headers = list[tuple[bytes, bytes]]


class Document(Struct, frozen=True):
    """A file as it is answered; compressed too, where that makes it smaller."""

    headers: Headers
    body: bytes
    compressed: bytes | None = None

    @property
    def policy(self) -> Policy:
        """Anybody may load the page: what it shows, it asks the API for."""
        return Policy.PUBLIC

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, headers = self.body, self.headers
        if self.compressed is not None:
            headers = [*headers, (b"vary", b"accept-encoding")]
            if _takes_gzip(scope):
                body = self.compressed
                headers.append((b"content-encoding", b"gzip"))
        headers = [*headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class Ui(Struct, frozen=True):
    """Every file under its path, and the page that all paths of the UI get."""

    files: Mapping[str, Document]
    # None when the UI was not built.
    page: Document | None

    def page_for(self, scope: Scope) -> Document | None:
        """The page, for a path that it makes something of by itself: one that is no file and not the API's."""
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or (path + "/").startswith("/api/"):
            return None
        return None if "." in path.rpartition("/")[2] else self.page


def is_built(folder: Path = FOLDER) -> bool:
    """Whether there is a UI: a folder without a page is none."""
    return (folder / PAGE).is_file()


def read_ui(folder: Path = FOLDER) -> Ui:
    """The files of a folder, all of them."""
    found = sorted(path for path in folder.rglob("*") if path.is_file()) if is_built(folder) else []
    files = {f"/{path.relative_to(folder).as_posix()}": path for path in found}
    documents = {path: _document(path, file) for path, file in files.items()}
    page = documents.get(f"/{PAGE}")
    documents["/"] = page or Document([(b"content-type", TYPES[".txt"])], MISSING)
    return Ui(documents, page)


def _document(path: str, file: Path) -> Document:
    body = file.read_bytes()
    # Without a time in it, so that the same build is answered with the same bytes.
    compressed = gzip.compress(body, mtime=0) if file.suffix in COMPRESSED else body
    headers = [
        (b"content-type", TYPES.get(file.suffix, OTHER_TYPE)),
        (b"cache-control", FOREVER if path.startswith(HASHED) else ASK_FIRST),
        (b"content-security-policy", CONTENT_POLICY),
    ]
    return Document(headers, body, compressed if len(compressed) < len(body) else None)


def _takes_gzip(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for coding in value.lower().split(b","):
                kind, _, weight = coding.partition(b";")
                if kind.strip() in (b"gzip", b"*") and weight.replace(b" ", b"").rstrip(b"0.") != b"q=":
                    return True
    return False
