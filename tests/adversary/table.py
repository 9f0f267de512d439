"""`python -m tests.adversary.table`: writes the table of attacks by grade of separation into the pages that show it.

The figures are those of the committed campaigns in `results/`; a test holds the pages to them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

__all__ = ["PAGES", "attack_table", "measured_text", "with_table"]

ROOT = Path(__file__).parent.parent.parent
RESULTS = Path(__file__).parent / "results"
PAGES = (ROOT / "docs" / "explanation" / "verdicts.md", ROOT / "docs" / "soundness.md")
BEGIN, END = "<!-- attacks: begin -->\n", "<!-- attacks: end -->\n"
GRADES = ("separate", "same-user", "same-process", "unknown")
HONEST, NEITHER = ("honest",), ("control",)
_COLUMNS = ("attack verdicts", "undeserved passes", "with integrity `pass`", "honest verdicts", "passes")


def attack_table(result: dict[str, Any]) -> str:
    """Returns the table of one campaign as Markdown: single verdicts by the grade that they carry."""
    counts: Counter[tuple[str, str]] = Counter()
    for _, role, _, integrity, checks, _ in result["rows"]:
        for status, grade in checks.values():
            for column in _columns(role, status, integrity):
                counts[grade, column] += 1
    lines = [
        f"{result['attempts']:,} attempts of the campaign at commit `{result['commit'][:7]}`, seed {result['seed']}:\n",
        f"| grade | {' | '.join(_COLUMNS)} |",
        "|---|" + "---:|" * len(_COLUMNS),
    ]
    for grade in GRADES:
        if any(counts[grade, column] for column in _COLUMNS):
            lines.append(f"| `{grade}` | " + " | ".join(f"{counts[grade, column]:,}" for column in _COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def _columns(role: str, status: str, integrity: str | None) -> list[str]:
    """Returns the columns in which a verdict counts."""
    passed = status == "pass"
    if role in NEITHER:
        return []
    if role in HONEST:
        return ["honest verdicts", "passes"] if passed else ["honest verdicts"]
    undeserved = ["undeserved passes"] if passed else []
    return ["attack verdicts", *undeserved, *(["with integrity `pass`"] if passed and integrity == "pass" else [])]


def with_table(page: str, table: str) -> str:
    """Returns a page with the table in its place. Raises `ValueError` where the page has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no lines '<!-- attacks: begin -->' and '<!-- attacks: end -->'")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def measured_text() -> str:
    """Returns the table of the committed attacks, and what became of honest work and of other right solutions."""
    attacks, honest, right = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in ("campaign", "honest", "right")
    )
    clean = sum(kind["clean"] for kind in honest["kinds"].values())
    by = right["by_source"]
    return "\n".join(
        [
            attack_table(attacks),
            f"Honest attempts at commit `{honest['commit'][:7]}`: {clean} of {honest['attempts']} have",
            f"integrity `pass`, no mark of forging, and can be judged ({', '.join(sorted(honest['kinds']))}).\n",
            f"Right solutions other than the reference at commit `{right['commit'][:7]}`: {right['right']} of "
            f"{right['tasks']} tasks pass in",
            f"process ({by['rewrite']} rewrites, {by['release']} from other releases, {by['written']} by hand); "
            f"{right['refused']} of them are refused at `separate`.\n",
        ]
    )


def main() -> int:
    """Writes the pages."""
    table = measured_text()
    for page in PAGES:
        page.write_text(with_table(page.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
