"""The params of a node, rendered again from the input and the recorded outputs.

Params contain only the names of secrets, whose values only workers know.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from starlette.requests import Request

from windlass.api.optional_values import given
from windlass.api.requests import Number, read_query
from windlass.api.state import ApiState, ConcurrencyLimit
from windlass.api.stored_node import StoredNode, read_node
from windlass.core.artifacts import GONE, TaskArtifact, fill_params, read_reference
from windlass.core.changes import NodeRow
from windlass.core.errors import ArtifactNotFound, NotFound, TemplateFailed
from windlass.core.job import Job
from windlass.core.loop_state import CHUNK_ELEMENTS, read_progress
from windlass.core.plan import LoopPlan, NodeKind, NodePlan
from windlass.core.prefetch import large_outputs_read, nodes_named
from windlass.core.sanitize import truncated
from windlass.core.scopes import JobScope
from windlass.core.states import NODE_STATES
from windlass.core.templates.json_values import merged
from windlass.core.templates.template import Passing, Template
from windlass.ports.artifact_reader import ArtifactReader
from windlass.views.loops import StoredLoop, iteration_row, stored_loop
from windlass.views.outputs import NULL, VALUE_BYTES_MAX, OutputReader, output_size, read_output
from windlass.wire import ParamsView

# Nodes whose outputs one template may use.
NODES_READ_MAX = 1_000


class ParamsQuery(Struct, forbid_unknown_fields=True):
    """The iteration; without one, the node."""

    index: Number | UnsetType = UNSET


class _Target(StoredNode, frozen=True):
    """The node whose params are rendered, and the iteration."""

    index: int | None = None


class ParamsRenderer:
    """Renders the params of nodes; `reads` limits how many requests read large values at once."""

    def __init__(self, state: ApiState, reads: ConcurrencyLimit) -> None:
        self._state = state
        self._reads = reads
        self._parts = ArtifactReader(state.artifacts)

    async def render(self, request: Request) -> ParamsView:
        """Return the params that a request asks for; JobNotFound, NodeNotFound, NotFound for an iteration."""
        query = read_query(request, ParamsQuery)
        stored = await read_node(self._state, request)
        target = _Target(stored.job, stored.plan, stored.node, stored.row, given(query.index))
        if target.node.kind is not NodeKind.TASK:
            return ParamsView(NULL, rendered=False)
        return await self._view(target)

    async def _view(self, target: _Target) -> ParamsView:
        template = target.node.params
        variables = await self._loop_variables(target)
        if template is None:
            return ParamsView(_limited(target.job.spec.input), rendered=True)
        if template.static is not None:
            return ParamsView(_limited(template.static), rendered=True)
        unrendered = ParamsView(_limited(Raw(msgspec.json.encode(template.source))), rendered=False)
        row = target.row
        # The values are missing if an upstream node failed before the node was dispatched.
        if (
            row is None
            or variables is None
            or (target.node.loop is None and row.dispatched_at is None)
        ):
            return unrendered
        with self._reads.acquire():
            try:
                params = await self._render_template(target, template, variables)
            except TemplateFailed:
                return unrendered
        patch = await self._next_call_patch(target, row)
        if patch is not None:
            params = Raw(msgspec.json.encode(merged(msgspec.json.decode(params), patch)))
        return ParamsView(_limited(params), rendered=True)

    async def _loop_variables(self, target: _Target) -> Mapping[str, object] | None:
        """Return the variables of an iteration; None if the loop has not started or no iteration is given."""
        loop, index = target.node.loop, target.index
        if loop is None:
            if index:
                raise _unknown_iteration(target.node, index)
            return {}
        if index is None or target.row is None:
            return None
        stored = stored_loop(target.plan, target.row)
        if stored is None or index >= stored.total:
            raise _unknown_iteration(target.node, index)
        return {loop.element: await self._element(stored, loop, index), "index": index}

    async def _element(self, stored: StoredLoop, loop: LoopPlan, index: int) -> object:
        """Return the element, or the chunk of elements, of an iteration."""
        size = loop.chunk_size or 1
        first_chunk = index * size // CHUNK_ELEMENTS
        last_chunk = ((index + 1) * size - 1) // CHUNK_ELEMENTS
        blocks = await self._state.store.overview.collection_chunks(
            stored.job_id, stored.number, stored.generation, first_chunk, last_chunk
        )
        elements: list[object] = []
        for block in blocks:
            elements += msgspec.json.decode(block, type=list[object])
        start = index * size - first_chunk * CHUNK_ELEMENTS
        if loop.chunk_size is None:
            return elements[start]
        return elements[start : start + size]

    async def _render_template(
        self, target: _Target, template: Template, variables: Mapping[str, object]
    ) -> Raw:
        """Render a template; a large output is only read if the template reads it or a part of it."""
        plan = target.plan
        number = plan.index[target.node.id]
        job = Job(plan, target.job)
        for node_id in nodes_named(job, template, number)[:NODES_READ_MAX]:
            for row in await self._state.store.jobs.nodes(target.job.spec.job_id, node_id):
                _restore_node(job, plan.index[node_id], row)
        for node_id in large_outputs_read(job, template, number, Passing.PARTS):
            output = job.large[node_id]
            job.values[read_reference(output).key] = await self._large_value(output)
        scope = JobScope(job, template, number, variables, Passing.PARTS)
        rendered, artifacts = template.render_params(scope)
        if not artifacts:
            return rendered
        return await self._with_values(rendered, artifacts, job.large.values())

    async def _large_value(self, output: Raw) -> object:
        try:
            return msgspec.json.decode(await read_output(self._state.artifacts, output))
        except ArtifactNotFound:
            return GONE

    async def _with_values(
        self, rendered: Raw, artifacts: Sequence[TaskArtifact], outputs: Iterable[Raw]
    ) -> Raw:
        """Put large values into the rendered params, as far as they fit. TemplateFailed without such a part."""
        wholes = {read_reference(output).key: output for output in outputs}
        reader = OutputReader(self._state.artifacts)
        values: list[tuple[TaskArtifact, bytes]] = []
        # Each value fits; together they may not.
        left = VALUE_BYTES_MAX * 2
        for artifact in artifacts:
            if artifact.path:
                value = await self._part(artifact, output_size(wholes[artifact.key]))
            else:
                (value,) = await reader.read([wholes[artifact.key]])
            left -= len(memoryview(value))
            if left < 0:
                return truncated(VALUE_BYTES_MAX * 2)
            values.append((artifact, bytes(value)))
        return Raw(fill_params(bytes(rendered), values))

    async def _part(self, artifact: TaskArtifact, size: int) -> Raw:
        try:
            return _limited(Raw(await self._parts.read(artifact)))
        except ArtifactNotFound:
            return truncated(size, missing=True)

    async def _next_call_patch(self, target: _Target, row: NodeRow) -> dict[str, object] | None:
        """Return the patch that earlier pages of the node apply to the params of the current page."""
        encoded = row.progress
        if target.index is not None:
            stored = stored_loop(target.plan, row)
            if stored is not None:
                iteration = await iteration_row(self._state.store, stored, target.index)
                encoded = None if iteration is None else iteration.progress
        progress = read_progress(encoded)
        if not progress.calls:
            return None
        return msgspec.json.decode(progress.patch, type=dict[str, object] | None)


def _limited(params: Raw) -> Raw:
    size = len(memoryview(params))
    return params if size <= VALUE_BYTES_MAX else truncated(size)


def _restore_node(job: Job, node: int, row: NodeRow) -> None:
    """Restore the parts of a node that templates can read."""
    job.states[node] = NODE_STATES[row.status]
    if row.output is not None:
        job.put_output(node, row.output)
    if row.meta is not None:
        job.metas[node] = row.meta


def _unknown_iteration(node: NodePlan, index: int) -> NotFound:
    return NotFound(f"{node.id} has no iteration {index}")
