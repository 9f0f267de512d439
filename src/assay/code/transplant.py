"""Replaces a function of one version of a program by the same function of another version."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .source import AnyFunction, Program, SourceError, functions, parse


def find_function(program: Program, name: str) -> AnyFunction | None:
    """Returns the first function with a qualified name; None for a missing one."""
    info = next((one for one in functions(program) if one.name == name), None)
    nodes = (node for node in ast.walk(program.tree) if isinstance(node, AnyFunction))
    return None if info is None else next((node for node in nodes if node.lineno == info.def_line), None)


def transplant_function(text: str, donor: str, name: str) -> str | None:
    """Returns the text with a function's signature and body as the donor has them; decorators stay.

    None where one of the texts has no such function, where they stand at different depths, where both functions are
    the same apart from docstrings, comments and layout, or where the result does not parse.
    """
    try:
        program, other = parse(text), parse(donor)
        own, theirs = find_function(program, name), find_function(other, name)
        if own is None or theirs is None or own.col_offset != theirs.col_offset or _meaning(own) == _meaning(theirs):
            return None
        start, end = program.whole_lines(own.lineno, own.end_lineno or own.lineno)
        first, last = other.whole_lines(theirs.lineno, theirs.end_lineno or theirs.lineno)
        body = donor[first:last]
        made = f"{text[:start]}{body}{'' if body.endswith(chr(10)) else chr(10)}{text[end:]}"
        parse(made)
    except SourceError:
        return None
    return made


def _meaning(node: AnyFunction) -> str:
    """Returns the syntax of kind, parameters and body without the docstring."""
    documented = ast.get_docstring(node, clean=False) is not None
    body: Sequence[ast.stmt] = node.body[1:] if documented else node.body
    return "\n".join([type(node).__name__, *(ast.dump(part) for part in (node.args, *body))])
