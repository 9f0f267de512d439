"""Puts an excerpt of the demo's real output into README.md: `assay demo | python scripts/readme_output.py`.

Lines are taken as they are: the summary table up to pass@1, the digests, the solved attempt's verdict, the forgery.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
WIDTH = 110


def excerpt(output: str) -> list[str]:
    """About ten lines of a demo's output."""
    lines = output.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("agent "))
    end = lines[head].find("pass@2")
    table = [line[: end if end > 0 else None].rstrip() for line in lines[head : head + 4]]
    digests = next(line for line in lines if line.startswith("tasks "))
    solved = next(i for i, line in enumerate(lines) if line.startswith("--- one solved"))
    forged = next(i for i, line in enumerate(lines) if line.startswith("--- a forged"))
    shown = [lines[solved], _first(lines[solved:], "verdict")]
    shown += [lines[forged], _first(lines[forged:], "verdict"), _first(lines[forged:], "CAUGHT", "NOT CAUGHT")]
    return [*table, digests, *(line[: WIDTH - 4] + " ..." if len(line) > WIDTH else line for line in shown)]


def _first(lines: list[str], *beginnings: str) -> str:
    return next(line for line in lines if line.startswith(beginnings))


def main() -> None:
    """Reads the output from stdin, rewrites the block after the comment in README.md."""
    made = "\n".join(excerpt(sys.stdin.read()))
    text = README.read_text(encoding="utf-8")
    pattern = r"(<!-- made by: assay demo[^>]*-->\n```text\n).*?```\n"
    README.write_text(re.sub(pattern, lambda m: f"{m[1]}{made}\n```\n", text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
