"""The map of the code is the code: arrows run one way, private modules stay private, every named file exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from scripts.layers_page import allowed_imports, drawing, layers, table

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "design" / "architecture.md"
FILE = re.compile(r"`((?:src/assay/)?[a-z_]+(?:/[a-z_]+)*/(?:[a-z_]+\.py)?)(?:: \w+)?`")
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+\S+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n;#]+)|import[ \t]+[^\n;#]+)", re.MULTILINE
)
PRIVATE_ALLOWED: frozenset[tuple[str, str]] = frozenset()
pytestmark = pytest.mark.quick


@cache
def _imports() -> tuple[tuple[str, str], ...]:
    """Returns importing and imported modules, also of imports inside functions."""
    return tuple(_read_imports())


def _read_imports() -> Iterator[tuple[str, str]]:
    for path in sorted((SOURCE / "assay").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        package = list(parts[:-1])
        for node in _import_statements(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                target = ".".join([*base, *([node.module] if node.module else [])])
                yield from ((module, f"{target}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)


def _import_statements(text: str) -> Iterator[ast.stmt]:
    """Yields all import statements, also of examples in strings; parsing whole files takes ten times as long."""
    for found in IMPORT.finditer(text):
        with suppress(SyntaxError):  # a sentence that begins like one
            yield from ast.parse(found[0].strip()).body


def _between_packages() -> Iterator[tuple[str, str]]:
    packages = allowed_imports()
    for module, target in _imports():
        source, imported = module.split("."), target.split(".")
        inside = len(source) > 1 and imported[0] == "assay" and len(imported) > 1
        if inside and source[1] in packages and imported[1] in packages and source[1] != imported[1]:
            yield module, target


def test_no_import_runs_back() -> None:
    back = [(m, t) for m, t in _between_packages() if t.split(".")[1] not in allowed_imports()[m.split(".")[1]]]
    assert back == []


def test_no_package_imports_a_private_module_of_another() -> None:
    private = {
        (module, target)
        for module, target in _between_packages()
        if any(part.startswith("_") and (SOURCE.joinpath(*target.split(".")[: n + 3])).with_suffix(".py").is_file()
               for n, part in enumerate(target.split(".")[2:]))
    }  # fmt: skip
    assert private <= PRIVATE_ALLOWED


def test_programs_for_sandboxes_import_nothing_of_assay() -> None:
    """A program may import the files of its own folder, by their bare names."""
    programs = [(module, target) for module, target in _imports() if ".payload." in f"{module}."]
    assert len({module for module, _ in programs}) > 20
    assert [(module, target) for module, target in programs if target.partition(".")[0] == "assay"] == []


def test_permitted_imports_have_no_circle() -> None:
    order = [package for packages in layers() for package in packages]
    allowed = allowed_imports()
    assert all(order.index(other) < order.index(package) for package in order for other in allowed[package])


def test_page_holds_the_drawing_and_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert drawing() in text
    assert table() in text
    assert set(re.findall(r"^\| `(\w+)` \|", table(), re.MULTILINE)) == set(allowed_imports())


def test_every_file_that_the_page_names_exists() -> None:
    named = FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 50
    places = (ROOT, SOURCE / "assay")
    assert [name for name in named if name != "payload/" and not any((at / name).exists() for at in places)] == []
