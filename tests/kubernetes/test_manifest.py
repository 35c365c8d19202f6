"""Names, labels and pod specs: valid for all ids, and limited to what the administrator allows."""

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import ParamsInvalid
from windlass.handlers import builtin_handlers
from windlass.handlers.container.config import KubernetesConfig
from windlass.handlers.container.connection import RequestRateLimiter
from windlass.handlers.container.identity import AttemptIdentity, as_label
from windlass.handlers.container.manifest import NotAllowed, build
from windlass.handlers.container.params import (
    ContainerParams,
    parse_bytes,
    parse_result,
    parse_seconds,
)
from windlass.handlers.container.pods import Pod, disruption_error, start_error

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
RULES = KubernetesConfig()

identities = st.builds(
    AttemptIdentity,
    job_id=st.text(min_size=1, max_size=80),
    node_id=st.text(min_size=1, max_size=80),
    index=st.integers(0, 10**6),
    attempt=st.integers(1, 10**4),
    idempotency_key=st.text(max_size=5),
)


def read(**params: Any) -> ContainerParams:
    """Return the params as the handler parses them."""
    handler = builtin_handlers()["container"]
    return ContainerParams(**handler.check(msgspec.json.encode({"image": "busybox", **params})))


def built(rules: KubernetesConfig = RULES, **params: Any) -> Any:
    return build(read(**params), AttemptIdentity("job", "node", 0, 1, "key"), rules, 60.0).body


@given(identities)
def test_names_and_labels_are_valid_on_a_cluster(identity: AttemptIdentity) -> None:
    assert NAME.fullmatch(identity.name)
    assert all(LABEL.fullmatch(value) for value in identity.labels.values())


@given(identities, identities)
def test_two_attempts_never_share_a_name(one: AttemptIdentity, other: AttemptIdentity) -> None:
    assert (one.name == other.name) == (one.text == other.text)


@given(st.text(max_size=200))
def test_every_text_is_converted_to_a_valid_label(text: str) -> None:
    assert LABEL.fullmatch(as_label(text))


def test_the_labels_of_a_scheduled_run_are_its_id_and_its_slot() -> None:
    slot = datetime(2026, 11, 16, 3, 0, tzinfo=timezone(timedelta(hours=1)))

    run_id = "nightly:2026-11-16T02:00:00Z"
    labels = AttemptIdentity("job", "node", 0, 1, "key", run_id, slot).labels

    assert (labels["run-id"], labels["scheduled-at"]) == (
        "nightly-2026-11-16T02-00-00Z",
        "2026-11-16T02-00-00Z",
    )


def test_long_ids_stay_apart_as_labels() -> None:
    assert as_label("x" * 70 + "a") != as_label("x" * 70 + "b")


@pytest.mark.parametrize(
    "params",
    [
        {"privileged": True},
        {"host_network": True},
        {"host_pid": True},
        {"security_context": {"privileged": True}},
        {"init_containers": [{"image": "x"}]},
        {"namespace": "kube-system"},
        {"volumes": [{"mount": "/host", "host_path": "/"}]},
        {"volumes": [{"mount": "/host", "hostPath": {"path": "/"}}]},
        {"env": {"A": {"fieldRef": "spec"}}},
        {"runtime_class": "x"},
        {"priority_class": "system-node-critical"},
        {"resources": {"claims": []}},
    ],
)
def test_params_that_are_not_on_the_allow_list_are_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ParamsInvalid):
        read(**params)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"pod_spec": {"containers": [{"image": "x"}]}}, "kubernetes.allow_pod_spec"),
        ({"service_account": "admin"}, "kubernetes.service_accounts"),
        ({"user": 0}, "kubernetes.allow_root"),
    ],
)
def test_params_that_need_a_setting_are_rejected_without_it(
    params: dict[str, Any], words: str
) -> None:
    with pytest.raises(NotAllowed, match=words):
        built(**params)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"image": ""}, "image is missing"),
        ({"volumes": [{"mount": "data", "claim": "c"}]}, "absolute"),
        ({"volumes": [{"mount": "/data"}]}, "has nothing"),
        ({"volumes": [{"mount": "/data", "claim": "c", "secret": "s"}]}, "has secret and claim"),
        ({"env": {"A": {"key": "k"}}}, "env.A has nothing"),
        ({"env_from": [{}]}, r"env_from\[0\] has nothing"),
        ({"labels": {"windlass/task": "x"}}, "windlass/task"),
        ({"labels": {"job-id": "x"}}, "job-id"),
        ({"annotations": {"windlass/task": "x"}}, "windlass/task"),
        ({"env": {f"N{at}": "" for at in range(101)}}, "101 entries"),
    ],
)
def test_invalid_params_are_rejected_with_a_hint(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamsInvalid, match=words):
        built(**params)


