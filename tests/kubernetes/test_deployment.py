"""The manifests and the image in deploy/, as far as containers need them."""

from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.role import documented_rules

DEPLOY = Path(__file__).parents[2] / "deploy"


def manifests(kind: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / "windlass.yaml").read_text())
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def test_the_workers_have_an_account_with_the_documented_permissions() -> None:
    worker = manifests("Deployment")["windlass-worker"]["spec"]["template"]["spec"]
    account = worker["serviceAccountName"]
    (binding,) = manifests("RoleBinding").values()
    role = manifests("Role")[binding["roleRef"]["name"]]

    assert worker.get("automountServiceAccountToken", True)
    assert account in manifests("ServiceAccount")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert role["rules"] == [rule.body for rule in documented_rules()]


def test_the_image_can_run_containers_on_kubernetes() -> None:
    installed = (DEPLOY / "Dockerfile").read_text().partition('".[')[2].partition("]")[0]

    assert "kubernetes" in installed.split(",")
