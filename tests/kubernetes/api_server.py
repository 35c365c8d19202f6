"""A simulated Kubernetes API server with Jobs, pods, watches, logs and injected faults."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tests.kubernetes.objects import Object, Objects, Refused, matches
from tests.kubernetes.role import allows, documented_rules

# The worker's token, which has the permissions of the documented Role, and that of the cluster's own controllers.
TOKEN = "a-token"
CONTROLLER_TOKEN = "the-token-of-the-controllers"
ROUTE = re.compile(
    r"/(?:api/v1|apis/batch/v1)/namespaces/(?P<ns>[^/]+)/(?P<kind>pods|jobs|events)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>status|log))?"
)


class Call(NamedTuple):
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


class Fault(NamedTuple):
    """A response status, or None to close the connection after the request took effect."""

    status: int | None
    headers: dict[str, str]


class Log:
    """The log of a container, with timestamps, and whether it has ended."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.over = False
        self.changed = asyncio.Event()
        self._at = datetime.now(UTC)

    def write(self, *lines: str) -> None:
        for line in lines:
            self._at = max(self._at + timedelta(microseconds=1), datetime.now(UTC))
            self.lines.append((self._at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z"), line))
        self._notify()

    def end(self) -> None:
        self.over = True
        self._notify()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class ApiServer:
    """An API server on loopback. Jobs and pods do not change by themselves; see `Cluster`."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.calls: list[Call] = []
        self.url = ""
        self.token = TOKEN
        # The permissions of the worker's token.
        self.rules = documented_rules()
        # True for a moment after a start: the rules are not loaded, and every request of the worker is denied.
        self.denies_all = False
        # Cleared while a test delays all requests.
        self.open = asyncio.Event()
        self.open.set()
        # Requests for logs get no answer.
        self.hangs_logs = False
        self._faults: list[tuple[str, str, Fault]] = []
        self._logs: dict[str, Log] = {}
        self._streams: dict[asyncio.StreamWriter, str] = {}
        self._connections: set[asyncio.StreamWriter] = set()

    def log(self, pod: str) -> Log:
        return self._logs.setdefault(pod, Log())

    def fail(
        self, method: str, path: str, status: int | None, times: int = 1, **headers: str
    ) -> None:
        """Fail the next requests whose path contains a text."""
        self._faults += [(method, path, Fault(status, headers))] * times

    @property
    def streams(self) -> list[str]:
        """Return the kinds of open streams."""
        return list(self._streams.values())

    @property
    def faults_left(self) -> int:
        return len(self._faults)

    def count(self, method: str, path: str, *, watch: bool | None = None) -> int:
        """Return the number of matching requests."""
        found = [call for call in self.calls if call.method == method and path in call.path]
        return len([call for call in found if watch is None or call.is_watch is watch])

    def drop_streams(self, kind: str = "watch") -> int:
        """Close all streams of a kind ('watch' or 'log') and return their number."""
        found = [writer for writer, what in self._streams.items() if what == kind]
        for writer in found:
            writer.transport.abort()
            self._streams.pop(writer, None)
        return len(found)

    def restart(self) -> None:
        """Lose all connections, and deny every request of the worker until `ready`."""
        self.denies_all = True
        self.hang_up()

    def ready(self) -> None:
        """Load the access rules, as a server does a moment after its start."""
        self.denies_all = False

    def hang_up(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                call, headers = await _read(reader)
                self.calls.append(call)
                await self.open.wait()
                await self._answer(call, headers, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._streams.pop(writer, None)
            self._connections.discard(writer)
            writer.close()

    async def _answer(
        self, call: Call, headers: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        fault = self._take_fault(call)
        if fault is not None and fault.status is not None:
            refused = Refused(fault.status, "Fault", "injected fault")
            await _send(writer, fault.status, _status(refused), **fault.headers)
            return
        try:
            found = ROUTE.fullmatch(call.path)
            if found is None:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            self._authorize(call, headers.get("authorization", ""), found)
            if found["sub"] == "log" and self.hangs_logs:
                await asyncio.Event().wait()
            if found["sub"] == "log":
                await self._send_log(call, found["ns"], found["name"], writer)
                return
            if call.is_watch:
                await self._send_watch(call, f"{found['kind']}/{found['ns']}", writer)
                return
            code, answer = self._do(call, found)
        except Refused as refused:
            code, answer = refused.code, _status(refused)
        if fault is not None:
            writer.transport.abort()
            raise ConnectionError("injected fault")
        await _send(writer, code, answer)

    def _authorize(self, call: Call, given: str, found: "re.Match[str]") -> None:
        """Allow controllers everything, and the worker what the documented Role allows."""
        if given == f"Bearer {CONTROLLER_TOKEN}":
            return
        if given != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        resource = "/".join(part for part in (found["kind"], found["sub"]) if part)
        verb = _verb(call, found["name"])
        if self.denies_all or not allows(self.rules, resource, verb):
            raise Refused(
                403,
                "Forbidden",
                f'{resource} is forbidden: User "tester" cannot {verb} resource "{resource}" '
                f'in the namespace "{found["ns"]}"',
            )

    def _do(self, call: Call, found: "re.Match[str]") -> tuple[int, Object]:
        kind, namespace, name = found["kind"], found["ns"], found["name"]
        body: Any = msgspec.json.decode(call.body) if call.body else {}
        match call.method, name:
            case "POST", None:
                return 201, self.objects.create(kind, namespace, body)
            case "GET", None:
                items = self.objects.select(
                    kind,
                    namespace,
                    call.query.get("labelSelector", ""),
                    call.query.get("fieldSelector", ""),
                )
                return 200, {
                    "metadata": {"resourceVersion": str(self.objects.version)},
                    "items": items,
                }
            case "GET", _:
                return 200, self.objects.get(kind, namespace, name)
            case "PATCH", _:
                stored = self.objects.patch(
                    kind, namespace, name, body, status=found["sub"] == "status"
                )
                statuses = stored["status"].get("containerStatuses") or [{}]
                if (
                    "terminated" in (statuses[0].get("state") or {})
                    or stored["status"].get("phase") == "Failed"
                ):
                    self.log(name).end()
                return 200, stored
            case "DELETE", _:
                self.log(name).end()
                return 200, self.objects.delete(kind, namespace, name, body)
        raise Refused(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )

    async def _send_watch(self, call: Call, place: str, writer: asyncio.StreamWriter) -> None:
        self._streams[writer] = "watch"
        since = int(call.query.get("resourceVersion") or 0)
        loop = asyncio.get_running_loop()
        until = loop.time() + float(call.query.get("timeoutSeconds") or 1800)
        await _begin(writer, "application/json")
        while loop.time() < until:
            if since < self.objects.oldest:
                expired = Refused(
                    410, "Expired", f"too old resource version: {since} ({self.objects.oldest})"
                )
                await _send_part(writer, {"type": "ERROR", "object": _status(expired)})
                break
            changed = self.objects.changed
            for version, event, where, stored in list(self.objects.history):
                if (
                    version > since
                    and where == place
                    and matches(stored, call.query.get("labelSelector", ""))
                ):
                    await _send_part(writer, {"type": event, "object": stored})
                since = max(since, version)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, until - loop.time())):
                    await changed.wait()
        await _finish(writer)
        self._streams.pop(writer, None)

    async def _send_log(
        self, call: Call, namespace: str, name: str, writer: asyncio.StreamWriter
    ) -> None:
        pod = self.objects.get("pods", namespace, name)
        states = {
            one["name"]: one.get("state") or {}
            for one in pod["status"].get("containerStatuses") or []
        }
        container = call.query.get("container", "")
        if not {"running", "terminated"} & set(states.get(container, {})):
            raise Refused(
                400, "BadRequest", f'container "{container}" in pod "{name}" is waiting to start'
            )
        self._streams[writer] = "log"
        log, error_message = self.log(name), 0
        if "tailLines" in call.query:
            error_message = max(0, len(log.lines) - int(call.query["tailLines"]))
        await _begin(writer, "text/plain")
        while True:
            changed = log.changed
            for at, line in log.lines[error_message:]:
                error_message += 1
                if at[:19] < call.query.get("sinceTime", "")[:19]:
                    continue
                await _send_part(
                    writer, f"{at} {line}\n" if call.query.get("timestamps") else f"{line}\n"
                )
            if log.over or call.query.get("follow") != "true":
                break
            await changed.wait()
        await _finish(writer)
        self._streams.pop(writer, None)

    def _take_fault(self, call: Call) -> Fault | None:
        for rule in self._faults:
            method, path, fault = rule
            if method == call.method and path in call.path:
                self._faults.remove(rule)
                return fault
        return None


def _verb(call: Call, name: str | None) -> str:
    if call.method == "GET" and name is None:
        return "watch" if call.is_watch else "list"
    return {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[call.method]


async def _read(reader: asyncio.StreamReader) -> tuple[Call, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return Call(method, parts.path, dict(parse_qsl(parts.query)), body), headers


async def _send(writer: asyncio.StreamWriter, code: int, answer: Object, **headers: str) -> None:
    body = msgspec.json.encode(answer)
    lines = [f"HTTP/1.1 {code} X", "content-type: application/json", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()


async def _begin(writer: asyncio.StreamWriter, kind: str) -> None:
    writer.write(
        f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    )
    await writer.drain()


async def _send_part(writer: asyncio.StreamWriter, part: object) -> None:
    body = part.encode() if isinstance(part, str) else msgspec.json.encode(part) + b"\n"
    writer.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")
    await writer.drain()


async def _finish(writer: asyncio.StreamWriter) -> None:
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _status(refused: Refused) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": refused.message,
        "reason": refused.reason,
        "code": refused.code,
    }


def write_kubeconfig(path: Path, url: str, token: str, namespace: str, **cluster: Any) -> Path:
    """Write a configuration file for one cluster and one user."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "tester", "user": {"token": token}}],
        "contexts": [
            {
                "name": "test",
                "context": {"cluster": "test", "user": "tester", "namespace": namespace},
            }
        ],
        "current-context": "test",
    }
    path.write_bytes(msgspec.json.encode(document))
    return path


@asynccontextmanager
async def serving(secured: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    """Start a server for one test."""
    server = ApiServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 22, ssl=secured)
    scheme = "http" if secured is None else "https"
    server.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        server.open.set()
        listening.close()
        server.hang_up()
