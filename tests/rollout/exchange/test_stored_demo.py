"""The demo on a small installed package: every stored verdict agrees when it is given again, and every replay with its
record. `make campaign` tries the same on the demo's real library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay import synthesis
from assay.cli import demo as command
from assay.cli import sandboxed_synthesis
from assay.cli.app import build_app
from assay.store import audit, list_runs, load_current_verdicts
from tests.sampling import WHOLE
from tests.synthesis.conftest import SHAPES, TESTS

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
PACKAGE = {
    "shapes/__init__.py": "from .plane import area, clamp, largest, perimeter, runs\n",
    "shapes/plane.py": SHAPES,
    "shapes/tests/test_plane.py": TESTS,
    "shapes-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n",
}
CANDIDATES, MUTANTS, EVALUATIONS = 3, 2, 6
"""Of a small package these suffice for a task, its separation plan, and both outcomes of the repair policy."""


def assay(*words: str) -> tuple[int, Any]:
    """An exit code and the JSON that was printed."""
    done = CliRunner().invoke(build_app(), [*words, "--json"])
    assert done.exit_code in (0, 1), done.output
    return done.exit_code, json.loads(done.stdout)


def install(site: Path) -> None:
    """Writes the package as an installer leaves it."""
    for name, text in PACKAGE.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    record = "shapes-1.0.dist-info/RECORD"
    (site / record).write_text("".join(f"{name},,\n" for name in (*PACKAGE, record)))


def shrink(patch: pytest.MonkeyPatch, site: Path) -> None:
    """Makes the demo take a small package, and only as much of it as a task needs."""
    install(site)
    patch.syspath_prepend(site)
    patch.setattr(sandboxed_synthesis, "DEMO_SOURCE", "shapes")
    patch.setattr(synthesis, "SynthesisConfig", partial(synthesis.SynthesisConfig, candidates=CANDIDATES))
    patch.setattr(command, "SEPARATION_MUTANTS", MUTANTS)
    patch.setattr(command, "BUDGET", EVALUATIONS)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        if not WHOLE:
            shrink(patch, tmp_path_factory.mktemp("site"))
        patch.chdir(folder)
        code, printed = assay("demo", "--count", "1", "--concurrency", "1")
        assert (code, len(printed["runs"])) == (0, 4)
        yield folder


def test_every_attempt_of_the_demo_agrees_when_it_is_judged_again(demo: Path) -> None:
    store = demo / ".assay"
    for run, attempts in zip(list_runs(store)[:4], (1, 1, 4, 1), strict=True):
        code, found = assay("verify", run, "--again", "1")
        assert (code, found["again"]["counts"]) == (0, {"agree": attempts, "disagree": 0, "flaky": 0, "cannot": 0})
        assert {one.reverified for one in load_current_verdicts(store, run).values()} == {"agree"}
        assert audit(store, run) == ()


def test_every_attempt_of_the_demo_agrees_when_it_is_done_again(demo: Path) -> None:
    for run, attempts in zip(list_runs(demo / ".assay")[:4], (1, 1, 4, 1), strict=True):
        code, found = assay("replay", "--all", "--run", run)
        told = [(one["attempt"], one.get("comparison", {}).get("first"), one.get("cause")) for one in found["results"]]
        assert (code, found["counts"]) == (0, {"agree": attempts, "differ": 0, "cannot": 0}), told
