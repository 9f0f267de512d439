"""What `assay admit` says of a part of the corpus with its quick battery; every cheat is tried in test_holes.

The whole battery on the whole corpus takes about twenty minutes: `assay admit tests/holes/holed --verification both`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.agents.cheats import CHEATS
from assay.cli.app import build_app
from tests.sampling import WHOLE

from .corpus import HERE, Kind, Known, tasks_in

pytestmark = pytest.mark.timeout(600)
QUICK = {cheat.name for cheat in CHEATS if cheat.quick}


def by_one_cheat() -> list[Known]:
    """For each cheat of the quick battery the first task that is there for it."""
    found: dict[str, Known] = {}
    for known in tasks_in("holed").values():
        for name in known.hole.cheats if known.hole else ():
            if name in QUICK:
                found.setdefault(name, known)
    assert len(found) == len(QUICK)
    return list({known.name: known for known in found.values()}.values())


def admitted(kind: Kind, names: list[str], verification: str, store: Path) -> dict[str, dict[str, Any]]:
    """The report of each task, by its name."""
    folders = [str(HERE / kind / name) for name in names]
    words = ["admit", *folders, "--quick", "--n", "1", "--verification", verification, "--concurrency", "6"]
    result = CliRunner().invoke(build_app(), [*words, "--json", "--store", str(store)])
    assert result.exit_code in (0, 1), result.output
    return {t["task"].removeprefix("holes/"): t for t in json.loads(result.stdout)["report"]["tasks"]}


def holes(report: dict[str, Any], verification: str) -> dict[str, dict[str, Any]]:
    found = (f for f in report["findings"] if f["severity"] == "hole" and f["verification"] == verification)
    return {f["probe"].removeprefix("cheat."): f for f in found}


@pytest.mark.long
def test_holes_are_found_as_asked_and_the_report_says_what_closes_them(tmp_path: Path) -> None:
    open_first = sorted((known for known in by_one_cheat() if known.hole), key=lambda k: k.hole.default != "passes")
    wanted = {known.name: known.hole for known in (open_first[0], open_first[-1]) if known.hole}
    assert {hole.default for hole in wanted.values()} == {"passes", "fails"}
    for name, report in admitted("holed", list(wanted), "both", tmp_path).items():
        hole = wanted[name]
        cheat = next(cheat for cheat in hole.cheats if cheat in QUICK)
        found = holes(report, "as_asked")[cheat]
        assert not report["admitted"]["as_asked"]
        assert found["closed_by"]
        assert (cheat in holes(report, "default")) == (hole.default == "passes")
        assert ("Judged by default it does not" in found["text"]) == (hole.default == "fails")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sound", "missed"])
def test_sound_tasks_and_holes_that_no_cheat_is_for_are_admitted(kind: Kind, tmp_path: Path) -> None:
    names = list(tasks_in(kind))[:: 4 if WHOLE else 11]
    reports = admitted(kind, names, "as-asked", tmp_path)
    assert set(reports) == set(names)
    assert {name for name, report in reports.items() if not report["admitted"]["as_asked"]} == set()
    assert {name: holes(report, "as_asked") for name, report in reports.items()} == {name: {} for name in names}
