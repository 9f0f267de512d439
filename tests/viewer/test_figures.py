"""The views of figures and of soundness: what they say, and that nothing hostile or missing breaks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.admission.certificate import chain_of
from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded
from assay.store import ADMISSION, RunStore, seal
from assay.viewer.figures import MOST_POINTS, MOST_TASKS, figures
from assay.viewer.soundness import soundness, soundness_of_task
from assay.viewer.views import make_view
from tests.viewer import made
from tests.viewer.chains_made import view_names

pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    made.ordinary(folder)
    made.admission(folder)
    return folder


def test_figures_count_what_was_recorded(root: Path) -> None:
    found = figures(root, "demo")
    assert [(one["name"], one["passed"], one["failed"]) for one in found["rates"]] == [
        ("large", 18, 6),
        ("small", 6, 18),
    ]
    assert found["tasks"]["bands"] == {"middling": 4, "hard": 1, "easy": 1}
    assert found["tasks"]["configurations"] == ["large", "small"]
    assert {row["task"]: row["cells"] for row in found["tasks"]["rows"]}["made/task-5"] == [(1, 4), (0, 4)]
    front = {p["name"]: p["on_front"] for p in found["spending"]["points"] if p["measure"] == "turns"}
    assert front == {"large": True, "small": False}
    assert [card["check"] for card in found["scores"]] == ["quality"]


def test_the_view_is_the_same_live_and_sealed(tmp_path: Path) -> None:
    made.ordinary(tmp_path)
    before = make_view(tmp_path, "run/demo/figures")
    seal(tmp_path, "demo")
    assert before is not None
    assert make_view(tmp_path, "run/demo/figures") == before


def test_figures_of_an_empty_run_are_empty(tmp_path: Path) -> None:
    RunStore.create(tmp_path, "none", {}).close()
    found = figures(tmp_path, "none")
    assert (found["attempts"], found["rates"], found["survival"], found["tasks"]["rows"]) == (0, [], [], [])


def test_an_amount_that_is_none_is_not_known(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "odd", {}) as store:
        chain, bodies = made.attempt("odd", "t", 0, passed=True)
        store.append(chain, [*bodies[:-1], AttemptEnded("done", at=9.0, metrics={"cost_usd": -1.0, "wall_s": -5.0})])
    assert [p["measure"] for p in figures(tmp_path, "odd")["spending"]["points"]] == ["turns"]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "wide", {}) as store:
        store.append_all([made.attempt("wide", f"t{n}", 0, passed=n % 2 > 0, model=f"m{n % 20}") for n in range(200)])
    found = figures(tmp_path, "wide")
    assert (found["left_out"], len(found["rates"])) == (4, 16)
    assert len(found["tasks"]["rows"]) + found["tasks"]["left_out"] == 160
    assert len(found["tasks"]["rows"]) == MOST_TASKS
    assert all(len(curve["points"]) <= MOST_POINTS for one in found["survival"] for curve in one["curves"])


def test_soundness_says_what_was_admitted(root: Path) -> None:
    found = soundness(root, "sound")
    assert (found["admission"], found["planned"]) == (True, 2)
    assert {one["task"]: one["admitted"] for one in found["tasks"]} == {
        "made/good": {"default": True},
        "made/bad": {"default": False},
    }
    bad = soundness_of_task(root, "sound", chain_of("made/bad"))
    assert bad is not None
    report = bad["report"]
    assert [(one["severity"], one["kind"]) for one in report["findings"]] == [("hole", "null-passed")]
    assert (report["sensitivity"]["best"], report["sensitivity"]["best_interval"]) == (0.95, [0.76, 0.99])
    assert report["probes"][0]["chain"] == "made/bad@oracle-small-0.0"
    assert soundness_of_task(root, "sound", "made/bad@oracle-small-0.0") is None


def test_an_export_names_every_task_of_an_admission(root: Path) -> None:
    found = list(view_names(root, "sound"))
    assert "run/sound/soundness/made%2Fbad%40certificate.0" in found
    assert {"run/sound/figures", "run/sound/soundness"} <= set(found)


def test_a_run_that_is_no_admission_says_on_which_it_rests(tmp_path: Path) -> None:
    held = {"certificates": {"t": ["sound", "t@certificate.0", "head"], "odd": [1, 2, 3], "short": ["x"]}}
    RunStore.create(tmp_path, "plain", held).close()
    found = soundness(tmp_path, "plain")
    assert (found["admission"], found["tasks"]) == (False, [])
    assert found["rests_on"] == [{"task": "t", "run": "sound", "chain": "t@certificate.0"}]


HOSTILE: tuple[Any, ...] = (
    [],
    {"findings": [None, {"severity": "<b>", "text": 7, "closed_by": "x"}], "probes": {"a": 1}, "cost": "much"},
    {"admitted": [1], "sensitivity": {"operators": {"a": 3}, "survivors": ["x"], "best": True}, "completeness": []},
    {"findings": [{"text": "x" * 100_000}] * 2000},
)


@pytest.mark.long
@pytest.mark.parametrize("report", HOSTILE)
def test_a_report_of_any_shape_is_shown_as_far_as_it_goes(tmp_path: Path, report: Any) -> None:
    with RunStore.create(tmp_path, "odd", {ADMISSION: {}, "tasks": []}) as store:
        blob = store.blobs.put(msgspec.json.encode(report))
        fact = Evidence("certificate", "state", "certificate", {"admitted": 3, "results": ["x"]}, (blob,))
        started = AttemptStarted("odd", "t@certificate", "t", "d", ADMISSION, None, 0, 0, at=1.0)
        store.append(chain_of("t"), [started, EvidenceAdded(fact), AttemptEnded("admitted", at=2.0)])
    assert soundness(tmp_path, "odd")["tasks"][0]["admitted"] == {}
    found = make_view(tmp_path, "run/odd/soundness/t%40certificate.0")
    assert found is not None
    assert len(found) < 2_000_000
