"""Rewrites that mean the same: on examples, on generated programs, and on modules that others wrote."""

from __future__ import annotations

import ast
import importlib
import inspect
import random
import re
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.code.preserving import PRESERVING
from assay.verify.payload.signature_calls import arguments, plain

pytestmark = pytest.mark.newest
ALL = range(1, 100_000)

EXAMPLES = [
    ("renamed-locals", "def f(a):\n    b = a\n    return [b for _ in a]\n",
     "def f(a):\n    b_value = a\n    return [b_value for _ in a]\n"),
    ("reordered", "def f(a):\n    b = 1\n    c = [a]  # c\n    return b, c\n",
     "def f(a):\n    c = [a]  # c\n    b = 1\n    return b, c\n"),
    ("reordered", "def f():\n    pass\n\n\n# two\ndef g(): pass\n", "def g(): pass\n\n\n# two\ndef f():\n    pass\n"),
    ("reformatted", "x = ( 'a'\n  , 1 )  # no\n", "x = ('a', 1)\n"),
    ("without-docstrings", 'def f():\n    """F."""\n    return 1\n\n\nclass A:\n    "A."\n',
     "def f():\n    return 1\n\n\nclass A:\n    pass\n"),
    ("equal-expressions", "def f(x):\n    return 1 if x is None else 16\n",
     "def f(x):\n    return ((16) if not (x is None) else (1))\n"),
    ("equal-expressions", "while a and b: pass\n", "while not ((not (a)) or (not (b))): pass\n"),
    ("equal-expressions", "y = (a or b) in c\n", "y = (not ((a or b) not in (c)))\n"),
]  # fmt: skip
LEFT_ALONE = [
    ("renamed-locals", "def f(a):\n    b = a\n    return locals()\n"),
    ("renamed-locals", "def f(a):\n    b = a\n    return f'{b}'\n"),
    ("renamed-locals", "def f(a):\n    b = a\n    return g('b')\n"),
    ("renamed-locals", "def f(a):\n    b = a\n    def g():\n        nonlocal b\n        b = 1\n    return b\n"),
    ("renamed-locals", "def f(a):\n    global b\n    b = a\n"),
    ("renamed-locals", "def f():\n    import b\n    b = 1\n"),
    ("renamed-locals", "def f(a):\n    a = 1\n    return [(b := 1) for c in a]\n"),
    ("renamed-locals", "def f(x):\n    match x:\n        case [b]: pass\n    b = 1\n"),
    ("reordered", "def f(a):\n    b = a()\n    c = 1\n"),
    ("reordered", "def f(a):\n    b = 1\n    c = b\n"),
    ("reordered", "def f():\n    return 1\n\n\n@d\ndef g():\n    return 2\n"),
    ("reordered", "def f():\n    return 1\n\n\ndef g(x=f()):\n    return 2\n"),
    ("reordered", "class A(metaclass=M):\n    def f(self): pass\n    def g(self): pass\n"),
    ("without-docstrings", 'def f():\n    """F."""\n    return f.__doc__\n'),
    ("equal-expressions", "assert x is None if 'a' else 3\n".replace(" is None if 'a' else 3", "")),
    ("equal-expressions", "x: Literal[12]\nwhile True: pass\n"),
]
MODULES = ("textwrap", "colorsys", "heapq", "bisect", "fractions", "statistics", "graphlib", "difflib", "calendar",
           "string", "shlex", "posixpath", "fnmatch", "keyword", "base64", "quopri", "html", "copy", "json.encoder",
           "networkx.utils.union_find", "networkx.utils.misc")  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), EXAMPLES)
def test_each_rewrite_on_an_example(name: str, before: str, after: str) -> None:
    made = PRESERVING[name](before, ALL)
    assert made is not None
    assert re.sub(r"[()]", "", made) == re.sub(r"[()]", "", after)
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(after))


@pytest.mark.parametrize(("name", "text"), LEFT_ALONE)
def test_what_could_see_the_difference_is_left_alone(name: str, text: str) -> None:
    assert PRESERVING[name](text, ALL) is None


def test_only_functions_on_the_lines_given_are_touched() -> None:
    text = "def f():\n    a = 1\n    return a\n\n\ndef g():\n    a = 2\n    return a\n"
    assert PRESERVING["renamed-locals"](text, {7}) == text[:37] + text[37:].replace("a = 2", "a_value = 2").replace(
        "return a", "return a_value"
    )


