"""What references in templates read: which node, and which part of it."""

NODES, PARENTS = "nodes", "parents"
# Names that stand for several nodes.
AGGREGATES = frozenset({NODES, PARENTS})
# Names that have another meaning than a node with the same id.
_NOT_NODES = frozenset({"input", "workload", "job"})
NODE_KEYS = ("output", "result", "status", "meta")
# The keys of a node under which templates read its output.
OUTPUT_KEYS = ("output", "result")

Path = tuple[str | int, ...]


def node_and_keys(name: str, path: Path) -> tuple[str, Path] | None:
    """Return the id of the node that `name.key` may read, and the keys after the node; None if it reads no single node.

    Whether there is such a node, and whether another meaning of the name applies, is for the caller to find out.
    """
    if name == NODES:
        return (str(path[0]), path[1:]) if path else None
    if name == PARENTS:
        return (str(path[0]), ("output", *path[1:])) if path else None
    return None if name in _NOT_NODES else (name, path)


def is_whole_output(name: str, path: Path) -> bool:
    """Whether `name.key` is the whole output of a node, if it reads a node."""
    found = node_and_keys(name, path)
    return found is not None and len(found[1]) == 1 and found[1][0] in OUTPUT_KEYS


def reads_output(keys: Path) -> bool:
    """Whether these keys of a node read its output, or a part of it."""
    return not keys or keys[0] in OUTPUT_KEYS
