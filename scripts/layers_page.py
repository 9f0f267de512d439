"""The generated part of docs/design/architecture.md: the packages of `assay` as layers, and what each may import.

Read from the import contracts in pyproject.toml, which `lint-imports` enforces, and from the first line of each
package's docstring.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["allowed_imports", "drawing", "layers", "table"]

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "assay"


@cache
def allowed_imports() -> Mapping[str, frozenset[str]]:
    """Returns for each package those that it may import, directly or through others."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    refused = {package: frozenset[str]() for package in packages}
    for contract in contracts:
        if contract["type"] == "forbidden" and contract["name"].endswith("imports only what the design allows"):
            names = {name.removeprefix("assay.") for name in contract["forbidden_modules"]}
            for source in contract["source_modules"]:
                refused[source.removeprefix("assay.")] = frozenset(names)
    return {package: frozenset(packages - refused[package] - {package}) for package in packages}


def layers() -> list[list[str]]:
    """Returns the packages by the length of their longest chain of imports, the lowest layer first."""
    allowed = allowed_imports()

    @cache
    def level(package: str) -> int:
        return 1 + max((level(other) for other in allowed[package]), default=-1)

    found: list[list[str]] = [[] for _ in range(1 + max(map(level, allowed)))]
    for package in sorted(allowed):
        found[level(package)].append(package)
    return found


def _needed(package: str) -> list[str]:
    """Returns the packages that one may import and that no other of these may import: the arrows worth drawing."""
    allowed = allowed_imports()
    return sorted(other for other in allowed[package] if not any(other in allowed[via] for via in allowed[package]))


def drawing() -> str:
    """Returns a Mermaid flow chart, an arrow from each package to those right below it."""
    lines = ["```mermaid", "flowchart TD"]
    for packages in reversed(layers()):
        lines += [f"    {package} --> {' & '.join(_needed(package))}" for package in packages if _needed(package)]
    return "\n".join([*lines, "```"])


def table() -> str:
    """Returns a table of the packages, the lowest layer first: purpose, permitted imports, size."""
    lines = ["| package | purpose | may import | modules |", "|---|---|---|---:|"]
    for packages in layers():
        for package in packages:
            folder = SOURCE / package
            text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
            others = ", ".join(f"`{name}`" for name in sorted(allowed_imports()[package])) or "nothing of ours"
            count = len(list(folder.rglob("*.py")))
            lines.append(f"| `{package}` | {' '.join(text.partition(chr(10) * 2)[0].split())} | {others} | {count} |")
    return "\n".join(lines)
