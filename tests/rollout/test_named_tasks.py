"""A family on the command line: run, resumed, refused when it gives other tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.environments.worlds import families
from assay.store import RunStore

pytestmark = pytest.mark.quick
WORLD = Path(__file__).parents[2] / "docs_src" / "counter_world.py"


def called(store: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), [*words, "--store", str(store)])
    return result.exit_code, result.output


def run(store: Path, family: str) -> tuple[int, str]:
    return called(store, "run", family, "--agent", f"{WORLD}:AddFive", "--run", "counted", "--json")


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


def test_a_family_runs_from_the_command_line(tmp_path: Path) -> None:
    code, text = run(tmp_path, f"family:{WORLD}:CounterTasks,n=3,seed=4")
    assert code == 0, text
    (group,) = document(text)["groups"]
    assert (group["n_tasks"], group["passed"]) == (3, 1)
    with RunStore.open(tmp_path, "counted") as store:
        assert sorted(r.task for r in store.attempts()) == ["count-from-4", "count-from-5", "count-from-6"]


def test_resuming_makes_the_same_tasks_and_finds_nothing_left(tmp_path: Path) -> None:
    run(tmp_path, f"family:{WORLD}:CounterTasks,n=3,seed=4")
    assert called(tmp_path, "resume", "counted")[0] == 0
    with RunStore.open(tmp_path, "counted") as store:
        assert len(store.attempts()) == 3


def test_a_family_that_gives_other_tasks_now_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "world.py"
    copy.write_text(WORLD.read_text())
    run(tmp_path, f"family:{copy}:CounterTasks,n=2,seed=4")
    copy.write_text(WORLD.read_text() + "\n# Another text: other tasks.\n")
    code, text = called(tmp_path, "resume", "counted")
    assert (code, "has changed since the run began" in text) == (2, True)


def test_a_run_that_lacks_attempts_is_sealed_only_when_told(tmp_path: Path) -> None:
    run(tmp_path, f"family:{WORLD}:CounterTasks,n=2,seed=4")
    assert called(tmp_path, "seal", "counted")[0] == 0
    with RunStore.create(tmp_path, "odd", {"config": 3}):
        pass
    code, text = called(tmp_path, "resume", "odd")
    assert (code, "does not say how it was made" in text) == (2, True)
    assert called(tmp_path, "seal", "odd")[0] == 0


def test_levels_of_a_curriculum_are_tasks_of_their_own(tmp_path: Path) -> None:
    levels = [f"family:grid,n=2,size={size}" for size in (3, 5, 8)]
    words = ["--agent", "expert", "--attempts", "2", "--allocate", "frontier", "--allocate-option", "promote=0.8"]
    code, text = called(tmp_path, "run", *levels, *words, "--run", "levels", "--json")
    assert code == 0, text
    for size in (3, 8):
        called(tmp_path, "run", f"family:grid,n=2,size={size}", "--agent", "expert", "--run", f"size-{size}")
    pairs = {base: compared(tmp_path, base, "size-3") for base in ("size-8", "levels")}
    assert (pairs["size-8"]["tasks"], pairs["size-8"]["only_after"]) == ([], ["grid-size3-0-0", "grid-size3-0-1"])
    assert set(pairs["levels"]["tasks"]) & {"grid-size3-0-0", "grid-size3-0-1"}
    assert "grid-size8-0-0" not in pairs["levels"]["tasks"]


def compared(store: Path, *runs: str) -> dict[str, Any]:
    (found,) = document(called(store, "compare", *runs, "--json")[1])["comparisons"]
    return dict(found["comparison"])


def test_a_run_whose_tasks_have_other_names_now_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(families, "_id_prefix", lambda words, options: words[0])
        assert called(tmp_path, "run", "family:grid,n=2,size=3", "--agent", "expert", "--run", "before")[0] == 0
    code, text = called(tmp_path, "resume", "before")
    assert code == 2
    assert "task 'grid-0-0' of the run is called 'grid-size3-0-0' now (2 in all)" in " ".join(text.split())
    assert called(tmp_path, "verify", "before")[0] == 0
