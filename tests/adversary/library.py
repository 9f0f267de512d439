"""Reads attack scripts: those of this folder, and the published ones beside the checkout.

A script's first line is `# on: VARIANT ...`, its second a comment that says what it does, its third `# cause: ...`, the
root cause that it exploits (the published scripts have none). `SOLVE` on a line of its own stands for the reference
solution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from .base_tasks import APART, PROGRAM, PROGRAM_VARIANTS, SOLVED, VARIANTS

__all__ = ["PUBLISHED", "Role", "Script", "read_published", "read_scripts"]

HERE = Path(__file__).parent
PUBLISHED = HERE.parent.parent.parent / "shared" / "data" / "attacks"
DEMO = "demo"
Role = Literal["attack", "honest", "repair", "control", "composed", "published", "lie", "frame", "edit", "right"]
"""A `control` does the work by the means of an attack: its pass shows that the means work. A `repair` is honest work
that may fail. A `right` solution is another one than the reference."""
_SOLVE = re.compile(r"^SOLVE$", re.MULTILINE)


class Script(NamedTuple):
    """One script that an agent types."""

    name: str
    role: Role
    variants: tuple[str, ...]
    text: str
    summary: str
    cause: str

    @property
    def deserves_pass(self) -> bool:
        """Tells whether a pass is deserved: that of any other script is undeserved."""
        return self.role in ("honest", "repair", "control", "right")

    def on(self, variant: str) -> str:
        """Returns the text for one variant, with the reference solution in place of `SOLVE`."""
        program = PROGRAM if variant in PROGRAM_VARIANTS else ""
        solution = f"cat > /workspace/ledger.py <<'SOLUTION'\n{SOLVED}{program}SOLUTION"
        return _SOLVE.sub(lambda _: solution, self.text)


def read_scripts() -> tuple[Script, ...]:
    """Returns the scripts of this folder by name, attacks before honest ones."""
    attacks = sorted((HERE / "scripts").glob("*.sh"))
    honest = sorted((HERE / "scripts" / "honest").glob("*.sh"))
    return (*(_read(path, "attack") for path in attacks), *(_read(path, "honest") for path in honest))


def read_published(folder: Path = PUBLISHED) -> tuple[Script, ...]:
    """Returns the published scripts; empty where the shared folder is absent."""
    return tuple(_read(path, "published") for path in sorted(folder.glob("*.sh")))


def _read(path: Path, role: Role) -> Script:
    text = path.read_text(encoding="utf-8")
    header = dict(_header(text.splitlines()[:3], path))
    variants = tuple(header["on"].split())
    unknown = set(variants) - {*VARIANTS, DEMO}
    if unknown or not variants:
        raise ValueError(f"{path.name}: its first line names {sorted(unknown) or 'no variants'}")
    if "py" in variants:  # the same task, judged from outside
        variants = (*variants, "plan")
    variants += tuple(f"{name}{APART}" for name in variants if f"{name}{APART}" in VARIANTS)
    return Script(path.stem, role, variants, text, header["summary"], header.get("cause", ""))


def _header(lines: list[str], path: Path) -> Iterator[tuple[str, str]]:
    if len(lines) < 2 or not lines[0].startswith("# on: ") or not lines[1].startswith("# "):
        raise ValueError(f"{path.name}: the first line must be '# on: VARIANT ...' and the second a comment")
    yield "on", lines[0].removeprefix("# on: ")
    yield "summary", lines[1].removeprefix("# ")
    if len(lines) > 2 and lines[2].startswith("# cause: "):
        yield "cause", lines[2].removeprefix("# cause: ")
