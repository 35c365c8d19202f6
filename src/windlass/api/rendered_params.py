"""What a node gets, rendered again from the input and the recorded outputs: the same as its attempts got.

Secrets are named in params and known to workers only, so there is nothing to hide here but what the input shows too.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from starlette.requests import Request

from windlass.api.requests import Number, id_of, query_of
from windlass.api.state import ApiState, Slots
from windlass.core.artifacts import GONE, in_place, is_reference, read_reference
from windlass.core.changes import NodeRow
from windlass.core.errors import ArtifactNotFound, NodeNotFound, NotFound, TemplateFailed
from windlass.core.job import Job
from windlass.core.jobs import JobRecord
from windlass.core.loop_state import BLOCK_ELEMENTS, decode_progress
from windlass.core.plan import LoopPlan, NodeKind, NodePlan, Plan
from windlass.core.sanitize import truncated
from windlass.core.states import NODE_STATES
from windlass.core.templates.json_values import merged
from windlass.core.templates.template import Template
from windlass.views.loops import LoopPlace, iteration, loop_place
from windlass.views.outputs import NULL, VALUE_BYTES_MAX, Outputs, whole
from windlass.wire import Params

# Nodes whose outputs one template may need.
NODES_READ_MAX = 1_000


class ParamsQuery(Struct, forbid_unknown_fields=True):
    """Of which iteration; without one, of the node."""

    index: Number | UnsetType = UNSET


class Rendering:
    """Renders the params of one node. At most so many large values are read at a time as there are places."""

    def __init__(self, state: ApiState, reads: Slots) -> None:
        self._state = state
        self._reads = reads

    async def shown(self, request: Request) -> Params:
        """The params that a request asks for; JobNotFound, NodeNotFound, NotFound for an unknown iteration."""
        query = query_of(request, ParamsQuery)
        job = await self._state.store.job(id_of(request, "job_id"))
        plan = await self._state.control.plan(job.spec.workflow_id, job.spec.version)
        number = plan.index.get(id_of(request, "node_id"))
        if number is None:
            message = (
                f"workflow {job.spec.workflow_id} version {job.spec.version} has no node {id_of(request, 'node_id')!r}"
            )
            raise NodeNotFound(message)
        node = plan.nodes[number]
        index = None if query.index is UNSET else query.index
        rows = await self._state.store.nodes(job.spec.job_id, node.id)
        if node.kind is not NodeKind.TASK:
            return Params(NULL, rendered=False)
        return await self._of(job, plan, node, rows[0] if rows else None, index)

    async def _of(self, job: JobRecord, plan: Plan, node: NodePlan, row: NodeRow | None, index: int | None) -> Params:
        template = node.params
        names = await self._names(plan, node, row, index)
        if template is None or template.static is not None:
            return Params(_bounded(job.spec.input if template is None else template.static or NULL), rendered=True)
        written = Params(_bounded(Raw(msgspec.json.encode(template.source))), rendered=False)
        # A node that never got to its templates, because something before it failed, has none of the values.
        if row is None or names is None or (node.loop is None and row.dispatched_at is None):
            return written
        with self._reads.held():
            try:
                rendered = await self._rendered(job, plan, template, names)
            except TemplateFailed:
                return written
        patch = await self._patch(plan, row, index)
        if patch is not None:
            rendered = Raw(msgspec.json.encode(merged(msgspec.json.decode(rendered), patch)))
        return Params(_bounded(rendered), rendered=True)

    async def _names(
        self, plan: Plan, node: NodePlan, row: NodeRow | None, index: int | None
    ) -> Mapping[str, object] | None:
        """What an iteration knows besides what its job does; None when there is nothing to render for."""
        if node.loop is None:
            if index:
                raise _no_iteration(node, index)
            return {}
        if index is None or row is None:
            return None
        place = loop_place(plan, row)
        if place is None or index >= place.total:
            raise _no_iteration(node, index)
        return {node.loop.element: await self._element(place, node.loop, index), "index": index}

    async def _element(self, place: LoopPlace, loop: LoopPlan, index: int) -> object:
        size = loop.chunk_size or 1
        first, last = index * size // BLOCK_ELEMENTS, ((index + 1) * size - 1) // BLOCK_ELEMENTS
        key = (place.job_id, place.number, place.generation)
        blocks = await self._state.store.overview.blocks(*key, first, last)
        elements = [element for block in blocks for element in msgspec.json.decode(block, type=list[object])]
        start = index * size - first * BLOCK_ELEMENTS
        return elements[start] if loop.chunk_size is None else elements[start : start + size]

    async def _rendered(self, stored: JobRecord, plan: Plan, template: Template, names: Mapping[str, object]) -> Raw:
        """The template over what is recorded; large outputs are read only where it looks into them."""
        job = Job(plan, stored)
        needed = [name for name in template.names_looked_into(spares=False) if name in plan.index and name not in names]
        for name in needed[:NODES_READ_MAX]:
            for row in await self._state.store.nodes(stored.spec.job_id, name):
                _record(job, plan.index[name], row)
        looked_into = template.names_looked_into(spares=True)
        for name in needed:
            output = job.large_output(name)
            if output is not None and name in looked_into:
                job.values[read_reference(output).key] = await self._large(output)
        scope = job.scope(template, **names)
        scope.spares = True
        rendered = template.render(scope)
        if not scope.spared:
            return rendered
        kept = [output for output in job.outputs if output is not None and is_reference(output)]
        return await self._filled(rendered, kept)

    async def _large(self, output: Raw) -> object:
        try:
            return msgspec.json.decode(await whole(self._state.artifacts, output))
        except ArtifactNotFound:
            return GONE

    async def _filled(self, rendered: Raw, references: Sequence[Raw]) -> Raw:
        """Params with what is shown of the large outputs that they pass on."""
        values = await Outputs(self._state.artifacts).shown(references)
        keys = [read_reference(output).key for output in references]
        bodies = {key: bytes(value) for key, value in zip(keys, values, strict=True)}
        # Each of them fits by itself; together they may not.
        filled = in_place(bytes(rendered), bodies, VALUE_BYTES_MAX * 2)
        return truncated(VALUE_BYTES_MAX * 2) if filled is None else Raw(filled)

    async def _patch(self, plan: Plan, row: NodeRow, index: int | None) -> dict[str, object] | None:
        """What earlier calls of a series laid over the params of the present one."""
        progress = row.progress
        place = None if index is None else loop_place(plan, row)
        if place is not None and index is not None:
            found = await iteration(self._state.store, place, index)
            progress = None if found is None else found.progress
        told = None if progress is None else decode_progress(progress)
        if told is None or not told.calls:
            return None
        return msgspec.json.decode(told.patch, type=dict[str, object] | None)


def _bounded(params: Raw) -> Raw:
    size = len(memoryview(params))
    return params if size <= VALUE_BYTES_MAX else truncated(size)


def _record(job: Job, node: int, row: NodeRow) -> None:
    """What templates may read of a node."""
    job.states[node] = NODE_STATES[row.status]
    if row.output is not None:
        job.put_output(node, row.output)
    if row.meta is not None:
        job.metas[node] = row.meta


def _no_iteration(node: NodePlan, index: int) -> NotFound:
    return NotFound(f"{node.id} has no iteration {index}")
