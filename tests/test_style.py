"""Size, parameters, imports: the rules of the house that a machine can read."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.figures import refused_names

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "assay").rglob("*.py"))
MODULE_LINES, FUNCTION_LINES, PARAMETERS = 500, 60, 6
APPLICATIONS, APPLICATION_LINES = ROOT / "src" / "assay" / "environments" / "services" / "apps", 2_000
"""An application is one file of declarations, which a newcomer reads from top to bottom."""
FORBIDDEN_NAMES = {"common", "helpers", "manager", "misc", "utils"}
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d+(?:,\d*)?\})\+")
pytestmark = pytest.mark.quick


def functions(tree: ast.AST, prefix: str = "") -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                found.append((name, node))
            found += functions(node, f"{name}.")
    return found


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Counts what a call may give by position; a keyword names what it is."""
    given = node.args.posonlyargs + node.args.args
    return len([a for a in given if a.arg not in ("self", "cls")])


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("command" in ast.unparse(d) or "callback" in ast.unparse(d) for d in node.decorator_list)


def size_problems(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > (APPLICATION_LINES if path.parent == APPLICATIONS else MODULE_LINES):
        yield f"{path}: {lines} lines"
    for name, node in functions(tree):
        lines = (node.end_lineno or 0) - node.lineno + 1
        if lines > FUNCTION_LINES and lines - len((ast.get_docstring(node) or "").splitlines()) > FUNCTION_LINES:
            yield f"{path}: {name}: {lines} lines"
        # A command's parameters are its options, generated from one typed configuration where it runs anything.
        if parameters(node) > PARAMETERS and not is_command(node):
            yield f"{path}: {name}: {parameters(node)} parameters"


def possessive_groups(path: Path) -> Iterator[str]:
    text = path.read_text()
    # Parsing takes long: only a file in whose strings, put together, such a group may stand is parsed.
    if not POSSESSIVE_GROUP.search(re.sub(r"""['"\s]+[rRbBfFuU]*['"\s]*""", "", text)):
        return
    held = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
    texts = [v.decode("latin-1") if isinstance(v, bytes) else v for v in held if isinstance(v, bytes | str)]
    yield from (f"{path}: {text}" for text in texts if POSSESSIVE_GROUP.search(text) and "(?" in text)


@pytest.mark.long
def test_modules_and_functions_are_small() -> None:
    assert len(SOURCES) > 700
    texts = ((path, path.read_text()) for path in SOURCES)
    assert [problem for path, text in texts for problem in size_problems(path, text, ast.parse(text))] == []


def test_no_room_for_leftovers() -> None:
    assert not [p for p in SOURCES if p.stem in FORBIDDEN_NAMES or FORBIDDEN_NAMES & set(p.parts)]


def test_names_are_terms_of_the_field() -> None:
    assert list(refused_names(ROOT)) == []


def test_root_table_equals_all() -> None:
    import assay

    assert set(assay.__all__) == set(assay._EXPORTS) | {"__version__"}
    assert all(getattr(assay, name) is not None for name in assay.__all__)


def _import_cost(statement: str) -> tuple[float, int, set[str]]:
    code = (
        f"import sys, resource; b = resource.getrusage(resource.RUSAGE_SELF); n = len(sys.modules)\n{statement}\n"
        "a = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime, len(sys.modules) - n, *sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return float(out[0]), int(out[1]), set(out[2:])


def test_import_assay_is_cheap() -> None:
    _, modules, loaded = _import_cost("import assay")
    assert modules <= 300
    assert not loaded & {"duckdb", "pyarrow", "scipy", "numpy", "httptools", "rich", "typer"}


def test_records_need_msgspec_alone() -> None:
    _, _, loaded = _import_cost("import assay.records")
    ours = {m for m in loaded if m.startswith("assay") and not m.startswith("assay.records")}
    assert ours == {"assay"}
    assert not loaded & {"blake3", "duckdb", "pyarrow", "numpy", "httptools", "rich", "typer", "yaml"}


def test_no_pattern_has_a_possessive_group() -> None:
    """They are matched wrongly before Python 3.11.5 where the group holds a choice; atomic ones are not."""
    assert [found for path in SOURCES for found in possessive_groups(path)] == []