def test_a_pod_without_an_account_gets_no_token_and_no_rights() -> None:
    pod = built()["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_pod_spec_is_used_unchanged_if_allowed() -> None:
    given = {
        "containers": [{"name": "work", "image": "x", "env": [{"name": "A", "value": "1"}]}],
        "hostNetwork": True,
    }

    body = build(
        ContainerParams(pod_spec=given),
        AttemptIdentity("job", "node", 0, 1, "key"),
        KubernetesConfig(allow_pod_spec=True),
        60.0,
    ).body

    pod = body["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["restartPolicy"]) == (True, "Never")
    assert pod["containers"][0]["env"][-1] == {"name": "A", "value": "1"}
    assert "WINDLASS_JOB_ID" in {one["name"] for one in pod["containers"][0]["env"]}
    assert "windlass/task" in body["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), ("1k", 1000), ("1Ki", 1024), ("1.5Gi", 3 * 2**29), (2048, 2048), ("2M", 2 * 10**6)],
)
def test_quantities_are_read_as_the_cluster_reads_them(text: str | int, count: int) -> None:
    assert parse_bytes(text, "memory") == count


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "Gi", "0", "1m", "١"])
def test_other_quantities_are_rejected(text: str) -> None:
    with pytest.raises(ParamsInvalid, match="memory"):
        parse_bytes(text, "memory")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        (90, 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("90", 90.0),
        ("1d", 86400.0),
    ],
)
def test_durations_follow_the_workflow_language(text: str | int, seconds: float) -> None:
    assert parse_seconds(text, "start_timeout") == seconds


@pytest.mark.parametrize(
    ("message", "line", "result"),
    [
        ('{"a": 1}', "[2]", {"a": 1}),
        ("12", "", 12),
        ("no json", "[2]", [2]),
        ("", '{"a": 1}', {"a": 1}),
        ("", "12", None),
        ("", "[" * 10_000, None),
        ('{"cut": ', "plain", None),
    ],
)
def test_the_result_is_the_file_or_the_last_line_or_nothing(
    message: str, line: str, result: object
) -> None:
    assert parse_result(message, line) == result


def pod(**status: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)


@pytest.mark.parametrize(
    ("status", "type_"),
    [
        ({"phase": "Failed", "reason": "Evicted"}, "pod_evicted"),
        ({"phase": "Failed", "reason": "Preempting"}, "pod_evicted"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, "pod_evicted"),
        ({"phase": "Failed", "reason": "NodeLost"}, "node_lost"),
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
                ]
            },
            "node_lost",
        ),
        (
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "SomethingNew"}
                ]
            },
            "pod_evicted",
        ),
        ({"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "X"}]}, None),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "timeout"),
        ({"phase": "Failed"}, None),
    ],
)
def test_disruptions_by_the_cluster_are_distinguished_from_program_failures(
    status: dict[str, Any], type_: str | None
) -> None:
    assert getattr(disruption_error(pod(**status)), "type", None) == type_


def test_an_init_container_that_cannot_start_fails_the_pod() -> None:
    waiting = {
        "name": "init",
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
    }

    error = start_error(pod(phase="Pending", initContainerStatuses=[waiting]))

    assert "no such image" in str(error)


def test_a_root_image_gets_a_hint_if_root_is_not_allowed() -> None:
    reason = {
        "reason": "CreateContainerConfigError",
        "message": "container has runAsNonRoot and image will run as root",
    }

    error = start_error(pod(containerStatuses=[{"name": "main", "state": {"waiting": reason}}]))

    assert "kubernetes.allow_root" in str(error)


@given(st.lists(st.floats(0, 2), max_size=60), st.integers(1, 10), st.floats(0.5, 50))
def test_no_window_sees_more_requests_than_burst_and_rate_allow(
    gaps: list[float], burst: int, per_second: float
) -> None:
    clock = [0.0]
    pace = RequestRateLimiter(per_second, burst, lambda: clock[0])
    sent: list[float] = []
    for gap in gaps:
        clock[0] += gap
        sent.append(clock[0] + pace.reserve())

    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + (sent[last] - sent[first]) * per_second + 1e-6
