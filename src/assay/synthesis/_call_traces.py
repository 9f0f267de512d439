"""Traces the calls of functions in a sandbox, a few functions at a time, twice with different hash seeds."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from assay.verify.calls import CallProgram, CallRequest, TracedCall, calls_spec, read_traces, trace_calls
from assay.verify.sanitise import opened

from ._laboratory import WORKSPACE, import_paths
from ._opening import OpenedSource
from ._plain_calls import PlainFunction
from ._units import TraceOutcome, TraceUnit, describe_function, find_function, unit_digest

MAX_TRACED = 8
"""Calls of one function that are traced."""
FUNCTIONS = 8
"""Functions that share a sandbox."""
HASH_SEEDS = (0, 1)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.NamedExpr, ast.Await)


class CallTraces(NamedTuple):
    """Two traces of one call of a function."""

    function: PlainFunction
    call: CallProgram
    first: TracedCall
    second: TracedCall


def describe_units(listed: Sequence[PlainFunction]) -> list[tuple[TraceUnit, Sequence[PlainFunction]]]:
    """Returns units with the functions that they name, in order."""
    parts = [listed[start : start + FUNCTIONS] for start in range(0, len(listed), FUNCTIONS)]
    described = [(part, tuple(describe_function(one, MAX_TRACED) for one in part)) for part in parts]
    return [(TraceUnit(unit_digest(functions), functions), part) for part, functions in described]


async def trace_unit(source: OpenedSource, unit: TraceUnit) -> TraceOutcome:
    """Traces the calls of a unit. Raises `UserError` if the source has no such function."""
    functions = [find_function(source.tree, one) for one in unit.functions]
    calls = [(one, call) for one in functions for call in one.calls]
    inputs = [(number, call, _describe_target(one)) for number, (one, call) in enumerate(calls)]
    imports = tuple(dict.fromkeys((*source.tree.import_names, *[one.module for one in functions])))
    request = CallRequest((), imports, import_paths(source.tree), endless=40)
    laboratory = source.laboratory
    async with opened(laboratory.backend, calls_spec(laboratory.spec), laboratory.state) as workspace:
        replies = [await trace_calls(workspace, inputs, request, hash_seed=seed) for seed in HASH_SEEDS]
    return TraceOutcome(unit.digest, tuple(replies))


def read_outcome(functions: Sequence[PlainFunction], outcome: TraceOutcome) -> list[CallTraces]:
    """Returns the calls of a unit that both runs traced."""
    first, second = [read_traces(reply) for reply in outcome.replies]
    calls = [(one, call) for one in functions for call in one.calls[:MAX_TRACED]]
    both = [number for number in range(len(calls)) if number in first and number in second]
    return [CallTraces(*calls[number], first[number], second[number]) for number in both]


def _describe_target(one: PlainFunction) -> dict[str, Any]:
    node = one.node
    lines = {} if _is_suspended(node) else {str(line): names for line, names in assigning_lines(node)}
    first = sorted({node.lineno, *[decorator.lineno for decorator in node.decorator_list]})
    return {"file": f"{WORKSPACE}/{one.path}", "name": node.name, "first_lines": first, "lines": lines}


def _is_suspended(node: ast.FunctionDef) -> bool:
    return any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))


def assigning_lines(node: ast.FunctionDef) -> Iterator[tuple[int, list[str]]]:
    """Yields each line that holds one assignment of computed values to names and nothing else, with the names."""
    statements = [inner for inner in ast.walk(node) if isinstance(inner, ast.stmt)]
    shared = Counter(inner.lineno for inner in statements)
    for inner in statements:
        if not isinstance(inner, ast.Assign | ast.AugAssign) or isinstance(inner.value, ast.Constant | ast.Name):
            continue
        is_alone = inner.lineno == inner.end_lineno and shared[inner.lineno] == 1
        plain = not any(isinstance(part, COMPREHENSIONS) for part in ast.walk(inner.value))
        targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
        walked = [part for target in targets for part in ast.walk(target)]
        names = [part.id for part in walked if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        if is_alone and plain and names and not _is_in_inner_function(node, inner):
            yield inner.lineno, names


def _is_in_inner_function(node: ast.FunctionDef, statement: ast.stmt) -> bool:
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(
        one is not node and isinstance(one, inner) and any(part is statement for part in ast.walk(one))
        for one in ast.walk(node)
    )
