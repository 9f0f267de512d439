"""The fresh verifiers, and what an admission with the default battery says of each: `python -m tests.holes`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from typer.testing import CliRunner

from assay.cli.app import build_app

__all__ = ["FRESH", "RESULTS", "Measured", "admit_folders", "folders_of", "with_wrong_solution"]

FRESH = Path(__file__).parent / "fresh"
RESULTS = FRESH / "results.json"
Side = Literal["holed", "sound"]


class Measured(msgspec.Struct, frozen=True):
    """The result of one verifier's admission."""

    task: str
    digest: str
    """Of the folder that was measured."""
    result: Literal["refused", "led to", "clean"]
    """`led to`: admitted as weak, with a wrong solution that it accepts."""
    weak: tuple[str, ...]
    """Findings of the severity `weak`, by their kinds."""
    attempts: int

    @property
    def is_flagged(self) -> bool:
        """True where the report speaks against the verifier in any way."""
        return self.result != "clean" or bool(self.weak)


def folders_of(side: Side) -> list[Path]:
    """Returns the task folders of one side, sorted."""
    return sorted(path.parent for path in (FRESH / side).glob("*/task.toml"))


def with_wrong_solution(folder: Path, to: Path) -> Path:
    """Returns a copy of a task whose reference solution is the wrong one of the same name."""
    shutil.copytree(folder, to)
    shutil.copyfile(FRESH / "wrong" / f"{folder.name}.sh", to / "solution" / "solve.sh")
    return to


def admit_folders(folders: Sequence[Path], store: Path, *options: str) -> dict[str, Measured]:
    """Admits tasks and returns what was found, by task."""
    words = ["admit", *map(str, folders), *options, "--json", "--store", str(store)]
    result = CliRunner().invoke(build_app(), words)
    if result.exit_code not in (0, 1):
        raise RuntimeError(result.output)
    reports = json.loads(result.stdout)["report"]["tasks"]
    return {report["task"]: _measured(report) for report in reports}


def _measured(report: dict[str, Any]) -> Measured:
    accepted_wrongly = (report["sensitivity"] or {"changed": 0})["changed"]
    refused = not all(report["admitted"].values())
    weak = {finding["kind"] for finding in report["findings"] if finding["severity"] == "weak"}
    return Measured(
        task=report["task"],
        digest=report["task_digest"],
        result="refused" if refused else "led to" if accepted_wrongly else "clean",
        weak=tuple(sorted(weak)),
        attempts=report["cost"]["attempts"],
    )
