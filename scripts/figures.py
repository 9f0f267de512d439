"""`python scripts/figures.py [--json] [ROOT]`: figures of size, structure and wording of a checkout, as a table.

The figures are counts over the text of `src/assay`, `docs` and `README.md`; nothing is imported, so that any commit can
be measured: `git worktree add ../before COMMIT && python scripts/figures.py ../before`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REFUSED_NAMES = frozenset({
    "again", "alone", "around", "asked", "began", "begun", "found", "given", "heard", "held", "kept", "known", "learnt",
    "made", "means", "moment", "passing", "past", "place", "said", "seen", "shown", "spent", "spoilt", "standing",
    "taken", "talk", "told", "wanted",
})  # fmt: skip
"""Words that are not a name by themselves, nor a class's first or last word."""
_DEFINITION = re.compile(r"\b(def|class)\s+(\w+)")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_POINTER = re.compile(r"See `[^`]*`\.?")
PHRASES = ("is none", "nobody", "is no")


def python_files(root: Path) -> list[Path]:
    """Returns the modules of the package."""
    return sorted((root / "src" / "assay").rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def refused_names(root: Path) -> Iterator[str]:
    """Yields modules, classes and functions whose name is refused, as `path:line name`."""
    for path in python_files(root):
        if path.stem.strip("_") in REFUSED_NAMES:
            yield f"{path.relative_to(root)}:1 {path.stem}"
        # Parsing takes long: only a file in whose text such a definition may stand, as code or in a string, is parsed.
        if not any(_is_refused(*found) for found in _DEFINITION.findall(path.read_text(encoding="utf-8"))):
            continue
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                keyword = "class" if isinstance(node, ast.ClassDef) else "def"
                if _is_refused(keyword, node.name):
                    yield f"{path.relative_to(root)}:{node.lineno} {node.name}"


def _is_refused(keyword: str, name: str) -> bool:
    if keyword == "def":
        return name.strip("_") in REFUSED_NAMES
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and bool({words[0], words[-1]} & REFUSED_NAMES)


def weak_docstrings(root: Path) -> Iterator[str]:
    """Yields docstrings that begin with "What" or "Whether" or only point elsewhere."""
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    for path in python_files(root):
        for node in ast.walk(_tree(path)):
            text = (ast.get_docstring(node) or "") if isinstance(node, documented) else ""
            if text.startswith(("What ", "Whether ")) or _POINTER.fullmatch(text.strip()):
                yield f"{path.relative_to(root)}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"


def _prose(path: Path) -> str:
    """Returns a module's strings (docstrings, messages, help), or the whole text of a page."""
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8")
    strings = [
        node.value for node in ast.walk(_tree(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(strings)


def phrases(root: Path) -> dict[str, int]:
    """Returns how often each phrase stands in docs and in strings of the code."""
    pages = [root / "README.md", *(p for p in sorted((root / "docs").rglob("*.md")) if p.name != "json.md")]
    text = "\n".join(map(_prose, [*pages, *python_files(root)]))
    # The account of /etc/passwd is followed by a colon, and "is None" is Python.
    text = re.sub(r"\bis None\b", "", text)
    return {phrase: len(re.findall(rf"\b{phrase}\b(?!:)", text, re.IGNORECASE)) for phrase in PHRASES}


def _module(root: Path, path: Path) -> tuple[str, ...]:
    parts = path.relative_to(root / "src").with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def arrows(root: Path, package: str) -> tuple[int, int]:
    """Returns the imports inside a package: between its modules, and between its direct members."""
    members: set[tuple[str, str]] = set()
    files: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    modules = {_module(root, path): path for path in python_files(root)}
    for module, path in modules.items():
        if module[:2] != ("assay", package):
            continue
        here = list(module if path.stem == "__init__" else module[:-1])
        for node in ast.walk(_tree(path)):
            for target in _targets(node, here, modules):
                if target[:2] == ("assay", package) and target != module:
                    files.add((module, target))
                    one, other = module[2:3], target[2:3]
                    if one and other and one != other:
                        members.add((one[0], other[0]))
    return len(files), len(members)


def _targets(node: ast.AST, here: list[str], modules: dict[tuple[str, ...], Path]) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ast.Import):
        yield from (tuple(alias.name.split(".")) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = here[: len(here) - node.level + 1] if node.level else []
        whole = (*base, *(node.module.split(".") if node.module else ()))
        for alias in node.names:
            yield (*whole, alias.name) if (*whole, alias.name) in modules else whole


def figures(root: Path) -> dict[str, int | float]:
    """Returns every figure by its name."""
    sizes = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(root))
    found: dict[str, int | float] = {
        "files in src": len(sizes),
        "lines in src": sum(sizes),
        "lines of a file, median": statistics.median(sizes),
        "lines of a file, 90th percentile": sizes[int(0.9 * len(sizes))],
    }
    for package in ("formats", "rollout"):
        between_files, between_members = arrows(root, package)
        found[f"files flat in {package}"] = len(list((root / "src" / "assay" / package).glob("*.py")))
        found[f"imports between modules of {package}"] = between_files
        found[f"imports between members of {package}"] = between_members
    found["refused names"] = len(list(refused_names(root)))
    found["docstrings that begin with What or Whether, or only point elsewhere"] = len(list(weak_docstrings(root)))
    found |= {f'"{phrase}" in docs and strings': count for phrase, count in phrases(root).items()}
    return found


def main(arguments: list[str]) -> int:
    """Prints the figures; with `--list` the refused names and weak docstrings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--list", action="store_true", help="each refused name and weak docstring")
    given = parser.parse_args(arguments)
    if given.list:
        sys.stdout.writelines(f"{line}\n" for line in (*refused_names(given.root), *weak_docstrings(given.root)))
        return 0
    found = figures(given.root)
    if given.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{value:>9,}  {name}\n" for name, value in found.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
