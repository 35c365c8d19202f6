"""The web UI: the files of its build, read once and served from memory.

No path of a request reaches the file system. Without a build, `/` says how to make one and the API works as usual.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent.parent / "_ui"
PAGE = "index.html"
# Only resources of this server, nothing inline. Workers are bound by the policy of their script's response.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# File names in this folder contain a hash of the content.
HASHED = "/assets/"
CACHE_IMMUTABLE = "public, max-age=31536000, immutable"
CACHE_REVALIDATE = "no-cache"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
OTHER_TYPE = "application/octet-stream"
COMPRESSED = frozenset({".css", ".html", ".js", ".json", ".svg", ".txt", ".webmanifest"})
NOT_BUILT = b"""This build of Windlass has no web UI.

Build it with `make ui` and restart the server. The API works without it at /api/v1; /api/v1/openapi.json
describes it.
"""


class UiFile(Struct, frozen=True):
    """A file of the UI, also compressed if that makes it smaller."""

    headers: Mapping[str, str]
    body: bytes
    compressed: bytes | None = None

    def response(self, request: Request) -> Response:
        """Return the file, compressed if the client accepts that."""
        headers = dict(self.headers)
        body = self.body
        if self.compressed is not None:
            headers["vary"] = "accept-encoding"
            if _accepts_gzip(request):
                headers["content-encoding"] = "gzip"
                body = self.compressed
        headers["content-length"] = str(len(body))
        if request.method == "HEAD":
            body = b""
        return Response(body, headers=headers)


class Ui(Struct, frozen=True):
    """The files of the UI by path, and the page that all its other paths show."""

    files: Mapping[str, UiFile]
    # None if the UI was not built.
    page: UiFile | None

    def response(self, request: Request) -> Response | None:
        """Return the file or page at the path of a request; None for paths outside the UI."""
        path: str = request.scope["path"]
        if request.method not in ("GET", "HEAD"):
            return None
        file = self.files.get(path)
        if file is None and not _is_api_path(path) and not _is_file_path(path):
            file = self.page
        if file is None:
            return None
        return file.response(request)


def is_built(folder: Path = FOLDER) -> bool:
    """Return whether a folder contains a build of the UI."""
    return (folder / PAGE).is_file()


def read_ui(folder: Path = FOLDER) -> Ui:
    """Read all files of a build."""
    files: dict[str, UiFile] = {}
    if is_built(folder):
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                path = f"/{file.relative_to(folder).as_posix()}"
                files[path] = _read_file(path, file)
    page = files.get(f"/{PAGE}")
    files["/"] = page or UiFile({"content-type": TYPES[".txt"]}, NOT_BUILT)
    return Ui(files, page)


def _read_file(path: str, file: Path) -> UiFile:
    body = file.read_bytes()
    headers = {
        "content-type": TYPES.get(file.suffix, OTHER_TYPE),
        "cache-control": CACHE_IMMUTABLE if path.startswith(HASHED) else CACHE_REVALIDATE,
        "content-security-policy": CONTENT_POLICY,
    }
    if file.suffix not in COMPRESSED:
        return UiFile(headers, body)
    # Without a time stamp, so that the same build gives the same bytes.
    compressed = gzip.compress(body, mtime=0)
    if len(compressed) >= len(body):
        return UiFile(headers, body)
    return UiFile(headers, body, compressed)


def _is_api_path(path: str) -> bool:
    return (path + "/").startswith("/api/")


def _is_file_path(path: str) -> bool:
    return "." in path.rpartition("/")[2]


def _accepts_gzip(request: Request) -> bool:
    for coding in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = coding.partition(";")
        is_refused = weight.replace(" ", "").rstrip("0.") == "q="
        if name.strip() in ("gzip", "*") and not is_refused:
            return True
    return False
