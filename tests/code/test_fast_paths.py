"""Fast ways of reading programs against slow ones written out, on modules of the standard library."""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.function_changes import _top_functions, compare_functions
from assay.code.operators import FEATURE, _find, apply, find_sites
from assay.code.source import AnyFunction, SourceError, children, functions, has_docstring, parse
from assay.synthesis._parts import return_constant

LIBRARY = sorted(one for one in Path(ast.__file__).parent.glob("*.py") if 2_000 < one.stat().st_size < 20_000)
MODULES = random.Random(0).sample(LIBRARY, 12)
MARKS = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.Assert)
ODD = '''
@(
    staticmethod
)
def f(x, y=lambda: [z for z in x if z]):
    """F."""
    match x:
        case [1, *_] if y:
            def inner(): return x and y or x
        case _:
            pass
    try:
        x = 1 if x else 2
    except* OSError:
        class C:
            async def m(self):
                async for _ in self: assert self
    else:
        def late(): pass
\x0cdef g():
    return """a
  b"""
'''
PIECES = (
    "def f():\n    return 1\n",
    "def f():\n    return 1  # one\n",
    "def f():\n    return 2\n",
    "@d\ndef f():\n    return 1\n",
    "@(\n    d\n)\ndef f():\n    return 1\n",
    "@(not\n    d\n)\ndef f():\n    return 1\n",
    "class C:\n    def f(self):\n        return 1\n",
    "class C:\n    x = 1\n    def f(self):\n        return 2\n    def f(self): return 3\n",
    "if x:\n    def g():\n        return '''a\nb'''\n",
    "if x:\n    def g():\n        return '''a\n b'''\n",
    "if x:\n  def g():\n    return '''a\nb'''\n",
    "async def f(): return 1\n",
    "\x0cdef g(): pass\n",
    "x = 1\n",
)
PROGRAMS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)


def describe_slowly(node: ast.AST, prefix: str = "") -> Iterator[tuple[object, ...]]:
    """Yields what `functions` says, from a walk over every node."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, AnyFunction):
            yield from describe_slowly(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)
            continue
        documented = has_docstring(child)
        body = child.body[1:] if documented and len(child.body) > 1 else child.body
        inner = [one for statement in body for one in ast.walk(statement)]
        branches = sum(isinstance(one, BRANCHES) for one in inner)
        branches += sum(len(one.values) - 1 for one in inner if isinstance(one, ast.BoolOp))
        first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
        lines = (first, child.lineno, body[0].lineno, child.end_lineno)
        counts = (sum(isinstance(one, ast.stmt) for one in inner), 1 + branches)
        yield (prefix + child.name, *lines, *counts, documented)
        yield from describe_slowly(child, f"{prefix}{child.name}.<locals>.")


def hollow_slowly(text: str, name: str) -> str:
    """Returns what `return_constant` does, by parsing the whole text."""
    program = parse(text)
    for one in functions(program):
        if one.name == name and one.body_line > one.def_line:
            span, first = program.whole_lines(one.body_line, one.end_line), program.lines[one.body_line - 1]
            indent = first[: len(first) - len(first.lstrip())]
            made = f"{text[: span.start]}{indent}return None\n{text[span.end :]}"
            with contextlib.suppress(SourceError):
                return parse(made).text
            return text
    return text


def changed_slowly(first: str, second: str) -> list[str]:
    before, after = (dict(_top_functions(ast.parse(text))) for text in (first, second))
    return [name for name, node in before.items() if name not in after or ast.dump(node) != ast.dump(after[name])]


@pytest.mark.parametrize("text", [ODD, *(one.read_text(encoding="utf-8") for one in MODULES)])
def test_fast_ways_find_what_slow_ones_find(text: str) -> None:
    program = parse(text)
    assert [tuple(one) for one in functions(program)] == list(describe_slowly(program.tree))
    for node in ast.walk(program.tree):
        below = [one for one in ast.iter_child_nodes(node) if not isinstance(one, MARKS)]
        assert [child for _, child in children(node)] == below
        assert all(child is getattr(node, field) or child in getattr(node, field) for field, child in children(node))
    assert _find(program, [FEATURE], None) == _find(program, [FEATURE._replace(on_statements=False)], None)
    names = sorted({one.name for one in functions(program)})
    for name in random.Random(text).sample(names, min(len(names), 8)):
        assert return_constant(text, name, "None") == hollow_slowly(text, name)


@pytest.mark.parametrize("text", [ODD, *(one.read_text(encoding="utf-8") for one in MODULES)])
def test_changes_of_a_module_are_those_of_its_syntax(text: str) -> None:
    sites = [site for site in find_sites(text) if site.function]
    for site in random.Random(text).sample(sites, min(len(sites), 3)):
        changed = apply(text, site)
        assert changed_slowly(text, changed)
        for first, second in ((text, changed), (changed, text), (text, f"# A comment.\n\n{changed}")):
            assert [one.name for one in compare_functions(first, second).functions] == changed_slowly(first, second)


@given(PROGRAMS, PROGRAMS)
def test_changes_of_a_program_are_those_of_its_syntax(first: str, second: str) -> None:
    assert [one.name for one in compare_functions(first, second).functions] == changed_slowly(first, second)
