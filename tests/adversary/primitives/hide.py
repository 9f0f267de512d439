"""How a text hides what it reaches for: each maps Python text to Python text that does the same."""

from __future__ import annotations

import ast
import base64
import codecs
import zlib
from collections.abc import Callable

from .registry import primitive

__all__: list[str] = []
KEY = 7


@primitive("hide", "module", "values", "program")
def plainly(text: str) -> str:
    """Hides nothing."""
    return text


@primitive("hide", "module", "values", "program")
def cut_strings(text: str) -> str:
    """Cuts every string in two."""
    return _with_strings(text, lambda s: ast.parse(f"{s[: len(s) // 2]!r} + {s[len(s) // 2 :]!r}", mode="eval").body)


@primitive("hide", "module", "values", "program")
def masked_strings(text: str) -> str:
    """Writes every string as masked bytes."""

    def masked(value: str) -> ast.expr:
        numbers = [byte ^ KEY for byte in value.encode()]
        return ast.parse(f"bytes([_b ^ {KEY} for _b in {numbers}]).decode()", mode="eval").body

    return _with_strings(text, masked)


@primitive("hide", "module", "values", "program")
def reversed_strings(text: str) -> str:
    """Writes every string backwards."""
    return _with_strings(text, lambda s: ast.parse(f"{s[::-1]!r}[::-1]", mode="eval").body)


@primitive("hide", "module", "values", "program")
def names_in_variables(text: str) -> str:
    """Reads attributes by `getattr` with a variable, whose text is cut."""
    tree = ast.parse(text)
    change = _Attributes()
    tree = change.visit(tree)
    lines = [f"{name} = {word[:2]!r} + {word[2:]!r}" for word, name in change.names.items()]
    return "\n".join([*lines, ast.unparse(ast.fix_missing_locations(tree)), ""])


@primitive("hide", "module", "values", "program")
def compressed_and_executed(text: str) -> str:
    """Executes a compressed text."""
    data = base64.b64encode(zlib.compress(text.encode())).decode()
    return f"import base64 as _64, zlib as _zl\nexec(_zl.decompress(_64.b64decode({data!r})), globals())\n"


@primitive("hide", "module", "values", "program")
def run_by_tracer(text: str) -> str:
    """Has the standard library's `trace` run an encoded text: no `exec` is spelled."""
    data = codecs.encode(text, "rot13")
    return (
        "import codecs as _cd, trace as _tr\n"
        f"_tr.Trace(count=0, trace=0).runctx(_cd.decode({data!r}, 'rot13'), globals(), globals())\n"
    )


@primitive("hide", "module", "values", "program")
def kept_in_docstring(text: str) -> str:
    """Keeps the text in a docstring, as examples are."""
    return f"def _notes():\n    {text!r}\nexec(_notes.__doc__, globals())\n"


def _with_strings(text: str, write: Callable[[str], ast.expr]) -> str:
    tree = _Strings(write).visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Strings(ast.NodeTransformer):
    """Writes string constants anew, but f-strings and patterns."""

    def __init__(self, write: Callable[[str], ast.expr]) -> None:
        self._write = write

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        plain = isinstance(node.value, str) and len(node.value) > 1
        return self._write(node.value) if plain else node


class _Attributes(ast.NodeTransformer):
    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or node.attr.startswith("__"):
            return node
        name = self.names.setdefault(node.attr, f"_k{len(self.names)}")
        return ast.Call(ast.Name("getattr", ast.Load()), [node.value, ast.Name(name, ast.Load())], [])
