"""Extracts the names that a verifier's files demand: paths, importable names, keys, formats, words.

Heuristic: a test's text does not show which strings decide. Strings that a test supplies itself are left out where the
syntax shows it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from assay.code.source import SourceError, parse

DemandKind = Literal["path", "name", "key", "format", "literal"]
_EXTENSIONS = (
    "txt|csv|tsv|json|jsonl|ya?ml|toml|xml|html?|md|log|ini|cfg|conf|sql|db|sqlite3?|py|sh|js|ts|c|cpp|h|go|rs|java|rb|"
    "png|jpe?g|svg|pdf|zip|tar|gz|parquet|npy|npz|pkl|pt|bin|out|dat|pem|key|crt|wav|mp4"
)
_FILE = re.compile(rf"(?:[\w@+-][\w.@+-]*/|/|\./|~/)*[\w@+-][\w.@+-]*\.(?:{_EXTENSIONS})")
_ABSOLUTE = re.compile(
    r"/(?:app|workspace|home|root|data|srv|opt|var|mnt|output|etc|project|repo|src|work)(?:/[\w.@+-]+)+"
)
_NOT_THE_AGENTS = re.compile(
    r"/(?:logs|tests|solution|tmp|dev|proc|sys|usr|bin|lib|opt/assay|root/\.|etc/(?:passwd|hosts))"
)
_FIXTURES = frozenset({"tmp_path", "tmpdir", "tmp_path_factory", "tempfile"})
_TEST_TOOLS = frozenset(
    {"pytest", "unittest", "hypothesis", "mock", "nose", "conftest", "_pytest", "setuptools", "pip"}
)
_TAKES_FORMAT = frozenset({"strptime", "strftime", "fullmatch", "match", "search", "findall", "finditer", "compile"})
_TAKES_LITERAL = frozenset({"startswith", "endswith", "count"})
MOST_FILE_CHARS = 400_000


class Demand(NamedTuple):
    """A name that a verifier's file contains."""

    kind: DemandKind
    value: str
    where: str
    """File and line."""


def parse_python_demands(text: str, where: str) -> tuple[Demand, ...]:
    """Returns the demands of a Python test file; empty for text that does not parse."""
    if len(text) > MOST_FILE_CHARS:
        return ()
    try:
        tree = parse(text).tree
    except SourceError:
        return ()
    reader = _Reader(tree, where)
    return tuple(dict.fromkeys(reader.read()))


