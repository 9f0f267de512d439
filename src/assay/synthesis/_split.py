"""Splits the tests that a change makes fail: some stay visible to the agent, the others are hidden and decide.

Whole test functions are hidden by taking their text out of the visible file. Where all failing tests are one function,
or each is needed to see some part of what is wrong, failing reproductions stay: the functions, cut after the statement
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

__all__ = ["Split", "Unsplittable", "split"]


_Key = tuple[str, int]
"""A test function's place: file and line."""


class Unsplittable(Exception):
    """The failing tests cannot be split; the text says why."""


class Split(NamedTuple):
    """What the agent sees and what decides."""

    visible: tuple[str, ...]
    hidden: tuple[str, ...]
    texts: dict[str, str]
    """Test file to its visible text."""
    removed: tuple[str, ...]
    """Tests that the visible texts no longer hold: the hidden ones and what shares their definitions."""
    how: str
    """`tests`: other test functions are hidden; `cut`: the rest of the same one is."""


class _Place(NamedTuple):
    """A test function's definition."""

    path: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: ast.ClassDef | ast.Module


def split(
    flipped: Mapping[str, RunOutcome],
    files: Mapping[str, str],
    seed: str,
    causes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Split:
    """Splits failing tests.

    Args:
        flipped: The tests that fail, named `path::[Class::]function`.
        files: The texts of their files.
        seed: Decides which stay visible.
        causes: Test to the parts of the change that it fails of. Whatever a hidden test fails of, a visible one fails
            of too: what nobody can see failing, nobody can be asked to mend.

    Raises:
        Unsplittable: All have to be visible, and there is nothing in any of them to hide.
    """
    programs: dict[str, Program] = {}
    for path in {test.partition("::")[0] for test in flipped}:
        try:
            programs[path] = parse(files[path])
        except SourceError as exc:
            raise Unsplittable(f"{path} cannot be parsed: {exc}") from exc
    groups: dict[_Key, list[str]] = {}
    places: dict[_Key, _Place] = {}
    for test in sorted(flipped):
        place = _find(programs, test)
        if place is None:
            raise Unsplittable(f"the definition of {test} is not in its own file")
        key = (place.path, place.node.lineno)
        places[key] = place
        groups.setdefault(key, []).append(test)
    keys = sorted(groups)
    shown = _shown({key: {part for t in groups[key] for part in causes.get(t, ())} for key in keys}, seed)
    if len(shown) == len(keys):
        return _cut(programs, groups, places, flipped)
    hidden = [places[key] for key in keys if key not in shown]
    return Split(
        visible=tuple(t for key in keys if key in shown for t in groups[key]),
        hidden=tuple(t for key in keys if key not in shown for t in groups[key]),
        texts=_without(programs, hidden),
        removed=tuple(sorted({p.node.name for p in hidden})),
        how="tests",
    )


def _shown(causes: Mapping[_Key, set[str]], seed: str) -> set[_Key]:
    """A third of the test functions, drawn by the seed; others, and more, where those do not fail of all parts."""
    keys = sorted(causes)
    generator = random.Random(seed)
    shown, missing = generator.sample(keys, max(1, len(keys) // 3)), set[str]().union(*causes.values())
    if missing - set[str]().union(*(causes[key] for key in shown)):
        drawn, shown = generator.sample(keys, len(keys)), []
        while missing:
            shown.append(max(drawn, key=lambda key: len(causes[key] & missing)))
            missing -= causes[shown[-1]]
        shown += [key for key in drawn if key not in shown][: max(0, len(keys) // 3 - len(shown))]
    return set(shown)


def _find(programs: Mapping[str, Program], test: str) -> _Place | None:
    """The definition; a method may be inherited from a class of the same file."""
    path, *names = test.split("::")
    owner: ast.ClassDef | ast.Module = programs[path].tree
    for name in names[:-1]:
        inner = next((n for n in owner.body if isinstance(n, ast.ClassDef) and n.name == name), None)
        if inner is None:
            return None
        owner = inner
    return _inherited(programs[path].tree, path, owner, names[-1], 0)


def _inherited(tree: ast.Module, path: str, owner: ast.ClassDef | ast.Module, name: str, depth: int) -> _Place | None:
    for node in reversed(owner.body):
        if isinstance(node, AnyFunction) and node.name == name:
            return _Place(path, node, owner)
    if isinstance(owner, ast.Module) or depth > 10:
        return None
    for base in owner.bases:
        for node in tree.body:
            if isinstance(base, ast.Name) and isinstance(node, ast.ClassDef) and node.name == base.id:
                found = _inherited(tree, path, node, name, depth + 1)
                if found is not None:
                    return found
    return None


def _without(programs: Mapping[str, Program], places: Sequence[_Place]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in sorted({p.path for p in places}):
        program, text = programs[path], programs[path].text
        mine = [p for p in places if p.path == path]
        for place in sorted(mine, key=lambda p: -p.node.lineno):
            first = min([place.node.lineno, *(d.lineno for d in place.node.decorator_list)])
            lines = program.whole_lines(first, place.node.end_lineno or first)
            left = [n for n in place.owner.body if not any(n is p.node for p in mine)]
            indent = " " * place.node.col_offset
            text = text[: lines.start] + ("" if left else f"{indent}pass\n") + text[lines.end :]
        _check(path, text)
        texts[path] = text
    return texts


def _check(path: str, text: str) -> None:
    try:
        parse(text)
    except SourceError as exc:
        raise Unsplittable(f"{path} is no program without the hidden tests: {exc}") from exc


def _cut(
    programs: Mapping[str, Program],
    groups: Mapping[_Key, Sequence[str]],
    places: Mapping[_Key, _Place],
    flipped: Mapping[str, RunOutcome],
) -> Split:
    """Shows all failing tests, and hides of each what comes after the statement that fails; at least of one."""
    spans: dict[str, list[Span]] = {}
    hidden: list[str] = []
    problem = ""
    for key in sorted(groups):
        try:
            span = _rest(programs[key[0]], places[key].node, {flipped[test].line for test in groups[key]})
        except Unsplittable as exc:
            problem = str(exc)
            continue
        spans.setdefault(key[0], []).append(span)
        hidden += groups[key]
    if not hidden:
        raise Unsplittable(problem)
    texts = {}
    for path, found in spans.items():
        texts[path] = programs[path].text
        for span in sorted(found, key=lambda s: -s.start):
            texts[path] = texts[path][: span.start] + texts[path][span.end :]
        _check(path, texts[path])
    return Split(visible=tuple(sorted(flipped)), hidden=tuple(sorted(hidden)), texts=texts, removed=(), how="cut")


def _rest(program: Program, node: ast.FunctionDef | ast.AsyncFunctionDef, lines: set[int]) -> Span:
    """What comes after the one statement that fails."""
    body = node.body
    at = [i for i, n in enumerate(body) if any(n.lineno <= line <= (n.end_lineno or n.lineno) for line in lines)]
    if len(at) != 1 or at[0] + 1 >= len(body):
        raise Unsplittable("no other failing test could be hidden, and this one fails at its end")
    rest = body[at[0] + 1 :]
    if not any(isinstance(inner, ast.Assert | ast.Call) for left in rest for inner in ast.walk(left)):
        raise Unsplittable(
            "no other failing test could be hidden, and nothing in this one checks anything after it fails"
        )
    if rest[0].lineno <= (body[at[0]].end_lineno or 0):
        raise Unsplittable("no other failing test could be hidden, and this one fails on a line that holds more")
    return program.whole_lines(rest[0].lineno, rest[-1].end_lineno or rest[-1].lineno)
