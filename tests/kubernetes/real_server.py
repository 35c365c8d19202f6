"""A real kube-apiserver with its etcd, from the folder that envtest's $KUBEBUILDER_ASSETS names."""

import asyncio
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import httpx2

from tests.kubernetes.role import documented_rules
from tests.servers import Server, _ends_with_parent, _spawn, free_port

START_SECONDS_MAX = 90
POLL_SECONDS = 0.1
GRANT_SECONDS_MAX = 30
WORKER = "windlass-worker"
# The first minor version that deletes finished Jobs by default.
TTL_BY_DEFAULT = 21


class RealServer(NamedTuple):
    """A running API server and its etcd."""

    url: str
    # That of the tests, which act as the cluster's controllers, and that of the workers.
    token: str
    worker_token: str
    api: Server
    etcd: Server

    def stop(self) -> None:
        self.api.stop()
        self.etcd.stop()


def start_real(programs: Path, folder: Path) -> RealServer:
    """Start both without controllers and kubelet, so that only tests change objects."""
    folder.mkdir(parents=True, exist_ok=True)
    token, worker_token = uuid.uuid4().hex, uuid.uuid4().hex
    etcd_url = f"http://127.0.0.1:{free_port()}"
    etcd_command = [str(programs / "etcd"), "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"]
    etcd_command += ["--listen-client-urls", etcd_url, "--advertise-client-urls", etcd_url]
    etcd_command += ["--listen-peer-urls", f"http://127.0.0.1:{free_port()}"]
    etcd = Server(
        etcd_url,
        _spawn([*_ends_with_parent("TERM"), *etcd_command], folder / "etcd.log", None),
        signal.SIGTERM,
    )
    (folder / "tokens.csv").write_text(
        f"{token},tester,tester,system:masters\n{worker_token},{WORKER},{WORKER}\n"
    )
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    url = f"https://127.0.0.1:{(port := free_port())}"
    command = [
        str(programs / "kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        f"--secure-port={port}",
    ]
    command += ["--bind-address=127.0.0.1", f"--cert-dir={folder / 'certificates'}"]
    command += [f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC"]
    command += [f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"]
    command += [
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]
    command += ["--disable-admission-plugins=ServiceAccount"]
    if _minor_version(programs) < TTL_BY_DEFAULT:
        # Otherwise the field is dropped silently, and finished Jobs remain.
        command += ["--feature-gates=TTLAfterFinished=true"]
    api = Server(
        url,
        _spawn([*_ends_with_parent("TERM"), *command], folder / "api.log", None),
        signal.SIGTERM,
    )
    server = RealServer(url, token, worker_token, api, etcd)
    _wait_for(server, folder)
    return server


def _minor_version(programs: Path) -> int:
    said = subprocess.run(
        [str(programs / "kube-apiserver"), "--version"], check=True, capture_output=True, text=True
    )
    return int(said.stdout.strip().rpartition("v")[2].split(".")[1])


def _wait_for(server: RealServer, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    headers = {"authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.url, headers=headers, verify=False) as http:
        while True:
            try:
                if http.get("/readyz").is_success:
                    return
            except httpx2.TransportError:
                pass
            if server.api.process.poll() is not None or time.monotonic() > deadline:
                server.stop()
                said = (folder / "api.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the API server does not come up: {said}")
            time.sleep(POLL_SECONDS)


async def new_namespace(http: httpx2.AsyncClient, worker_token: str) -> str:
    """Create a namespace for one test, in which workers have the documented permissions."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await http.post("/api/v1/namespaces", json=body)).raise_for_status()
    group = "rbac.authorization.k8s.io"
    place = f"/apis/{group}/v1/namespaces/{name}"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "Role",
        "metadata": {"name": WORKER},
        "rules": [rule.body for rule in documented_rules()],
    }
    (await http.post(f"{place}/roles", json=role)).raise_for_status()
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": WORKER},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": WORKER},
        "subjects": [{"apiGroup": group, "kind": "User", "name": WORKER}],
    }
    (await http.post(f"{place}/rolebindings", json=binding)).raise_for_status()
    await _until_granted(http, name, worker_token)
    return name


async def _until_granted(http: httpx2.AsyncClient, namespace: str, worker_token: str) -> None:
    """Wait until the server has loaded the binding."""
    headers = {"authorization": f"Bearer {worker_token}"}
    async with asyncio.timeout(GRANT_SECONDS_MAX):
        while True:
            jobs = await http.get(f"/apis/batch/v1/namespaces/{namespace}/jobs", headers=headers)
            if jobs.is_success:
                return
            await asyncio.sleep(POLL_SECONDS)