class _Reader:
    def __init__(self, tree: ast.Module, where: str) -> None:
        self._tree = tree
        self._where = where
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        self._strings = Counter(
            n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        )

    def read(self) -> Iterator[Demand]:
        """Yields all demands in the order of `ast.walk`."""
        asked: list[tuple[DemandKind, str, int]] = []
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._imported(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield from self._attribute(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not self._is_docstring(node):
                yield from self._path(node, node.value)
                asked += [(kind, node.value, node.lineno) for kind in self._role(node)]
        seen = Counter(value for _, value, _ in asked)
        for kind, value, line in asked:
            # A string that also stands where nothing is demanded is what the test itself works with.
            if self._strings[value] == seen[value]:
                yield Demand(kind, value, f"{self._where}:{line}")

    def _is_docstring(self, node: ast.Constant) -> bool:
        return isinstance(self._parents.get(node), ast.Expr)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[Demand]:
        module = "" if isinstance(node, ast.Import) else node.module or ""
        names = [alias.name for alias in node.names if alias.name != "*"]
        for name in [module, *names] if isinstance(node, ast.ImportFrom) else names:
            top = (module or name).partition(".")[0]
            relative = isinstance(node, ast.ImportFrom) and node.level
            if name and not relative and not _is_known(top):
                yield Demand("name", name.rpartition(".")[2], f"{self._where}:{node.lineno}")

    def _attribute(self, node: ast.Attribute) -> Iterator[Demand]:
        """Yields `module.name` for imported modules outside the standard library."""
        assert isinstance(node.value, ast.Name)
        imported = self._modules()
        if node.value.id in imported and not node.attr.startswith("__"):
            yield Demand("name", node.attr, f"{self._where}:{node.lineno}")

    def _modules(self) -> frozenset[str]:
        if not hasattr(self, "_imported_modules"):
            self._imported_modules = frozenset(
                alias.asname or alias.name
                for node in ast.walk(self._tree)
                if isinstance(node, ast.Import)
                for alias in node.names
                if not _is_known(alias.name.partition(".")[0])
            )
        return self._imported_modules

    def _path(self, node: ast.Constant, value: str) -> Iterator[Demand]:
        if not (_FILE.fullmatch(value) or _ABSOLUTE.fullmatch(value)) or _NOT_THE_AGENTS.match(value):
            return
        if self._is_supplied(node) or "://" in value:
            return
        yield Demand("path", value, f"{self._where}:{node.lineno}")

    def _is_supplied(self, node: ast.AST) -> bool:
        """Returns whether the test writes the path itself or keeps it in a folder of its own."""
        while node in self._parents and not isinstance(node, ast.stmt):
            node = self._parents[node]
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if isinstance(node, ast.BinOp) else set()
            attribute = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if names & _FIXTURES or attribute in ("write_text", "write_bytes", "mkdir", "touch", "parametrize"):
                return True
        return False

    def _role(self, node: ast.Constant) -> Iterator[DemandKind]:
        """Yields the kinds of demand that the syntax around a string suggests."""
        parent, value = self._parents.get(node), str(node.value)
        if not value.strip() or len(value) > 200:
            return
        word = re.fullmatch(r"[A-Za-z_][\w .-]*", value) is not None
        if isinstance(parent, ast.Subscript) and parent.slice is node and word and isinstance(parent.ctx, ast.Load):
            if "environ" not in ast.unparse(parent.value):
                yield "key"
        elif isinstance(parent, ast.Compare) and parent.left is node and isinstance(parent.ops[0], ast.In):
            if self._in_assert(node) and len(value) >= 3:
                yield "literal"
        elif isinstance(parent, ast.Call) and node in parent.args and isinstance(parent.func, ast.Attribute):
            name = parent.func.attr
            if name == "get" and word and parent.args[0] is node and "environ" not in ast.unparse(parent.func):
                yield "key"
            elif name in _TAKES_FORMAT and len(value) >= 3:
                yield "format"
            elif name in _TAKES_LITERAL and len(value) >= 3 and self._in_assert(node):
                yield "literal"

    def _in_assert(self, node: ast.AST) -> bool:
        while node in self._parents and not isinstance(node, ast.stmt):
            node = self._parents[node]
        return isinstance(node, ast.Assert)


def _is_known(top: str) -> bool:
    return top in sys.stdlib_module_names or top in _TEST_TOOLS or top.startswith("test")


_SHELL_PATH = re.compile(rf"(?<![\w$.{{}}/-])(/(?:[\w.@+-]+/)*[\w.@+-]+(?:\.(?:{_EXTENSIONS}))?)(?![\w/$*-])")
_GREP = re.compile(r"\bgrep\s+(?:-\w+\s+)*(?:\"([^\"$`]{3,120})\"|'([^']{3,120})')")


def parse_shell_demands(text: str, where: str) -> tuple[Demand, ...]:
    """Returns the absolute paths and grep patterns of a shell script."""
    found: list[Demand] = []
    if len(text) > MOST_FILE_CHARS:
        return ()
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("#", "mkdir", ". ", "source ")):
            continue
        place = f"{where}:{number}"
        found += (Demand("path", path, place) for path in _shell_paths(_SHELL_PATH.findall(line)))
        found += (Demand("literal", one or two, place) for one, two in _GREP.findall(line))
    return tuple(dict.fromkeys(found))


def _shell_paths(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        # What is hidden, or a home folder, is the verifier's own way of working.
        if "/." in path or (path.startswith(("/home/", "/root")) and path.count("/") < 3):
            continue
        if (_ABSOLUTE.fullmatch(path) or "." in path.rpartition("/")[2]) and not _NOT_THE_AGENTS.match(path):
            yield path
