"""Puts every installed harness through every scenario, and writes docs/harnesses.json and the table in
docs/harnesses.md. Real programs in real sandboxes with no network; a scripted model.

    .venv/bin/python scripts/harness_matrix.py                 # all that is installed
    .venv/bin/python scripts/harness_matrix.py --only pi codex --scenarios plain cut
    .venv/bin/python scripts/harness_matrix.py --scenarios silence --silence 330 --at-once 13
    .venv/bin/python scripts/harness_matrix.py --table         # the table alone, from what is recorded

What was not run this time keeps what is recorded of it. What is not installed is `not run`, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from assay.agents.harnesses import find_recipe, recipes  # noqa: E402
from assay.agents.harnesses.install import installed_or_none  # noqa: E402
from assay.environments.workspace.namespaces import NamespacesBackend  # noqa: E402
from assay.settings import Settings  # noqa: E402
from scripts.harness_certificates import certificate_cell  # noqa: E402
from scripts.harness_scenarios import SCENARIOS, Cell, run_cell  # noqa: E402

RESULTS, PAGE = ROOT / "docs" / "harnesses.json", ROOT / "docs" / "harnesses.md"
BEGIN, END = "<!-- table: begin (scripts/harness_matrix.py) -->", "<!-- table: end -->"
CERTIFICATE = "certificate"
COLUMNS = {
    "plain": "file written, two calls at once",
    "streaming": "streamed",
    "malformed": "malformed arguments",
    "errors": "a 500, a 429",
    "cut": "cut stream",
    "silence": "silent model",
    "compaction": "compaction",
    "sub_agent": "sub-agent",
    CERTIFICATE: "sampled tokens certified",
}
ROWS = tuple((recipe.name, dialect) for recipe in recipes() for dialect in recipe.dialects)


class Results(msgspec.Struct):
    """What is recorded of all runs so far."""

    cells: list[Cell] = []
    versions: dict[str, str] = {}
    machine: str = ""
    date: str = ""


def load_results() -> Results:
    """What is recorded."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results) if RESULTS.is_file() else Results()


async def measure(
    rows: Sequence[tuple[str, str]], scenarios: Sequence[str], at_once: int, silence_s: float | None
) -> list[Cell]:
    """Runs the cells, a few at once."""
    backend, places = NamespacesBackend(), asyncio.Semaphore(at_once)
    cache = Settings.from_environment().cache

    async def one(harness: str, dialect: str, scenario: str) -> Cell:
        if installed_or_none(cache, find_recipe(harness)) is None:
            return Cell(harness, dialect, scenario, "not run", "not installed here")
        async with places:
            if scenario == CERTIFICATE:
                cell = await certificate_cell(backend, harness, dialect)
            else:
                cell, _ = await run_cell(backend, harness, dialect, scenario, silence_s=silence_s)
        sys.stderr.write(f"{harness} {dialect} {scenario}: {cell.status} {cell.note[:200]} ({cell.seconds:.0f} s)\n")
        return cell

    try:
        return list(await asyncio.gather(*(one(*row, scenario) for row in rows for scenario in scenarios)))
    finally:
        await backend.close()


def merged(before: Results, cells: Sequence[Cell]) -> Results:
    """What was recorded with what was measured now."""
    kept = {(c.harness, c.dialect, c.scenario): c for c in (*before.cells, *cells)}
    order = {row: number for number, row in enumerate(ROWS)}
    names = [*SCENARIOS, CERTIFICATE]
    found = [c for c in kept.values() if (c.harness, c.dialect) in order and c.scenario in names]
    found.sort(key=lambda c: (order[c.harness, c.dialect], names.index(c.scenario)))
    return Results(
        cells=found,
        versions={recipe.name: recipe.version for recipe in recipes()},
        machine=f"Linux {platform.machine()}",
        date=time.strftime("%Y-%m-%d"),
    )


def table(results: Results) -> str:
    """The Markdown table, and what stands below it."""
    by_place = {(c.harness, c.dialect, c.scenario): c for c in results.cells}
    lines = [
        "| harness | API | " + " | ".join(COLUMNS.values()) + " |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    notes: list[str] = []
    for harness, dialect in ROWS:
        shown = [_shown(by_place.get((harness, dialect, _scenario(name))), name, notes) for name in COLUMNS]
        lines.append(f"| {harness} {results.versions.get(harness, '')} | {dialect} | " + " | ".join(shown) + " |")
    told = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    return "\n".join(lines) + f"\n\nMeasured {results.date} on {results.machine}.\n\n{told}"


def _scenario(column: str) -> str:
    return "plain" if column == "streaming" else column


def _shown(cell: Cell | None, column: str, notes: list[str]) -> str:
    if cell is None:
        return "not run"
    if column == "streaming":
        return {True: "yes", False: "asks for whole answers", None: "not run"}[cell.streamed]
    text = {"not applicable": "n/a"}.get(cell.status, cell.status)
    if column == CERTIFICATE and cell.status == "pass":
        text, note = cell.note.split("; ", 1)[0], cell.note.partition("; ")[2]
    else:
        note = cell.note
    if not note or (cell.status == "not run" and note == "not installed here"):
        return text
    note = " ".join(note.split()).replace("|", "\\|").replace("<", "&lt;")[:300]
    if note not in notes:
        notes.append(note)
    return f"{text} ({notes.index(note) + 1})"


def write_page(results: Results) -> None:
    """Puts the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(results)}\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Measures, and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names of harnesses")
    parser.add_argument("--scenarios", nargs="*", default=[*SCENARIOS, CERTIFICATE])
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--silence", type=float, help="seconds, for harnesses whose own clock cannot be shortened")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given = parser.parse_args()
    if given.table:
        results = load_results()
    else:
        rows = [row for row in ROWS if not given.only or row[0] in given.only]
        cells = asyncio.run(measure(rows, given.scenarios, given.at_once, given.silence))
        results = merged(load_results(), cells)
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    write_page(results)
    return int(any(cell.status == "fail" for cell in results.cells))


if __name__ == "__main__":
    sys.exit(main())
