"""Results and stores in Python: tables, attempts, frames, queries, pages."""

from __future__ import annotations

import datetime
import sys
import types
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.errors import MissingLibraryError, OptionError, RunNotFoundError, StoreNotFoundError
from assay.store import RunStore, frames, seal
from tests.rollout.agents import Solver
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick


def null(attempt: Any) -> None:
    """Does nothing."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> assay.RunResult:
    tasks = [counting_task("a"), counting_task("<b>")]
    return assay.run(tasks, agent=[Solver, null], store=tmp_path_factory.mktemp("store"), run="g")


def test_result_prints_as_the_table_of_rates(result: assay.RunResult) -> None:
    head, first, second = str(result).splitlines()
    assert head.split()[:5] == ["agent", "model", "tasks", "attempts", "pass"]
    assert [line.split()[:5] for line in (first, second)] == [
        ["null", "-", "2", "2", "0"],
        ["solver", "-", "2", "2", "2"],
    ]
    assert repr(result).startswith("runs g-0-solver, g-1-null\nagent ")
    assert "<td>solver</td>" in result._repr_html_()


def test_attempts_hold_outcome_times_and_record(result: assay.RunResult) -> None:
    first = result.attempts[0]
    assert (first.attempt, first.outcome, first.passed, first.doubt, first.score) == ("a@0", "pass", True, None, 1.0)
    assert first.started is not None
    assert first.started.tzinfo is datetime.UTC
    assert first.finished is not None
    assert first.finished - first.started < datetime.timedelta(minutes=5)
    assert (len(first.trajectory.steps), first.verdicts[0].check) == (2, "ten")


def test_arrow_has_a_row_for_each_attempt(result: assay.RunResult) -> None:
    table = result.arrow()
    assert table.num_rows == len(result) == 4
    assert str(table.schema.field("started").type) == "timestamp[us, tz=UTC]"
    assert table["outcome"].to_pylist() == ["pass", "pass", "fail", "fail"]


def test_query_of_a_result_reads_its_runs_alone(result: assay.RunResult) -> None:
    counted = assay.open(result.store)["g-1-null"].query("SELECT DISTINCT agent FROM trajectories")
    assert counted.rows == (("null",),)


def test_timestamps_are_timestamps_live_and_sealed(tmp_path: Path) -> None:
    run = assay.run([counting_task()], agent=Solver, store=tmp_path).runs[0]
    sql = "SELECT started, finished, finished - started AS took FROM trajectories"
    live = assay.open(tmp_path).query(sql)
    seal(tmp_path, run)
    sealed = assay.open(tmp_path).query(sql)
    assert sealed.rows == live.rows
    assert [str(field.type) for field in sealed.arrow().schema] == [*["timestamp[us, tz=UTC]"] * 2, "duration[us]"]
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    assert abs(live.rows[0][0] - now) < datetime.timedelta(minutes=5)


def test_columns_of_any_type_become_arrow(result: assay.RunResult) -> None:
    found = assay.open(result.store).query(
        "SELECT count(*) AS n, sum(steps) AS s, 1.5 AS d, [1, 2] AS l, NULL AS x, {'a': 1} AS t, "
        "10000000000000000000000::HUGEINT AS h FROM trajectories"
    )
    row = found.arrow().to_pylist()[0]
    assert row == {"n": 4, "s": 4, "d": 1.5, "l": [1, 2], "x": None, "t": {"a": 1}, "h": "1" + "0" * 22}
    assert assay.open(result.store).query("SELECT started FROM steps WHERE false").arrow().num_rows == 0


def test_frame_is_of_the_library_that_is_there(monkeypatch: pytest.MonkeyPatch, result: assay.RunResult) -> None:
    installed: set[str] = set()
    monkeypatch.setattr(frames.importlib.util, "find_spec", lambda name: name if name in installed else None)
    with pytest.raises(MissingLibraryError, match="pandas or polars"):
        result.df()
    installed.add("polars")
    polars = types.ModuleType("polars")
    polars.from_arrow = lambda table: ("frame", table.num_rows)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", polars)
    assert result.df() == ("frame", 4)
    with pytest.raises(MissingLibraryError, match="needs pandas"):
        result.df("pandas")
    with pytest.raises(OptionError, match="'numpy'"):
        result.df("numpy")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_real_frame_has_timestamps(library: str, result: assay.RunResult) -> None:
    pytest.importorskip(library)
    frame = result.df(library)
    assert len(frame) == 4
    assert "datetime" in str(frame["started"].dtype).lower()


def test_pages_are_served_until_closed(result: assay.RunResult) -> None:
    with result.view(open_browser=False) as handle:
        assert handle.url in handle._repr_html_()
        with urllib.request.urlopen(handle.url, timeout=10) as page:
            assert page.status == 200
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(handle.url, timeout=10)


def test_a_view_prints_its_address_and_opens_a_browser_where_there_is_a_screen(
    result: assay.RunResult, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    store = assay.open(result.store)
    for screen, wanted in ((None, True), (":0", False), (":0", True)):
        monkeypatch.delenv("DISPLAY", raising=False)
        if screen is not None:
            monkeypatch.setenv("DISPLAY", screen)
        for viewable in (store, result):
            with viewable.view(open_browser=wanted) as handle:
                assert capsys.readouterr().err == f"viewer: {handle.url}\n"
                assert opened == ([handle.url] if screen and wanted else [])
                opened.clear()


def test_attempts_open_each_run_once(result: assay.RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    really_open = RunStore.open

    def counted(root: Path, run: str) -> RunStore:
        opened.append(run)
        return really_open(root, run)

    monkeypatch.setattr(RunStore, "open", counted)
    assert len(assay.open(result.store).run("g-0-solver").attempts) == 2
    assert opened == ["g-0-solver"]


def test_a_summary_counts_the_attempts_that_were_read(result: assay.RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = assay.RunResult(result.store, (*result.runs, result.runs[0]))
    attempts = twice.attempts
    monkeypatch.setattr(RunStore, "open", None)  # nothing is read again
    assert sum(group.n_attempts for group in twice.summary) == len(attempts) - len(result.attempts) // 2


def test_store_lists_its_runs_and_names_the_nearest(result: assay.RunResult) -> None:
    store = assay.open(result.store)
    assert store.runs == ("g-0-solver", "g-1-null")
    assert "g-1-null" in repr(store)
    assert store.run().runs == ("g-1-null",)
    with pytest.raises(RunNotFoundError, match="the nearest are g-1-null"):
        store["g-1-nul"]
    with pytest.raises(assay.UserError, match="must be a text"):
        store.query(3)  # type: ignore[arg-type]


def test_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="has no folder `runs`"):
        assay.open(tmp_path)
    with pytest.raises(StoreNotFoundError, match="does not exist"):
        assay.open(tmp_path / "absent")
    with pytest.raises(OptionError, match="is not a folder"):
        assay.open(3)  # type: ignore[arg-type]
