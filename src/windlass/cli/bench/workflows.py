"""The workflows that are measured. Their nodes use the handler `echo`."""

from typing import Any

Document = dict[str, Any]

LARGE_LANES, LARGE_DEPTH = 1_000, 100
LARGE_NODES = LARGE_LANES * LARGE_DEPTH
SMALL_LANES, SMALL_DEPTH = 100, 10


def chain(length: int) -> Document:
    """Return nodes in sequence."""
    nodes: Document = {"n0": {"handler": "echo"}}
    for number in range(1, length):
        nodes[f"n{number}"] = {"handler": "echo", "dependencies": [f"n{number - 1}"]}
    return {"workflow_id": f"chain_{length}", "nodes": nodes}


def fan(width: int) -> Document:
    """Return one node, then `width` parallel nodes, then one node."""
    nodes: Document = {"first": {"handler": "echo"}}
    for number in range(width):
        nodes[f"n{number}"] = {"handler": "echo", "dependencies": ["first"]}
    nodes["last"] = {"handler": "echo", "dependencies": [f"n{number}" for number in range(width)]}
    return {"workflow_id": f"fan_{width}", "nodes": nodes}


def lanes(count: int, depth: int) -> Document:
    """Return parallel chains between one first and one last node."""
    nodes: Document = {"first": {"handler": "echo"}}
    for lane in range(count):
        before = "first"
        for step in range(depth):
            node_id = f"n{lane}_{step}"
            nodes[node_id] = {"handler": "echo", "dependencies": [before]}
            before = node_id
    nodes["last"] = {
        "handler": "echo",
        "dependencies": [f"n{lane}_{depth - 1}" for lane in range(count)],
    }
    return {"workflow_id": f"lanes_{count}_{depth}", "nodes": nodes}


def loop(concurrency: int) -> Document:
    """Return one node with a loop over the items of the input."""
    return {
        "workflow_id": "loop",
        "nodes": {
            "each": {
                "handler": "echo",
                "loop": {
                    "collection": "{{ input.items }}",
                    "element": "item",
                    "concurrency": concurrency,
                },
                "params": {"item": "{{ item }}"},
            }
        },
    }


def generated_loop(concurrency: int) -> Document:
    """Return a loop over items that another node generates: a million items do not fit into an input."""
    code = "def main(count):\n    return list(range(count))"
    document = loop(concurrency)
    document["workflow_id"] = "generated_loop"
    nodes = document["nodes"]
    nodes["generate"] = {
        "handler": "python",
        "params": {"code": code, "count": "{{ input.items }}"},
    }
    nodes["each"]["dependencies"] = ["generate"]
    nodes["each"]["loop"]["collection"] = "{{ generate.output }}"
    return document
