"""Graph algorithms, compared with simple slow implementations."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from windlass.spec.checks import graph
from windlass.spec.checks.graph import (
    children_of,
    find_cycle,
    not_upstream,
    reachable_from,
    topological_order,
)

SIZES = st.integers(1, 9)
ANY_GRAPHS = SIZES.flatmap(
    lambda size: st.lists(
        st.sets(st.integers(0, size - 1)).map(sorted), min_size=size, max_size=size
    )
)
ACYCLIC = SIZES.flatmap(
    lambda size: st.tuples(
        *(
            st.sets(st.integers(0, node - 1)) if node else st.just(set[int]())
            for node in range(size)
        )
    )
).map(lambda above: [sorted(parents) for parents in above])


def upstream_of(node: int, parents: list[list[int]]) -> set[int]:
    found: set[int] = set()
    stack = list(parents[node])
    while stack:
        here = stack.pop()
        if here not in found:
            found.add(here)
            stack.extend(parents[here])
    return found


@given(ANY_GRAPHS)
def test_the_topological_order_omits_cycles_and_their_downstream_nodes(
    parents: list[list[int]],
) -> None:
    order = topological_order(parents, children_of(parents))

    cyclic = {node for node in range(len(parents)) if node in upstream_of(node, parents)}
    downstream = {node for node in range(len(parents)) if upstream_of(node, parents) & cyclic}
    assert set(order) == set(range(len(parents))) - cyclic - downstream
    assert all(
        order.index(parent) < order.index(node) for node in order for parent in parents[node]
    )


@given(ANY_GRAPHS)
def test_a_found_cycle_is_a_cycle(parents: list[list[int]]) -> None:
    cycle = find_cycle(parents, topological_order(parents, children_of(parents)))

    assert bool(cycle) == any(node in upstream_of(node, parents) for node in range(len(parents)))
    assert all(
        before in parents[after] for before, after in zip(cycle, cycle[1:] + cycle[:1], strict=True)
    )


@given(ACYCLIC, st.integers(1, 4))
def test_upstream_is_found_in_blocks_of_any_size(parents: list[list[int]], block: int) -> None:
    order = topological_order(parents, children_of(parents))
    queries = list(product(range(len(parents)), range(len(parents))))
    kept, graph.BLOCK_SOURCES = graph.BLOCK_SOURCES, block
    try:
        wrong = not_upstream(queries, parents, order)
    finally:
        graph.BLOCK_SOURCES = kept

    assert wrong == {
        (source, node) for source, node in queries if source not in upstream_of(node, parents)
    }


@given(ACYCLIC)
def test_nodes_reachable_from_a_node_have_it_upstream(parents: list[list[int]]) -> None:
    reached = reachable_from([0], children_of(parents))

    assert [bool(mark) for mark in reached] == [
        node == 0 or 0 in upstream_of(node, parents) for node in range(len(parents))
    ]
