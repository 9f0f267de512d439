"""Splits the tests that a change makes fail: some stay visible to the agent; the others are hidden and decide.

Test functions are hidden by removing their text from the visible file. If all failing tests are one function,
or each shows a different part of the bug, failing reproductions stay visible: the functions, cut after the statement
that fails.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from assay.code.batches import RunOutcome
from assay.code.source import AnyFunction, Program, SourceError, Span, parse

_Key = tuple[str, int]
"""A test function's place: file and line."""


class UnsplittableError(Exception):
    """The failing tests cannot be split; the text gives the reason."""


class Split(NamedTuple):
    """Visible tests, and hidden ones that decide."""

    visible: tuple[str, ...]
    hidden: tuple[str, ...]
    texts: dict[str, str]
    """Test file to its visible text."""
    removed: tuple[str, ...]
    """Tests missing from the visible texts: the hidden ones and those that share their definitions."""
    how: str
    """`tests`: other test functions are hidden; `cut`: the rest of the same one is."""


class _TestDefinition(NamedTuple):
    path: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: ast.ClassDef | ast.Module


def split_failing_tests(
    flipped: Mapping[str, RunOutcome],
    files: Mapping[str, str],
    seed: str,
    causes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Split:
    """Splits failing tests.

    Args:
        flipped: The tests that fail, named `path::[Class::]function`.
        files: The texts of their files.
        seed: Chooses the visible tests.
        causes: Test to the parts of the change that make it fail. Each cause of a hidden failure is also a cause of a
            visible one, so that the agent can see every bug it has to fix.

    Raises:
        UnsplittableError: All tests have to be visible, and none has a part that can be hidden.
    """
    programs: dict[str, Program] = {}
    for path in {test.partition("::")[0] for test in flipped}:
        try:
            programs[path] = parse(files[path])
        except SourceError as exc:
            raise UnsplittableError(f"{path} cannot be parsed: {exc}") from exc
    groups: dict[_Key, list[str]] = {}
    definitions: dict[_Key, _TestDefinition] = {}
    for test in sorted(flipped):
        definition = _find_definition(programs, test)
        if definition is None:
            raise UnsplittableError(f"the definition of {test} is not in its own file")
        key = (definition.path, definition.node.lineno)
        definitions[key] = definition
        groups.setdefault(key, []).append(test)
    keys = sorted(groups)
    visible = _choose_visible({key: {part for t in groups[key] for part in causes.get(t, ())} for key in keys}, seed)
    if len(visible) == len(keys):
        return _cut_tests(programs, groups, definitions, flipped)
    hidden = [definitions[key] for key in keys if key not in visible]
    return Split(
        visible=tuple(t for key in keys if key in visible for t in groups[key]),
        hidden=tuple(t for key in keys if key not in visible for t in groups[key]),
        texts=_remove_definitions(programs, hidden),
        removed=tuple(sorted({p.node.name for p in hidden})),
        how="tests",
    )


def _choose_visible(causes: Mapping[_Key, set[str]], seed: str) -> set[_Key]:
    """Draws a third of the test functions by the seed; chooses others, and more, if those do not cover all causes."""
    keys = sorted(causes)
    generator = random.Random(seed)
    visible, missing = generator.sample(keys, max(1, len(keys) // 3)), set[str]().union(*causes.values())
    if missing - set[str]().union(*(causes[key] for key in visible)):
        candidates, visible = generator.sample(keys, len(keys)), []
        while missing:
            visible.append(max(candidates, key=lambda key: len(causes[key] & missing)))
            missing -= causes[visible[-1]]
        visible += [key for key in candidates if key not in visible][: max(0, len(keys) // 3 - len(visible))]
    return set(visible)


def _find_definition(programs: Mapping[str, Program], test: str) -> _TestDefinition | None:
    """Returns the definition, which may be inherited from a class of the same file; None if it is elsewhere."""
    path, *names = test.split("::")
    owner: ast.ClassDef | ast.Module = programs[path].tree
    for name in names[:-1]:
        inner = next((n for n in owner.body if isinstance(n, ast.ClassDef) and n.name == name), None)
        if inner is None:
            return None
        owner = inner
    return _find_inherited(programs[path].tree, path, owner, names[-1], 0)


def _find_inherited(
    tree: ast.Module, path: str, owner: ast.ClassDef | ast.Module, name: str, depth: int
) -> _TestDefinition | None:
    for node in reversed(owner.body):
        if isinstance(node, AnyFunction) and node.name == name:
            return _TestDefinition(path, node, owner)
    if isinstance(owner, ast.Module) or depth > 10:
        return None
    for base in owner.bases:
        for node in tree.body:
            if isinstance(base, ast.Name) and isinstance(node, ast.ClassDef) and node.name == base.id:
                found = _find_inherited(tree, path, node, name, depth + 1)
                if found is not None:
                    return found
    return None


def _remove_definitions(programs: Mapping[str, Program], definitions: Sequence[_TestDefinition]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in sorted({p.path for p in definitions}):
        program, text = programs[path], programs[path].text
        own = [p for p in definitions if p.path == path]
        for definition in sorted(own, key=lambda p: -p.node.lineno):
            first = min([definition.node.lineno, *(d.lineno for d in definition.node.decorator_list)])
            lines = program.whole_lines(first, definition.node.end_lineno or first)
            remaining = [n for n in definition.owner.body if not any(n is p.node for p in own)]
            indent = " " * definition.node.col_offset
            text = text[: lines.start] + ("" if remaining else f"{indent}pass\n") + text[lines.end :]
        _require_program(path, text)
        texts[path] = text
    return texts


def _require_program(path: str, text: str) -> None:
    try:
        parse(text)
    except SourceError as exc:
        raise UnsplittableError(f"{path} cannot be parsed without the hidden tests: {exc}") from exc


def _cut_tests(
    programs: Mapping[str, Program],
    groups: Mapping[_Key, Sequence[str]],
    definitions: Mapping[_Key, _TestDefinition],
    flipped: Mapping[str, RunOutcome],
) -> Split:
    """Shows all failing tests and hides the statements after the failing one, in at least one of them."""
    spans: dict[str, list[Span]] = {}
    hidden: list[str] = []
    problem = ""
    for key in sorted(groups):
        try:
            span = _find_rest(programs[key[0]], definitions[key].node, {flipped[test].line for test in groups[key]})
        except UnsplittableError as exc:
            problem = str(exc)
            continue
        spans.setdefault(key[0], []).append(span)
        hidden += groups[key]
    if not hidden:
        raise UnsplittableError(problem)
    texts = {}
    for path, found in spans.items():
        texts[path] = programs[path].text
        for span in sorted(found, key=lambda s: -s.start):
            texts[path] = texts[path][: span.start] + texts[path][span.end :]
        _require_program(path, texts[path])
    return Split(visible=tuple(sorted(flipped)), hidden=tuple(sorted(hidden)), texts=texts, removed=(), how="cut")


def _find_rest(program: Program, node: ast.FunctionDef | ast.AsyncFunctionDef, lines: set[int]) -> Span:
    """Returns the span after the failing statement."""
    body = node.body
    at = [i for i, n in enumerate(body) if any(n.lineno <= line <= (n.end_lineno or n.lineno) for line in lines)]
    if len(at) != 1 or at[0] + 1 >= len(body):
        raise UnsplittableError("no other failing test could be hidden, and this one fails at its end")
    rest = body[at[0] + 1 :]
    if not any(isinstance(inner, ast.Assert | ast.Call) for remaining in rest for inner in ast.walk(remaining)):
        raise UnsplittableError(
            "no other failing test could be hidden, and nothing in this one checks anything after it fails"
        )
    if rest[0].lineno <= (body[at[0]].end_lineno or 0):
        raise UnsplittableError("no other failing test could be hidden, and this one fails on a line that holds more")
    return program.whole_lines(rest[0].lineno, rest[-1].end_lineno or rest[-1].lineno)