@pytest.mark.parametrize(
    "text", ["", "def f(:", "\0", "x = 1", "#!/bin/python\nx = 1\n", "x = 1; \\\ny = 2\n", '"""\n\n"""\n']
)
@pytest.mark.parametrize("name", sorted(PRESERVING))
def test_odd_texts_are_rewritten_rightly_or_not_at_all(name: str, text: str) -> None:
    made = PRESERVING[name](text, ALL)
    assert made is None or ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))


SIMPLE = (
    "x = a", "y = b", "x = 1", "y = -2", "z = (a, 11)", "w = {'k': b}", "x, y = y, x", "x += 3", "del z; z = 4",
    "z = [x for x in (a, b)]", "x = y if a else b", "y = 1 if a is None else 12", "z = a in (1, b)", "x = max(x, b)",
    "z = not (b in (x, 20))", "y = (lambda v: v + x)(b)", "x = [y for _ in range(2)][0]", "return x, z",
    "y = sum(v for v in (x, y))",
)  # fmt: skip
HEADS = (
    "if a and b > 1:",
    "if not b:",
    "for x in range(3):",
    "if a or (b and x) or y:",
    "for _ in ():",
    "try:",
    "else",
)


def compound(head: str, body: list[str]) -> str:
    inner = "\n".join("    " + line for part in body for line in part.splitlines())
    if head == "try:":
        return f"try:\n{inner}\nexcept TypeError as x_error:\n    y = 7"
    return f"{head}\n{inner}" if head != "else" else f"if a == 1:\n    z = 5\nelse:\n{inner}"


STATEMENTS = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.builds(compound, st.sampled_from(HEADS), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=12,
)


def run(text: str, first: Any, second: Any) -> tuple[str, str]:
    """What the program's `f` gives, or the type of what it raises."""
    names: dict[str, Any] = {}
    exec(compile(text, "<generated>", "exec"), names)
    try:
        return "returned", plain(names["f"](first, second))
    except Exception as exc:  # noqa: BLE001 - any answer is compared
        return "raised", type(exc).__name__


VALUES = st.sampled_from([None, 0, 1, 2, -3, "a", (), (1,), 2.5])


@settings(max_examples=60)
@given(st.lists(STATEMENTS, min_size=1, max_size=6), VALUES, VALUES)
def test_rewritten_programs_give_the_same(statements: list[str], first: Any, second: Any) -> None:
    body = "\n".join("    " + line for part in statements for line in part.splitlines())
    text = f'def f(a, b):\n    """F."""\n    x = 0\n    y = 1\n    z = w = 2\n{body}\n    return x, y, z, w\n'
    before = run(text, first, second)
    for name, rewrite in PRESERVING.items():
        made = rewrite(text, ALL)
        if made is not None:
            assert run(made, first, second) == before, name


def _loaded(name: str, text: str) -> types.ModuleType:
    module = types.ModuleType(name)
    original = importlib.import_module(name)
    module.__dict__.update(__file__=original.__file__, __package__=original.__package__, __spec__=original.__spec__)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def _answers(module: types.ModuleType, names: list[str]) -> list[tuple[str, str, str]]:
    found = []
    for name in names:
        for number in range(12):
            try:
                given_, named = arguments(getattr(module, name), f"{name} {number}")
            except (TypeError, ValueError):
                break
            random.seed(number)
            try:
                found.append((name, "returned", plain(getattr(module, name)(*given_, **named))))
            except Exception as exc:  # noqa: BLE001 - any answer is compared
                found.append((name, "raised", type(exc).__name__))
    return found


@pytest.mark.long
@pytest.mark.parametrize("module", MODULES)
def test_modules_that_others_wrote_go_on_as_before(module: str) -> None:
    original = importlib.import_module(module)
    text = Path(inspect.getsourcefile(original) or "").read_text(encoding="utf-8")
    names = [n for n, f in vars(_loaded(module, text)).items() if inspect.isfunction(f) and f.__module__ == module]
    names = [n for n in names if n not in ("main", "test", "input", "encode", "decode")]
    before = _answers(_loaded(module, text), names)
    for name, rewrite in PRESERVING.items():
        made = rewrite(text, ALL)
        if made is not None:
            assert _answers(_loaded(module, made), names) == before, name
