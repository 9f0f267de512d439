"""Functions of a package that its tests call with plain data, and those calls.

Plain data are None, booleans, numbers, texts, lists, tuples and dictionaries with text keys. The tests run once, in a
sandbox, with a recorder (`verify.calls.record_calls`); a recorded call counts for the function that it names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from assay.code.source import SourceError, parse_tree
from assay.verify.calls import CallPlan, CallProgram, Recording, json_value, record_calls

from ._call_plans import build_record_request, find_tolerance
from ._candidates import find_targets
from ._laboratory import WORKSPACE, import_paths
from ._opening import OpenedSource
from .config import SynthesisConfig

MAX_CALLS = 40
MAX_PER_TEST = 6


class PlainFunction(NamedTuple):
    """A function at the top level of a module, and the calls that tests make of it."""

    path: str
    """File in the tree."""
    module: str
    """Module that tests import it from."""
    node: ast.FunctionDef
    text: str
    """Source of the file."""
    calls: tuple[CallProgram, ...]
    """Distinct calls, taken from the tests in turn."""
    exceptions: tuple[str, ...]
    """Names, without modules, of the exceptions that these calls raise in the tests."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def key(self) -> str:
        return f"{self.path}::{self.node.name}"


async def find_plain_functions(source: OpenedSource, config: SynthesisConfig) -> list[PlainFunction]:
    """Records all measured tests once and returns the functions with plain calls, ordered by file and line."""
    tree, laboratory, reference = source.tree, source.laboratory, source.reference
    wanted: dict[str, list[str]] = {}
    for target in find_targets(tree, reference, config):
        if "." not in target.function.name and not target.function.name.startswith("_"):
            wanted.setdefault(target.path, []).append(target.function.name)
    cases = [case for test in sorted(reference.passing) for case in reference.cases[test]]
    request = build_record_request(tree, wanted, cases)
    recordings = await record_calls(laboratory.backend, laboratory.spec, {}, request, laboratory.state)
    found = []
    for path, names in sorted(wanted.items()):
        text = tree.files[path].decode()
        with suppress(SourceError):
            nodes = {node.name: node for node in parse_tree(text).body if isinstance(node, ast.FunctionDef)}
            unique = [name for name in names if name in nodes and sum(name in other for other in wanted.values()) == 1]
            found += [one for name in unique if (one := _function(path, nodes[name], text, recordings)) is not None]
    return sorted(found, key=lambda one: (one.path, one.node.lineno))


def draft_plan(source: OpenedSource, one: PlainFunction) -> CallPlan:
    """Returns a plan of the function's calls without measured numbers."""
    files = {call.test.removeprefix(f"{WORKSPACE}/").partition("::")[0] for call in one.calls}
    sources = [source.tree.files.get(path, b"").decode("utf-8", "replace") for path in sorted(files)]
    imports = tuple(dict.fromkeys((*source.tree.import_names, one.module)))
    return CallPlan(
        one.calls, imports, import_paths(source.tree), 0, exceptions=one.exceptions, tolerance=find_tolerance(sources)
    )


def _function(path: str, node: ast.FunctionDef, text: str, recordings: Sequence[Recording]) -> PlainFunction | None:
    by_test: dict[str, list[CallProgram]] = {}
    raised: set[str] = set()
    for test, operation, error in _calls_of(node.name, recordings):
        mine = by_test.setdefault(test, [])
        one = CallProgram(test, ([0, *operation[1:]],), 0)
        if len(mine) < MAX_PER_TEST and one.operations not in [other.operations for other in mine]:
            mine.append(one)
            raised |= {error} - {""}
    calls: list[CallProgram] = []
    for position in range(MAX_PER_TEST):
        for mine in by_test.values():
            if position < len(mine) and mine[position].operations not in [other.operations for other in calls]:
                calls.append(mine[position])
    if not calls:
        return None
    module = calls[0].operations[0][2][1]
    same = tuple(one for one in calls if one.operations[0][2][1] == module)
    return PlainFunction(path, module, node, text, same[:MAX_CALLS], tuple(sorted(raised)))


def _calls_of(name: str, recordings: Sequence[Recording]) -> Iterator[tuple[str, list[Any], str]]:
    """Yields test, operation and the name of the exception for each plain call of a function."""
    for recording in recordings:
        for one in recording.operations:
            named = one.op[1] == "call" and one.op[2][0] == "g" and one.op[2][2] == name
            # A generator function has not run when its call returns, so that no target was reached inside the call.
            if named and one.test not in recording.failed and _is_plain(one.op):
                yield one.test, one.op, one.of.rpartition(".")[2] if one.result == "raised" else ""


def _is_plain(operation: list[Any]) -> bool:
    try:
        for tree in [*operation[4], *[tree for _, tree in operation[5]]]:
            json_value(tree)
    except (ValueError, RecursionError):
        return False
    return True
