"""The ledger of effects against the events: what ran, under which identity, on what, and what was taken of it."""

from typing import Any, cast

import msgspec

from simulation.case import Case, text_of
from simulation.history import Execution
from simulation.replay.state import Attempt, Folded, FoldedNode, Piece
from windlass.core.errors import TemplateFailed
from windlass.core.plan import Collect, NodeKind, RetryOnSuccess
from windlass.core.templates.template import Template, is_true


def check_effects(case: Case) -> None:
    """Everything that the ledger can tell about a job."""
    for name, runs in case.runs.items():
        node = case.fold.nodes.get(name)
        for run in runs:
            _check_dispatch(case, node, run)
        if node is not None:
            _check_failures(case, node)
            _check_identities(case, node)
            _check_elements(case, node)
            _check_further_calls(case, node)
            _check_sink(case, node)
    for node in case.fold.nodes.values():
        if node.plan.kind is NodeKind.TASK and (case.history.executions or case.history.is_ledger_whole):
            for unit in node.parts:
                _check_answers(case, node, unit)
                if unit.state == "completed":
                    _check_result(case, node, unit)


def _check_dispatch(case: Case, node: FoldedNode | None, run: Execution) -> None:
    what = f"{run.node_id}[{run.index}] attempt {run.attempt} on {run.worker_id}"
    if node is None or (run.index, run.attempt) not in node.pieces:
        case.blame("I7", f"{what} ran, but no event tells of its dispatch")
    if run.dispatch_was_durable is False:
        case.blame("I7", f"{what} began before its dispatch was stored")


def _check_failures(case: Case, node: FoldedNode) -> None:
    runs = case.runs[node.plan.id]
    for index, attempt in sorted(node.failed, key=str):
        outcomes = {run.outcome for run in runs if (run.index, run.attempt) == (index, attempt)}
        if outcomes <= {"succeeded"}:
            what = f"{case.name(node, index)} attempt {attempt}"
            case.blame("I6", f"{what} failed by the events, but no handler says so")


def _check_identities(case: Case, node: FoldedNode) -> None:
    """One key for each piece of work, over all its attempts, and another for each other piece."""
    keys: dict[Piece, str] = {}
    pieces: dict[str, Piece] = {}
    for run in case.runs[node.plan.id]:
        piece = node.pieces.get((run.index, run.attempt))
        if piece is None:
            continue
        key = keys.setdefault(piece, run.idempotency_key)
        if key != run.idempotency_key:
            case.blame("I7", f"{node.plan.id} {piece} ran under the idempotency keys {key} and {run.idempotency_key}")
        other = pieces.setdefault(run.idempotency_key, piece)
        if other != piece:
            case.blame("I7", f"{node.plan.id} {piece} and {other} ran under one key, {run.idempotency_key}")


def _check_elements(case: Case, node: FoldedNode) -> None:
    for run in case.runs[node.plan.id]:
        piece = node.pieces.get((run.index, run.attempt))
        if run.element is None or run.index is None or piece is None:
            continue
        recorded = case.element(node, piece[1], run.index)
        if msgspec.json.decode(run.element) != recorded:
            what = f"{case.name(node, run.index)} attempt {run.attempt}"
            case.blame("I10", f"{what} was given {text_of(run.element)}, recorded is {recorded!r}")


# Series of calls


def _check_further_calls(case: Case, node: FoldedNode) -> None:
    """A further call has the params of the one before it, and over them what the rule made of its answer."""
    rule = node.plan.on_success
    if rule is None:
        return
    for run in case.runs[node.plan.id]:
        place: Attempt = (run.index, run.attempt)
        if run.params is None or place not in node.follows:
            continue
        before = case.succeeded(node, run.index, node.follows[place])
        expected = [_next_params(case, node, rule, answered) for answered in before]
        if msgspec.json.decode(run.params) not in expected:
            what = f"{case.name(node, run.index)} attempt {run.attempt}"
            case.blame("I8", f"{what} was called with {text_of(run.params)}, expected was one of {expected!r}"[:600])


def _next_params(case: Case, node: FoldedNode, rule: RetryOnSuccess, answered: Execution) -> Any:
    params = msgspec.json.decode(answered.params or b"null")
    if rule.next_call is None:
        return params
    try:
        return _laid_over(params, case.value(rule.next_call, **_names(case, node, answered)))
    except TemplateFailed:
        return None  # no call can follow such an answer


def _names(case: Case, node: FoldedNode, answered: Execution) -> dict[str, object]:
    index, generation, call = node.pieces[answered.index, answered.attempt]
    names: dict[str, object] = {"response": case.decoded(answered.output), "attempt": call}
    if index is not None and node.plan.loop is not None:
        names |= {node.plan.loop.element: case.element(node, generation, index), "index": index}
    return names


