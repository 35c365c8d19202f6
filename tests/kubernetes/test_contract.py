"""Containers on Kubernetes, with the simulated API server and with a real one if it is installed."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.handlers.handler_harness import running
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import Place
from windlass.core.changes import Task
from windlass.core.messages import Failed, Succeeded, TaskFinished, TaskStarted
from windlass.handlers.container.config import ContainerConfig
from windlass.worker import worker

NODE = {"image": "busybox:1", "command": ["sh", "-c", "true"]}


def output_in(finished: TaskFinished) -> Any:
    assert isinstance(finished.outcome, Succeeded), finished.outcome
    return msgspec.json.decode(finished.outcome.output)


def meta_in(finished: TaskFinished) -> Any:
    assert finished.outcome.meta is not None
    return msgspec.json.decode(finished.outcome.meta)


def only_pods(cluster: Cluster, count: int = 1) -> None:
    """Check that no Job, and so no attempt, had two pods."""
    assert [len(names) for names in cluster.created.values()] == [1] * count


async def test_a_container_runs_to_its_end(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await cluster.started()
        await cluster.end(pod, message='{"rows": 3}')
        output = await runner.output_of(task)

    assert output["exit_code"] == 0
    assert output["result"] == {"rows": 3}
    assert (output["runtime"], output["pod_name"]) == ("kubernetes", pod["metadata"]["name"])
    assert output["api_calls"] >= 4
    assert output["pod_start_seconds"] >= 0
    only_pods(cluster)


async def test_a_finished_job_is_removed_by_its_ttl(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await cluster.end(await cluster.started())
        await runner.output_of(task)

    (job,) = await cluster.jobs()
    await cluster.expire()

    assert job["spec"]["ttlSecondsAfterFinished"] == any_place.rules.ttl_seconds
    assert (await cluster.jobs(), await cluster.pods()) == ([], [])


async def test_the_job_has_labels_of_its_task_and_no_retries(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        await runner.publish(
            "container", {**NODE, "labels": {"team": "data"}}, timeout_seconds=90.0
        )
        job = await cluster.job()

    labels = job["metadata"]["labels"]
    assert (labels["job-id"], labels["app.kubernetes.io/managed-by"], labels["team"]) == (
        "j1",
        "windlass",
        "data",
    )
    assert job["metadata"]["annotations"]["windlass/task"] == "j1/n[0]#1"
    assert job["spec"]["template"]["metadata"]["labels"].items() >= labels.items()
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (0, 1, 1)
    assert spec["activeDeadlineSeconds"] == 120
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


async def test_the_allowed_fields_reach_the_pod(any_place: Place) -> None:
    params = {
        **NODE,
        "args": ["x"],
        "env": {
            "PLAIN": "1",
            "KEY": {"secret": "keys", "key": "api"},
            "URL": {"config_map": "urls", "key": "main"},
        },
        "env_from": [{"secret": "all", "prefix": "S_"}, {"config_map": "more", "optional": True}],
        "working_dir": "/data",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumes": [
            {"mount": "/data", "empty_dir": {"size_limit": "1Gi"}},
            {"mount": "/keys", "secret": "keys", "read_only": True},
            {"mount": "/conf", "config_map": "conf", "sub_path": "a"},
            {"mount": "/disk", "claim": "disk", "name": "disk"},
        ],
        "user": 1000,
        "service_account": "runner",
        "node_selector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "image_pull_secrets": ["registry"],
        "image_pull_policy": "IfNotPresent",
        "annotations": {"note": "a b"},
    }
    rules = replace(any_place.rules, service_accounts=["runner"])
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        await runner.publish("container", params)
        job = await any_place.cluster.job()

    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {one["name"]: one.get("value") or one["valueFrom"] for one in container["env"]}
    assert (env["PLAIN"], env["WINDLASS_JOB_ID"], env["WINDLASS_ATTEMPT"]) == ("1", "j1", "1")
    assert env["KEY"]["secretKeyRef"]["name"] == "keys"
    assert env["URL"]["configMapKeyRef"]["key"] == "main"
    assert [set(source) - {"prefix"} for source in container["envFrom"]] == [
        {"secretRef"},
        {"configMapRef"},
    ]
    assert (container["workingDir"], container["args"], container["imagePullPolicy"]) == (
        "/data",
        ["x"],
        "IfNotPresent",
    )
    assert container["resources"]["limits"] == {"memory": "128Mi"}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [
        "/data",
        "/keys",
        "/conf",
        "/disk",
    ]
    kinds = [set(volume) - {"name"} for volume in pod["volumes"]]
    assert kinds == [{"emptyDir"}, {"secret"}, {"configMap"}, {"persistentVolumeClaim"}]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("runner", True)
    assert (pod["nodeSelector"], pod["tolerations"][0]["key"]) == ({"disk": "ssd"}, "gpu")
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    confined = container["securityContext"]
    assert (
        confined["runAsUser"],
        confined["runAsNonRoot"],
        confined["allowPrivilegeEscalation"],
    ) == (
        1000,
        True,
        False,
    )
    assert confined["capabilities"] == {"drop": ["ALL"]}


async def test_another_exit_code_is_an_error_with_its_meta(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await cluster.end(await cluster.started(), 3)
        finished = await runner.finished(task)

    assert isinstance(finished.outcome, Failed)
    assert (finished.outcome.error.type, finished.outcome.error.retryable) == ("exit_code", True)
    assert "code 3" in finished.outcome.error.message
    meta = meta_in(finished)
    assert meta["exit_code"] == 3
    assert meta["api_calls"] >= 4
    assert meta["pod_start_seconds"] >= 0


async def test_exit_codes_may_be_declared_as_success(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "exit_codes": [0, 3]})
        await cluster.end(await cluster.started(), 3)
        output = await runner.output_of(task)

    assert output["exit_code"] == 3


@pytest.mark.parametrize(
    ("reason", "type_", "retryable"),
    [
        ("ErrImagePull", "image_pull_failed", True),
        ("ImagePullBackOff", "image_pull_failed", True),
        ("InvalidImageName", "container_config_invalid", False),
        ("CreateContainerConfigError", "container_config_invalid", False),
    ],
)
async def test_a_container_that_will_never_start_fails_early(
    any_place: Place, reason: str, type_: str, retryable: bool
) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await cluster.make_pod()
        await cluster.hold(pod, "ContainerCreating")
        await cluster.hold(pod, reason, "why it is so")
        await cluster.collected()
        error = await runner.error_of(task)

    assert (error.type, error.retryable) == (type_, retryable)
    assert f"{reason}: why it is so" in error.message
    only_pods(cluster)


async def test_a_container_that_does_not_start_in_time_is_removed(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "start_timeout": "500ms"})
        await cluster.hold(await cluster.make_pod(), "ContainerCreating", "no volume yet")
        await cluster.collected()
        error = await runner.error_of(task)

    assert (error.type, error.retryable) == ("pod_start_timeout", True)
    assert "0.5 s" in error.message
    only_pods(cluster)


async def test_a_job_without_a_pod_does_not_start_in_time_either(any_place: Place) -> None:
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "start_timeout": 0.3})
        await any_place.cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "pod_start_timeout"
    assert "it has no pod" in error.message


async def test_out_of_memory_has_its_own_error_type(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await cluster.end(await cluster.started(), 137, "OOMKilled")
        finished = await runner.finished(task)

    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.error.type == "oom_killed"
    assert "resources.limits.memory" in finished.outcome.error.message
    assert meta_in(finished)["exit_code"] == 137


async def test_an_eviction_has_its_own_error_type(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await cluster.evict(await cluster.started())
        error = await runner.error_of(task)

    assert (error.type, error.retryable) == ("pod_evicted", True)
    assert "low on resource" in error.message


async def test_a_pod_deleted_by_another_client_is_lost_and_its_job_removed(
    any_place: Place,
) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await cluster.started()
        await cluster.lose(pod)
        await cluster.collected()
        error = await runner.error_of(task)

    assert (error.type, error.retryable) == ("pod_lost", True)
    assert pod["metadata"]["name"] in error.message
    only_pods(cluster)


async def test_a_second_pod_of_a_job_is_not_waited_for(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await cluster.started()
        await cluster.started()
        await cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "pod_lost"
    assert "second pod" in error.message


async def test_a_job_deleted_by_another_client_is_lost(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await cluster.started()
        await cluster.delete_job((await cluster.job())["metadata"]["name"])
        await cluster.lose(pod)
        error = await runner.error_of(task)

    assert error.type == "pod_lost"
    assert "deleted by another client" in error.message
    assert await cluster.jobs() == []


async def test_the_clusters_own_deadline_is_a_timeout(any_place: Place) -> None:
    cluster = any_place.cluster
    rules = replace(any_place.rules, reconcile_seconds=1)
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        task = await runner.publish("container", NODE)
        pod = await cluster.started()
        await cluster.fail_job("DeadlineExceeded")
        await cluster.lose(pod)
        error = await runner.error_of(task)

    assert error.type == "timeout"


async def test_a_cancel_deletes_the_job(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await cluster.started()
        await runner.started(task)
        await runner.broker.cancel([task.task_id])
        await cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "cancelled"
    only_pods(cluster)


async def test_the_nodes_own_timeout_deletes_the_job(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE, timeout_seconds=1.0)
        await cluster.started()
        await cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "timeout"


async def test_the_pod_of_a_returned_task_is_adopted_by_the_next_worker(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as first:
        task = await first.publish("container", NODE)
        pod = await cluster.started()
        await first.started(task)
    async with running(container=any_place.defaults) as second:
        await second.broker.publish([task])
        await second.logged("adopted Job")
        await cluster.end(pod, message='{"ok": true}')
        output = await second.output_of(task)

    assert output["result"] == {"ok": True}
    assert output["pod_start_seconds"] >= 0
    assert len(await cluster.jobs()) == 1
    only_pods(cluster)


async def test_a_worker_that_adopts_a_finished_job_reads_its_result(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as first:
        task = await first.publish("container", NODE)
        await cluster.end(await cluster.started(), message='{"ok": true}')
        before = await first.output_of(task)
    async with running(container=any_place.defaults) as second:
        await second.broker.publish([task])
        after = await second.output_of(task)

    assert (after["result"], after["pod_name"]) == (before["result"], before["pod_name"])
    only_pods(cluster)


async def test_a_completed_job_whose_pod_was_deleted_succeeds(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as first:
        task = await first.publish("container", NODE)
        pod = await cluster.started()
        await cluster.end(pod)
        await first.output_of(task)
    await cluster.lose(pod)
    async with running(container=any_place.defaults) as second:
        await second.broker.publish([task])
        output = await second.output_of(task)

    assert output["exit_code"] == 0
    only_pods(cluster)


async def test_a_job_that_is_being_deleted_is_not_run_again(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first worker stops without waiting for the end of the pod.
    monkeypatch.setattr(worker, "KILL_SECONDS_MAX", 0.0)
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as first:
        task = await first.publish("container", NODE)
        await cluster.started()
        await first.started(task)
        await first.broker.cancel([task.task_id])
        await cluster.deleting((await cluster.job())["metadata"]["name"])
    async with running(container=any_place.defaults) as second:
        await second.broker.publish([task])
        # The next attempt may start when this one is reported, which is when its pod has stopped.
        assert await second.messages_for(0.5) == []
        await cluster.collected()
        error = await second.error_of(task)

    assert error.type == "pod_lost"
    assert "being deleted" in error.message
    only_pods(cluster)


async def test_a_job_of_another_owner_is_not_touched(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        first = await runner.publish("container", NODE)
        body = await cluster.job()
        await runner.broker.cancel([first.task_id])
        await cluster.collected()
        await runner.error_of(first)
    name = body["metadata"]["name"]
    theirs = {
        "metadata": {"name": name},
        "spec": {"template": {"spec": body["spec"]["template"]["spec"]}},
    }
    await cluster.put_job({"apiVersion": "batch/v1", "kind": "Job", **theirs})
    async with running(container=any_place.defaults) as runner:
        error = await runner.error("container", NODE)

    assert (error.type, error.retryable) == ("job_name_taken", False)
    assert [job["metadata"]["name"] for job in await cluster.jobs()] == [name]


async def test_each_attempt_has_its_own_job(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        names: set[str] = set()
        for attempt, index in ((1, 0), (2, 0), (1, 1)):
            task = Task(
                f"t{attempt}{index}",
                "job",
                "n",
                attempt,
                "container",
                msgspec.json.encode(NODE),
                index=index,
            )
            await runner.broker.publish([task])
            names.add((await cluster.job())["metadata"]["name"])
            await cluster.end(await cluster.started())
            await runner.output_of(task)
            await cluster.expire()

    assert len(names) == 3


async def test_the_error_contains_the_message_of_the_api_server(any_place: Place) -> None:
    async with running(container=any_place.defaults) as runner:
        error = await runner.error(
            "container", {**NODE, "volumes": [{"mount": "/a", "name": "Bad_Name", "claim": "c"}]}
        )

    assert (error.type, error.retryable, error.status) == ("kubernetes_refused", False, 422)
    assert "is invalid" in error.message
    assert await any_place.cluster.jobs() == []


async def test_the_first_container_of_a_pod_spec_is_the_task(any_place: Place) -> None:
    cluster = any_place.cluster
    rules = replace(any_place.rules, allow_pod_spec=True)
    beside = [{"name": "work", "image": "busybox"}, {"name": "proxy", "image": "busybox"}]
    pod_spec = {"containers": beside, "terminationGracePeriodSeconds": 5}
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        task = await runner.publish("container", {"pod_spec": pod_spec})
        pod = await cluster.started()
        await cluster.end_first(pod, 0)
        # The other container would never end by itself.
        await cluster.collected()
        output = await runner.output_of(task)

    assert output["exit_code"] == 0
    assert pod["spec"]["terminationGracePeriodSeconds"] == 5


async def test_a_container_has_started_when_its_pod_runs(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await cluster.make_pod()
        await cluster.hold(pod, "ContainerCreating")
        messages = await runner.messages_for(1.0)
        await cluster.start(pod)
        started = await runner.started(task)
        await cluster.end(pod)
        finished = await runner.finished(task)

    assert messages == []
    assert isinstance(started, TaskStarted)
    assert started.started_at == finished.started_at


async def test_many_containers_at_once_keep_apart(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        tasks = [
            await runner.publish("container", {**NODE, "env": {"N": str(at)}}) for at in range(8)
        ]
        for job in await cluster.jobs_of(len(tasks)):
            pod = await cluster.make_pod(job)
            await cluster.start(pod)
            number = next(
                one["value"] for one in pod["spec"]["containers"][0]["env"] if one["name"] == "N"
            )
            await cluster.end(pod, message=f"[{number}]", job=job)
        outputs = [output_in(finished) for finished in await runner.finished_all(tasks)]

    assert [output["result"] for output in outputs] == [[at] for at in range(8)]
    only_pods(cluster, 8)
