"""Params of container nodes that a cluster would reject."""

from typing import Any

import pytest

from windlass.core.errors import DefinitionInvalid
from windlass.spec import read_definition


def problems_of(**params: Any) -> list[str]:
    node = {"handler": "container", "params": {"image": "a", **params}}
    try:
        read_definition({"workflow_id": "flow", "nodes": {"a": node}})
    except DefinitionInvalid as error:
        return [f"{problem.path}: {problem.message}" for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"labels": {"team": "data science"}}, "labels.team"),
        ({"labels": {"team": "x" * 64}}, "labels.team"),
        ({"labels": {"-team": "data"}}, "labels.-team"),
        ({"labels": {"Example.com/team": "data"}}, "labels."),
        ({"annotations": {"a b": "data"}}, "annotations.a b"),
        ({"node_selector": {"disk": "ssd!"}}, "node_selector.disk"),
        ({"service_account": "Worker"}, "service_account"),
        ({"image_pull_secrets": ["registry_key"]}, "image_pull_secrets[0]"),
        ({"env": {"KEY": {"secret": "Train_Keys", "key": "api"}}}, "env.KEY.secret"),
        ({"env_from": [{"config_map": "a/b"}]}, "env_from[0].config_map"),
        ({"volumes": [{"mount": "/a", "name": "Bad_Name", "claim": "c"}]}, "volumes[0].name"),
        ({"volumes": [{"mount": "/a", "claim": "C"}]}, "volumes[0].claim"),
        ({"resources": {"limits": {"memory": "4 GB"}}}, "resources.limits.memory"),
        ({"resources": {"requests": {"cpu": -1}}}, "resources.requests.cpu"),
    ],
)
def test_a_value_that_a_cluster_would_reject_is_a_problem_of_the_document(
    params: dict[str, Any], place: str
) -> None:
    (problem,) = problems_of(**params)

    assert problem.startswith(f"nodes.a.params.{place}")
    assert "invalid" in problem


def test_valid_and_templated_values_are_accepted() -> None:
    params = {
        "labels": {"example.com/team": "data_1.x", "empty": "", "day": "{{ input.day }}"},
        "annotations": {"note": "any text at all!"},
        "node_selector": {"kubernetes.io/arch": "amd64"},
        "service_account": "{{ input.account }}",
        "image_pull_secrets": ["registry-key.1"],
        "env": {"A": "x y", "B": {"secret": "train-keys", "key": "api"}},
        "volumes": [{"mount": "/a", "name": "data-1", "empty_dir": {}}],
        "resources": {
            "requests": {"cpu": "500m", "memory": "1.5Gi", "nvidia.com/gpu": 1},
            "limits": {"memory": "1e9", "cpu": 0.5},
        },
    }

    assert problems_of(**params) == []


def test_params_of_other_handlers_are_not_checked() -> None:
    node = {"handler": "echo", "params": {"labels": {"a b": "c d"}}}

    definition, _ = read_definition({"workflow_id": "flow", "nodes": {"a": node}})

    assert definition.nodes[0].handler == "echo"