def _laid_over(under: Any, over: Any) -> Any:
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    below, above = cast("dict[str, Any]", under), cast("dict[str, Any]", over)
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def _check_answers(case: Case, node: FoldedNode, unit: Folded) -> None:
    """A series goes on exactly while its condition holds for the last answer, and calls are left."""
    rule = node.plan.on_success
    if rule is None:
        return
    for call, attempt in enumerate(unit.answers, 1):
        runs = case.succeeded(node, unit.index, attempt)
        goes_on = {_holds(case, rule.condition, _names(case, node, run)) for run in runs}
        ends_here = unit.is_answered and call == len(unit.answers)
        allowed = {False, None} if ends_here and call < rule.calls_max else {True, False, None} if ends_here else {True}
        if runs and goes_on.isdisjoint(allowed):
            what = f"{case.name(node, unit.index)} {'ended with' if ends_here else 'went on after'} call {call}"
            case.blame("I11", f"{what}, though its condition says {sorted(map(str, goes_on))}")


def _holds(case: Case, condition: Template, names: dict[str, object]) -> bool | None:
    try:
        return is_true(case.value(condition, **names))
    except TemplateFailed:
        return None


# Results


def _check_result(case: Case, node: FoldedNode, unit: Folded) -> None:
    """The output is that of the accepted attempts, and they worked on what is recorded."""
    row, name = case.row_of(node, unit), case.name(node, unit.index)
    for attempt in unit.accepted:
        runs = case.succeeded(node, unit.index, attempt)
        if not runs:
            case.blame("I7", f"{name} completed by attempt {attempt}, which no handler ran to its end")
            return
        for run in runs:
            _check_reads(case, name, run)
    if row is None:
        return
    rule = node.plan.on_success
    if rule is None or rule.collect is Collect.REPLACE:
        found = case.body(row.output)
        possible = [case.body(run.output) for run in case.succeeded(node, unit.index, unit.accepted[-1])]
    else:
        found, possible = case.decoded(row.output), _possible_outputs(case, node, rule, unit)
    if found not in possible:
        made = f"attempts {unit.accepted} made {possible!r}"
        case.blame("I6", f"the output of {name} is {text_of(case.body(row.output))}, {made}"[:600])


def _check_reads(case: Case, name: str, run: Execution) -> None:
    for read, given in (run.reads or {}).items():
        row = case.rows.get(read)
        recorded = None if row is None else case.decoded(row.output)
        if msgspec.json.decode(given) != recorded:
            told = f"was given {text_of(given)} as the output of {read}, recorded is {str(recorded)[:200]}"
            case.blame("I8", f"{name} attempt {run.attempt} {told}")


def _possible_outputs(case: Case, node: FoldedNode, rule: RetryOnSuccess, unit: Folded) -> list[Any]:
    """What the answers of a series come to together."""
    if len(unit.answers) == 1:
        runs = case.succeeded(node, unit.index, unit.answers[0])
        return [_joined(rule, [_part(rule, case.decoded(run.output))]) for run in runs]
    parts: list[Any] = []
    index = -1 if unit.index is None else unit.index
    for call, attempt in enumerate(unit.answers, 1):
        page = case.history.loops.pages.get((case.number(node), node.generation, index, call))
        made = [_part(rule, case.decoded(run.output)) for run in case.succeeded(node, unit.index, attempt)]
        if page is None or case.decoded(page) not in made:
            what = f"page {call} of {case.name(node, unit.index)} is {text_of(case.body(page))}"
            case.blame("I6", f"{what}, attempt {attempt} made {made!r}"[:600])
            return []
        parts.append(case.decoded(page))
    return [_joined(rule, parts)]


def _part(rule: RetryOnSuccess, output: Any) -> Any:
    if rule.collect is Collect.APPEND:
        for key in rule.merge_path:
            output = cast("dict[str, Any]", output).get(key) if isinstance(output, dict) else None
    return output


def _joined(rule: RetryOnSuccess, parts: list[Any]) -> Any:
    return [one for part in parts for one in part] if rule.collect is Collect.APPEND else parts


# Sinks


def _check_sink(case: Case, node: FoldedNode) -> None:
    """What was accepted is in the table once, made of what is recorded; nothing is there that no handler made."""
    if node.plan.sink is None or case.history.sunk is None:
        return
    runs = [run for run in case.runs[node.plan.id] if run.outcome == "succeeded"]
    for one in case.history.sunk:
        made = [run.output for run in case.runs[node.plan.id] if run.idempotency_key == one.identity]
        if made and one.output not in [run.output for run in runs if run.idempotency_key == one.identity]:
            case.blame("I7", f"{one.identity} is in the table as {text_of(one.output)}, which no handler made")
    for unit in node.parts:
        if unit.state != "completed":
            continue
        for call, attempt in enumerate(unit.accepted, 1):
            piece: Piece = (unit.index, node.generation, call)
            _check_sunk(case, node, piece, attempt, [r for r in runs if node.pieces.get((r.index, r.attempt)) == piece])


def _check_sunk(case: Case, node: FoldedNode, piece: Piece, attempt: int, runs: list[Execution]) -> None:
    identities = {run.idempotency_key for run in runs}
    written = [one for one in case.history.sunk or () if one.identity in identities]
    name = f"{case.name(node, piece[0])} call {piece[2]}"
    if len(written) != 1:
        case.blame("I7", f"{name} was accepted by attempt {attempt} and is {len(written)} times in its table")
    for run in runs:
        if run.output in [one.output for one in written]:
            _check_reads(case, f"the row of {name}, made by", run)
