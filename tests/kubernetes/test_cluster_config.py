"""Cluster configuration: kubeconfig, credential plugins, the service account of the worker, or none."""

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from msgspec.structs import replace

from tests.handlers.handler_harness import running
from tests.kubernetes.api_server import TOKEN, ApiServer, serving, write_kubeconfig
from tests.kubernetes.conftest import Place
from windlass.core.messages import TaskError
from windlass.handlers.container import job_creation
from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.cluster_config import connect
from windlass.handlers.container.config import ContainerConfig, KubernetesConfig
from windlass.handlers.container.errors import KubernetesRefused

NODE = {"image": "busybox"}


async def error_with(rules: KubernetesConfig) -> TaskError:
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        return await runner.error("container", NODE)


def with_user(config: str | None, **user: Any) -> None:
    assert config is not None
    document = msgspec.json.decode(Path(config).read_bytes())
    document["users"][0]["user"] = user
    Path(config).write_bytes(msgspec.json.encode(document))


def plugin(version: str, code: str) -> dict[str, Any]:
    return {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": sys.executable,
        "args": ["-c", code],
    }


async def test_the_namespace_of_the_settings_overrides_that_of_the_context(place: Place) -> None:
    link = connect(replace(place.rules, namespace="other"))
    await link.aclose()

    assert link.namespace == "other"


async def test_a_wrong_token_is_rejected_permanently(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_creation, "DENIED_SECONDS_MAX", 0.2)
    with_user(place.rules.kubeconfig, token="wrong")

    error = await error_with(place.rules)

    assert (error.type, error.retryable, error.status) == ("kubernetes_refused", False, 401)


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
async def test_a_credential_plugin_provides_the_token(place: Place, version: str) -> None:
    said = {"kind": "ExecCredential", "status": {"token": TOKEN}}
    with_user(
        place.rules.kubeconfig,
        exec=plugin(version, f"print('''{msgspec.json.encode(said).decode()}''')"),
    )
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.end(await place.cluster.started())
        output = await runner.output_of(task)

    assert output["exit_code"] == 0


async def test_the_error_names_a_credential_plugin_that_fails(place: Place) -> None:
    with_user(place.rules.kubeconfig, exec=plugin("v1beta1", "raise SystemExit('no login')"))

    error = await error_with(place.rules)

    assert (error.type, error.retryable) == ("kubernetes_unusable", False)
    assert "no login" in error.message


async def test_the_error_names_a_missing_kubeconfig(tmp_path: Path) -> None:
    error = await error_with(KubernetesConfig(kubeconfig=str(tmp_path / "none")))

    assert (error.type, error.retryable) == ("kubernetes_unusable", False)
    assert str(tmp_path / "none") in error.message


async def test_the_error_names_an_unknown_context(place: Place) -> None:
    error = await error_with(replace(place.rules, context="staging"))

    assert error.type == "kubernetes_unusable"
    assert "staging" in error.message


async def test_an_unresolvable_server_is_retryable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.handlers.container.connection.PAUSE_SECONDS_MIN", 0.001)
    monkeypatch.setattr("windlass.handlers.container.connection.BACKGROUND_SECONDS_MAX", 0.1)
    config = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:9", TOKEN, "shop")

    error = await error_with(KubernetesConfig(kubeconfig=str(config), start_timeout_seconds=0.3))

    assert (error.type, error.retryable) == ("kubernetes_unavailable", True)


async def test_without_the_client_the_error_names_the_extra(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightkube.config.client_adapter", None)

    error = await error_with(place.rules)

    assert (error.type, error.retryable) == ("kubernetes_unusable", False)
    assert "pip install 'windlass[kubernetes]'" in error.message


def test_the_kubernetes_client_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, windlass.handlers as h; h.builtin_handlers(); print({'lightkube', 'httpx2'} & {*sys.modules})"

    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert said == "set()\n"


def certificate(folder: Path) -> ssl.SSLContext:
    """A server certificate, next to the service account files of a pod."""
    key, authority = folder / "key.pem", folder / "ca.crt"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(authority)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, key)
    return context


def account(
    folder: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch, token: str = TOKEN
) -> str:
    (folder / "token").write_text(token)
    (folder / "namespace").write_text("shop\n")
    place = urlsplit(server.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(place.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(place.port))
    return str(folder)


async def test_a_worker_inside_the_cluster_uses_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(certificate(tmp_path)) as server:
        link = connect(KubernetesConfig(), account_folder=account(tmp_path, server, monkeypatch))
        found = await KubernetesApi(link).job("none")
        await link.aclose()

    assert found is None
    assert link.namespace == "shop"
    assert [call.path for call in server.calls] == ["/apis/batch/v1/namespaces/shop/jobs/none"]


async def test_a_renewed_token_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(certificate(tmp_path)) as server:
        link = connect(KubernetesConfig(), account_folder=account(tmp_path, server, monkeypatch))
        api = KubernetesApi(link)
        await api.job("none")
        server.token = "renewed"
        (tmp_path / "token").write_text("renewed")
        found = await api.job("none")
        await link.aclose()

    assert found is None


async def test_a_server_with_another_certificate_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    certificate(tmp_path / "other")
    async with serving(certificate(tmp_path)) as server:
        folder = account(tmp_path / "other", server, monkeypatch)
        monkeypatch.setattr("windlass.handlers.container.connection.PAUSE_SECONDS_MIN", 0.001)
        link = connect(KubernetesConfig(), account_folder=folder)
        with pytest.raises(Exception, match="certificate verify failed"):
            await KubernetesApi(link).job("none")
        await link.aclose()

    assert server.calls == []


async def test_the_error_contains_the_servers_message(place: Place) -> None:
    link = connect(replace(place.rules, namespace="a/b"))
    with pytest.raises(KubernetesRefused, match="404 the server could not find"):
        await KubernetesApi(link).pods("none")
    await link.aclose()
