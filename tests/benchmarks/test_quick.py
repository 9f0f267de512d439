"""The benchmarks run and report what they promise to; how fast anything is, is no business of a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    analysis,
    attempt,
    commands,
    gateway,
    large_run,
    nodes,
    overhead,
    place,
    sandbox,
    separation,
    viewer,
)
from tests.admission.folders import CAREFUL, write_task
from tests.sampling import WHOLE

IN_CAMPAIGN = pytest.mark.skipif(not WHOLE, reason="starts dozens of processes or a browser: part of `make campaign`")


def written(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    assert found["machine"]["cores"]
    assert all(target["verdict"] in {"met", "missed", "not measured"} for target in found["targets"])
    return found


@pytest.mark.long
def test_overhead_reports_itself_and_the_limit_and_names_what_is_missing(tmp_path: Path) -> None:
    overhead.main(["--quick", "--into", str(tmp_path), "--peer-python", f"aviary={tmp_path}/absent"])
    found = written(tmp_path, "overhead")
    assert [row["contender"] for row in found["rows"]] == [c.name for c in overhead.CONTENDERS if c.peer is None]
    assert set(found["not_measured"]) == {c.name for c in overhead.CONTENDERS if c.peer}
    assert all(row["cpu_ms_per_turn"] > 0 for row in found["rows"])
    assert "FileNotFoundError" in found["not_measured"]["Aviary/ldp, its log"]
    assert "no interpreter" in found["not_measured"]["Inspect AI, .eval log"]


@pytest.mark.long
def test_sandbox_reports_ours_beside_the_bare_tools(tmp_path: Path) -> None:
    sandbox.main(["--quick", "--into", str(tmp_path)])
    found = written(tmp_path, "sandbox")
    rows = {(row["what"], row["at_once"]): row for row in found["rows"]}
    ours = [row for (what, at_once), row in rows.items() if what.startswith("assay namespaces") and at_once == 1]
    assert ours
    assert all(row["whole_p50_ms"] > 0 and row["exec_p50_ms"] > 0 for row in ours)
    assert ("bare shell, no sandbox", 4) in rows
    assert any(what.startswith("fork of 1 MB") and "snapshot_p50_ms" in row for (what, _), row in rows.items())


@pytest.mark.long
def test_attempt_reports_a_whole_attempt_and_its_script(tmp_path: Path) -> None:
    attempt.main(["--quick", "--into", str(tmp_path)])
    found = written(tmp_path, "attempt")
    assert [row["what"] for row in found["rows"]] == [attempt.OURS, attempt.SCRIPT]
    assert attempt.HARBOR in found["not_measured"]
    assert found["targets"][0]["at_most"] == 30.0


@IN_CAMPAIGN
def test_large_run_reports_each_command_and_wants_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_run, "QUICK_ATTEMPTS", 40)
    large_run.main(["--quick", "--into", str(tmp_path)])
    found = written(tmp_path, "large_run")
    assert len(found["rows"]) == 8
    assert all(row["cpu_s"] > 0 for row in found["rows"])
    assert "--before" in found["not_measured"]["ratios"]


@pytest.mark.long
def test_commands_report_judging_again_and_where_made_tasks_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "QUICK", commands.Size(20, 20, 1, 1, 1))
    parts = ["--only", "audit", "--only", "again", "--only", "again-in-sandboxes"]
    commands.main(["--quick", *parts, "--tasks", str(tmp_path), "--into", str(tmp_path)])
    found = written(tmp_path, "commands")
    assert [(row["what"], row["size"]) for row in found["rows"]] == [(commands.AUDITED, 20), (commands.AGAIN, 20)]
    assert all(row["cpu_s"] > 0 for row in found["rows"])
    assert "make demo" in found["not_measured"]["again-in-sandboxes"]
    assert {target["verdict"] for target in found["targets"]} == {"not measured"}


@pytest.mark.long
def test_commands_report_what_a_kept_task_costs(tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    commands.main(["--quick", "--only", "making", "--into", str(tmp_path)])
    (row,) = written(tmp_path, "commands")["rows"]
    assert (row["what"], row["size"]) == (commands.MADE, 1)
    assert row["cpu_s"] > 0


@pytest.mark.long
def test_commands_report_admissions_beside_an_earlier_version(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks" / "careful", CAREFUL)
    given = ["--tasks", str(tmp_path / "tasks"), "--before", str(commands.ROOT)]
    commands.main(["--quick", "--only", "admitting", *given, "--into", str(tmp_path)])
    found = written(tmp_path, "commands")
    if "admitting" in found["not_measured"]:
        pytest.skip("no accounting groups")
    assert [(row["what"], row["size"]) for row in found["rows"]] == [(commands.QUICKLY, 1), (commands.ADMITTED, 1)]
    assert [row["unequal_findings"] for row in found["rows"]] == [0, 0]
    assert all(row["beside_before"] > 0 for row in found["rows"])
    beside = [
        target["measured"] for target in found["targets"] if "admit" in target["what"] and target["unit"] == "times"
    ]
    assert beside == [row["beside_before"] for row in found["rows"]]


@IN_CAMPAIGN
@pytest.mark.long
def test_nodes_reports_what_a_turn_costs_on_a_node(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    nodes.main(["--quick", "--place", "folder", "--into", str(tmp_path)])
    rows = written(tmp_path, "nodes")["rows"]
    ways = ("one process", "on a node")
    assert [row["what"] for row in rows] == [f"{load}, {way}" for load in ("model", "no model") for way in ways]
    assert all(row["attempts"] == 16 for row in rows)


@IN_CAMPAIGN
def test_place_reports_commits_takeover_and_queries(tmp_path: Path) -> None:
    place.main(["--quick", "--place", "folder", "--into", str(tmp_path)])
    found = written(tmp_path, "place")
    whats = ["commits", "takeover", "query, local", "query, cold", "query, warm", "copy"]
    assert [(row["what"], row["place"]) for row in found["rows"]] == [(what, "folder") for what in whats]
    assert found["rows"][0]["client_cpu_us"] > 0
    assert found["not_measured"] == {"seaweedfs": "not asked for"}


def test_separation_says_where_its_tasks_come_from(tmp_path: Path) -> None:
    separation.main(["--quick", "--tasks", str(tmp_path), "--into", str(tmp_path)])
    found = written(tmp_path, "separation")
    assert "run `assay demo`" in found["not_measured"]["all of it"]
    assert [target["measured"] for target in found["targets"]] == [None, None, None]


@IN_CAMPAIGN
def test_gateway_reports_itself_beside_the_pass_through(tmp_path: Path) -> None:
    gateway.main(["--quick", "--into", str(tmp_path)])
    found = written(tmp_path, "gateway")
    ours = [row for row in found["rows"] if row["contender"] == gateway.OURS]
    assert [(row["mode"], row["at_once"]) for row in ours] == [
        (load.mode, load.at_once) for load in gateway.loads(quick=True)
    ]
    assert all(row["errors"] == 0 and row["cpu_us_per_call"] > 0 and row["times_passthrough"] > 0 for row in ours)
    assert any(gateway.VERIFIERS in name for name in found["not_measured"])


@pytest.mark.long
def test_analysis_reports_every_part_and_names_the_missing_peer(tmp_path: Path) -> None:
    analysis.main(["--quick", "--into", str(tmp_path)])
    found = written(tmp_path, "analysis")
    assert {row["part"] for row in found["rows"]} == set(analysis.PARTS)
    assert all(row["measured"] > 0 for row in found["rows"] if row["part"] == "import")
    assert any("read_eval_log" in name for name in found["not_measured"])
    assert {target["verdict"] for target in found["targets"]} == {"not measured"}


@IN_CAMPAIGN
def test_viewer_reports_live_and_sealed_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    if viewer.chromium() is None:
        pytest.skip("no Chromium here: `sh scripts/system-packages.sh` installs Debian's")
    monkeypatch.setattr(viewer, "QUICK_ATTEMPTS", 60)
    monkeypatch.setattr(viewer, "QUICK_STEPS", 12)
    monkeypatch.setattr(viewer, "OPENED", 2)
    viewer.main(["--quick", "--into", str(tmp_path)])
    found = written(tmp_path, "viewer")
    assert [row["what"] for row in found["rows"]] == [viewer.OURS, viewer.SEALED]
    assert all(row[name] > 0 for row in found["rows"] for name in viewer.COLUMNS[1:])
    assert viewer.INSPECT in found["not_measured"]


def test_viewer_without_a_browser_measures_nothing_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "chromium", lambda: None)
    viewer.main(["--into", str(tmp_path)])
    found = written(tmp_path, "viewer")
    assert (found["rows"], list(found["not_measured"])) == ([], ["everything"])


@IN_CAMPAIGN
@pytest.mark.long
def test_three_raylets_give_the_finals_of_one_process_whatever_is_killed(tmp_path: Path) -> None:
    """A node gets SIGKILL, and then the command, which is resumed; attempts are sandboxed."""
    pytest.importorskip("obstore")
    pytest.importorskip("ray")
    wanted = ["--only", "node killed", "--only", "command killed"]
    # In a process of its own: Ray leaves programs that it started to the end of the process.
    command = [sys.executable, "-m", "benchmarks.cluster", "--quick", "--into", str(tmp_path), *wanted]
    subprocess.run(command, check=True, timeout=300)
    rows = {row["what"]: row for row in written(tmp_path, "cluster")["rows"]}
    assert rows["one process"]["attempts"] == 4
    for what in ("node killed", "command killed"):
        assert (rows[what]["attempts"], rows[what]["differing"]) == (4, 0)
    assert rows["command killed"]["coordinators"] == 2
