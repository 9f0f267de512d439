"""Spans, functions and equal programs."""

from __future__ import annotations

import ast

import pytest

from assay.code.source import MAX_CACHED_CHARS, SourceError, _try_functions, equivalent, functions, functions_of, parse

pytestmark = pytest.mark.quick
TEXT = 'def é(a):\n    """D."""\n    return "ü" + a\n\n\n'
TEXT += "class C:\n    @staticmethod\n    def m(): return 1 if x and y else 2\n"


def test_span_counts_characters_not_bytes() -> None:
    program = parse(TEXT)
    strings = [n for n in ast.walk(program.tree) if isinstance(n, ast.Name)]
    assert {program.source(n) for n in strings} == {"a", "x", "y", "staticmethod"}


def test_lines_split_as_the_parser_splits_them() -> None:
    program = parse("a = 1\x0c\nb = '\u2028'\r\nc = 3")
    assert len(program.lines) == 3
    assert [program.source(s) for s in program.tree.body] == ["a = 1", "b = '\u2028'", "c = 3"]


def test_functions_are_described() -> None:
    first, second = functions(parse(TEXT))
    assert (first.name, first.line, first.body_line, first.end_line, first.documented) == ("é", 1, 3, 3, True)
    assert (second.name, second.line, second.def_line, second.complexity) == ("C.m", 7, 8, 3)


def test_layout_and_docstrings_make_no_other_program() -> None:
    assert equivalent("x = 1\ny = (2)\n", "\n\nx = 1  # one\ny = 2")
    assert equivalent('def f():\n    """A."""\n    return 1\n', 'def f():\n    """B."""\n    return 1\n')
    assert not equivalent("x = 1\n", "x = True\n")
    assert not equivalent("x = 0.0\n", "x = -0.0\n")


def test_what_does_not_compile_is_refused() -> None:
    with pytest.raises(SourceError, match="compile"):
        equivalent("x = 1\n", "return 1\n")


def test_functions_of_short_texts_are_kept_and_those_of_long_ones_are_not() -> None:
    _try_functions.cache_clear()
    text, broken = "def f():\n    return 1\n", "def f(:\n"
    assert [one.name for one in functions_of(text)] == [one.name for one in functions_of(text)] == ["f"]
    for _ in range(2):
        with pytest.raises(SourceError, match="not a Python program"):
            functions_of(broken)
    long = text + "#" * MAX_CACHED_CHARS
    assert functions_of(long) == functions_of(text)
    found = _try_functions.cache_info()
    assert (found.hits, found.misses, found.currsize) == (3, 2, 2)
    assert (found.maxsize or 0) * MAX_CACHED_CHARS < 2**26
