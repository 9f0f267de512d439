"""Committed results of experiments: a JSON file each, with commit, seeds, bars and the tables of its page.

`python -m experiments.pages` writes the tables into the pages of `docs/experiments`, between their marks; a test holds
the pages to the files. A result is written by an experiment's `--record`, which refuses a tree with uncommitted changes
in `src` or `experiments`, so that the commit is the code that was run.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks._measure import cpu_seconds, machine_facts

__all__ = ["PAGES", "RESULTS", "Bar", "Recording", "Result", "Table", "committed_head", "render_tables"]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
PAGES = ROOT / "docs" / "experiments"
_BLOCK = re.compile(r"(<!-- measured: (\S+) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_CODE, _WRITTEN = ("src/", "experiments/"), "experiments/results/"


class Bar(msgspec.Struct, frozen=True):
    """A bar that was set before the run, and what was measured."""

    bar: str
    measured: str
    met: bool | None
    """None where seeds of the plan were not run, so that the bar is not decided."""

    @property
    def verdict(self) -> str:
        """In a word."""
        return "not decided" if self.met is None else "met" if self.met else "missed"


class Table(msgspec.Struct, frozen=True):
    """A table of a page; the first column is aligned left."""

    columns: list[str]
    rows: list[list[str]]


class Result(msgspec.Struct, frozen=True):
    """Measures of one command."""

    command: str
    commit: str
    machine: dict[str, Any]
    seeds: list[int]
    planned: list[int]
    """Seeds of the plan; those that are not in `seeds` were not run."""
    plan: str
    """The plan, fixed before the run."""
    cpu_s: float
    """CPU seconds of this process and its finished children; runs that were found in the store cost nothing again."""
    bars: list[Bar]
    tables: dict[str, Table]
    figures: dict[str, Any] = {}
    """Figures from which the tables are made."""


class Recording:
    """Writes one result when all its seeds are done. With `enabled` False nothing is written.

    Args:
        name: Name of the file in `experiments/results`.
        command: The command that repeats it.
        seeds: Seeds that are run.
        plan: What is fixed before the run: arms, sizes, seeds.
        planned: Seeds of the plan; bars are not decided before all of them were run.
    """

    def __init__(
        self,
        name: str,
        command: str,
        seeds: Sequence[int],
        plan: str,
        *,
        enabled: bool,
        planned: Sequence[int] | None = None,
    ) -> None:
        self.seeds = list(seeds)
        self._name, self._command, self._plan = name, command, plan
        self._planned = list(seeds if planned is None else planned)
        self._commit = committed_head() if enabled else ""
        self._started = cpu_seconds()

    @property
    def is_enabled(self) -> bool:
        """True if a file will be written."""
        return bool(self._commit)

    def write(self, tables: dict[str, Table], bars: Sequence[Bar] = (), **figures: Any) -> None:
        """Prints tables and bars, and writes the file."""
        if set(self._planned) - set(self.seeds):
            bars = [msgspec.structs.replace(one, met=None) for one in bars]
        for title, table in tables.items():
            print(f"\n{title}:\n{render_table(table)}")
        for one in bars:
            print(f"{one.verdict}: {one.bar}: {one.measured}", flush=True)
        if not self._commit:
            return
        found = Result(
            self._command, self._commit, machine_facts(), self.seeds, self._planned, self._plan,
            round(cpu_seconds() - self._started, 1), list(bars), tables, figures,
        )  # fmt: skip
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self._name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


def committed_head() -> str:
    """Returns the commit of the tree. Raises `SystemExit` where code differs from it."""
    changed = _git("status", "--porcelain").splitlines()
    paths = [line[3:] for line in changed]
    code = [path for path in paths if path.startswith(_CODE) and not path.startswith(_WRITTEN)]
    if code:
        raise SystemExit(f"--record wants the code of a commit, and {code[0]} has uncommitted changes")
    return _git("rev-parse", "HEAD").strip()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def render_table(table: Table) -> str:
    """Returns a Markdown table."""
    head = f"| {' | '.join(table.columns)} |\n|---|{'---:|' * (len(table.columns) - 1)}"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in table.rows)])


def render_tables(page: str, results: Path = RESULTS) -> str:
    """Returns a page with every block between its marks made anew.

    `<!-- measured: NAME TITLE -->` is the table TITLE of `NAME.json`; with the title `bars` it is a list of its bars,
    and with `run` a sentence of commit and seeds.
    """
    return _BLOCK.sub(lambda found: f"{found[1]}{_block(found[2], found[3], results)}\n{found[4]}", page)


def _block(name: str, title: str, results: Path) -> str:
    found = msgspec.json.decode((results / f"{name}.json").read_bytes(), type=Result)
    if title == "bars":
        words = {"met": "Met", "missed": "**Missed**", "not decided": "**Not decided**"}
        return "\n".join(f"- {words[one.verdict]}: {one.bar}: {one.measured}." for one in found.bars)
    if title == "run":
        seeds, left = _list_seeds(found.seeds), sorted(set(found.planned) - set(found.seeds))
        seeds += f" (planned and not run: {_list_seeds(left)})" if left else ""
        return f"Commit `{found.commit[:8]}`, seeds {seeds}: `{found.command}`."
    return render_table(found.tables[title])


def _list_seeds(seeds: Sequence[int]) -> str:
    first, last = seeds[0], seeds[-1]
    if len(seeds) > 5 and list(seeds) == list(range(first, last + 1)):
        return f"{first} to {last}"
    return ", ".join(map(str, seeds))
