"""What came out: a table, promises kept or broken, and what could not be measured, for eyes and as JSON.

Invariant: a number that was not measured in this run is never shown; what is missing stands in `not_measured`, with
its reason.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._measure import machine_facts, markdown_table, write_results

__all__ = ["Report", "Target", "options"]


class Target(NamedTuple):
    """A promise and what came of it."""

    what: str
    unit: str
    at_most: float
    measured: float | None
    """None where it was not measured here."""

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.measured is None:
            return "not measured"
        return "met" if self.measured <= self.at_most else "missed"


class Report(NamedTuple):
    """What one script found."""

    name: str
    how: str
    rows: list[dict[str, Any]]
    targets: list[Target]
    not_measured: dict[str, str]
    facts: Mapping[str, Any] = {}
    """More that the JSON says, such as the seed."""

    def finish(self, columns: Sequence[str], into: Path | None) -> None:
        """Shows it and writes it: to `benchmarks/results/local`, or into a folder."""
        facts = machine_facts()
        print(f"{self.how}\n{facts['cores']} x {facts['cpu']}, {facts['system']}, Python {facts['python']}")
        print(f"load {facts['load']:.1f} when done\n")
        shown = [c for c in columns if any(r.get(c) is not None for r in self.rows)]
        print(markdown_table(shown, [[row.get(c, "") for c in shown] for row in self.rows]))
        print()
        for target in self.targets:
            measured = "" if target.measured is None else f"{target.measured:.3g} {target.unit} "
            print(f"{target.verdict}: {target.what}: {measured}(at most {target.at_most:g} {target.unit})")
        for what, why in self.not_measured.items():
            print(f"not measured: {what}: {why}")
        plain = {
            "how": self.how,
            "columns": shown,
            "rows": self.rows,
            "targets": [{**t._asdict(), "verdict": t.verdict} for t in self.targets],
            "not_measured": self.not_measured,
            **self.facts,
        }
        if into is None:
            write_results(self.name, plain)
        else:
            into.mkdir(parents=True, exist_ok=True)
            (into / f"{self.name}.json").write_text(json.dumps({"machine": facts, **plain}, indent=2) + "\n")


def options(name: str, about: str) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="a few seconds; the numbers are rough")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where the JSON goes")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="[NAME=]PATH",
        help="an interpreter that has a peer, or without a name one to try for all of them",
    )
    return parser
