"""The views over several runs: their states and groups, overlays, a task's page, the search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay.errors import UserError
from assay.store import RunStore
from assay.viewer.interface import view_name
from assay.viewer.runs import RunLine, current_state, group_runs
from assay.viewer.views import make_view
from scripts.showcase import INSTRUCTION, make_showcase
from tests.viewer import made

pytestmark = pytest.mark.quick
SMALL, LARGE = "nightly-0-loop-qwen3-4b", "nightly-1-loop-qwen3-14b"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = make_showcase(tmp_path_factory.mktemp("showcase") / "store")
    made.admission(store)
    return store


def read(root: Path, name: str) -> Any:
    found = make_view(root, name)
    assert found is not None
    return json.loads(found)


def test_runs_are_told_with_state_and_group(root: Path) -> None:
    lines = {one["run"]: one for one in read(root, "runs")["runs"]}
    assert (lines[SMALL]["state"], lines[LARGE]["state"]) == ("sealed", "finished")
    assert lines[SMALL]["group"] == lines[LARGE]["group"] == {"kind": "grid", "name": "nightly"}
    assert "group" not in lines["forger"]


def test_a_run_is_running_while_it_has_a_writer(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append(*made.attempt("r", "made/t", 0, passed=True))
        assert current_state(tmp_path, "r") == "running"
        assert read(tmp_path, "run/r/card")["facts"][0] == ["state", "running"]
    assert current_state(tmp_path, "r") == "finished"


def test_the_runs_of_a_recipe_are_a_group() -> None:
    training = RunLine("a-0-training", is_training=True)
    others = [RunLine("a-0-step-0003"), RunLine("a-0-evaluation-0010"), RunLine("b-step-0001"), RunLine("a-0-other")]
    found = group_runs([training, *others])
    assert {run: tuple(group) for run, group in found.items()} == {
        run: ("recipe", "a-0") for run in ("a-0-training", "a-0-step-0003", "a-0-evaluation-0010")
    }


def test_overlaid_runs_are_compared_over_their_common_tasks(root: Path) -> None:
    found = read(root, f"overlay/{SMALL}+{LARGE}+forger")
    rates = {one["run"]: one["rate"]["value"] for one in found["series"]}
    assert (rates[SMALL], rates[LARGE]) == (0.375, pytest.approx(20 / 24))
    assert found["common"] == 1
    assert [row["cells"][2] for row in found["tasks"]].count(None) == 5


def test_tasks_on_which_overlaid_runs_differ_come_first(root: Path) -> None:
    rows = read(root, f"overlay/{SMALL}+{LARGE}")["tasks"]
    assert [abs(one[0] - other[0]) for one, other in (row["cells"] for row in rows)] == [3, 3, 3, 2, 0, 0]


@pytest.mark.parametrize("runs", ["forger", "forger+forger", "+".join(["forger", *map(str, range(13))])])
def test_too_few_or_many_runs_are_not_overlaid(root: Path, runs: str) -> None:
    with pytest.raises(UserError, match="2 to 12 runs"):
        make_view(root, f"overlay/{runs}")


def test_a_task_s_page_has_its_text_and_all_attempts(root: Path) -> None:
    found = read(root, view_name("task", "showcase/parse-duration"))
    assert (found["text"]["text"], found["text"]["checks"]) == (INSTRUCTION, [["tests", "pytest"]])
    assert {one["run"]: len(one["attempts"]) for one in found["runs"]} == {SMALL: 4, LARGE: 4, "forger": 1}
    doubted = next(one for one in found["runs"] if one["run"] == "forger")
    assert doubted["attempts"][0]["headline"] == "pass (integrity failed)"


def test_a_task_s_page_has_what_admission_found(root: Path) -> None:
    found = read(root, view_name("task", "made/bad"))
    (certificate,) = found["certificates"]
    assert (certificate["run"], certificate["findings"]["hole"]) == ("sound", 1)
    assert found["runs"][0]["run"] == "sound"


def test_a_task_without_attempts_has_no_page(root: Path) -> None:
    with pytest.raises(UserError, match="no run of this store"):
        make_view(root, view_name("task", "../x"))


def test_all_runs_are_searched_and_a_damaged_one_is_named(root: Path) -> None:
    found = read(root, f"find/{quote('help the verifier')}")
    assert [(hit["run"], hit["step"], hit["place"]) for hit in found["hits"]] == [("forger", 0, "message")]
    assert (found["searched"], found["left_out"], found["unreadable"]) == (6, 0, [])
