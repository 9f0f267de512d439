"""Selects the functions to call when two versions of a file are compared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from assay.code.source import SourceError, functions, parse, parse_tree

MOST = 12


def called_functions(one: str, other: str) -> tuple[str, ...]:
    """Returns the public functions that differ between two versions of a file, then public functions that call them.
    Methods count where neither they nor their class are private. What changed at module level may reach everything:
    then all public functions are named. Empty where a version does not parse."""
    try:
        first, second = _sources(one), _sources(other)
    except SourceError:
        return ()
    everything = [name for name in first if name and name in second]
    changed = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    if "" in changed:
        return tuple(n for n in everything if _public(n))[:MOST]
    reached, grown = set(changed), True
    order = [name for name in everything if name in changed]
    while grown:
        last_names = {name.rpartition(".")[2] for name in reached} | {name.partition(".")[0] for name in reached}
        more = [n for n in everything if n not in reached and last_names & _used_names(first[n])]
        reached.update(more)
        order += more
        grown = bool(more)
    return tuple(n for n in order if _public(n))[:MOST]


def _sources(text: str) -> dict[str, str]:
    """Maps top-level functions and methods to their code with docstrings; the empty name holds module-level code."""
    program = parse(text)
    found: dict[str, str] = {}
    for info in functions(program):
        if ".<locals>." not in info.name:
            span = program.whole_lines(info.line, info.end_line)
            found[info.name] = program.text[span.start : span.end]
    found[""] = "\n".join(ast.dump(node) for node in _module_level_nodes(program.tree))
    return found


def _module_level_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (inner for inner in node.body if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _used_names(source: str) -> set[str]:
    try:
        tree = parse_tree(f"if True:\n{source}" if source[:1].isspace() else source)
    except SyntaxError:
        return set()
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)
    }


def _public(name: str) -> bool:
    """Returns whether no part of a name is private; special names, which Python itself calls, are public."""
    return all(not part.startswith("_") or (part.startswith("__") and part.endswith("__")) for part in name.split("."))
