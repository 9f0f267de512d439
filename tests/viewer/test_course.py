"""The course of an attempt: alarms from its steps, and the nodes of workflows that it or a command noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.records import Noted
from assay.store import RunStore, annotate, seal
from assay.viewer.chains import open_chain
from assay.viewer.course import course_of

DOCS = Path(__file__).parents[2] / "docs_src"
TASKS = f"family:{DOCS / 'refund_world.py'}:RefundTasks,n=4,seed=5"
FLOW = str(DOCS / "refund.toml")


def assay(store: Path, *words: str) -> Any:
    done = CliRunner().invoke(build_app(), [*words, "--store", str(store)])
    assert done.exit_code in (0, 1), done.output
    return done


def courses(store: Path, run: str) -> list[dict[str, Any]]:
    with RunStore.open(store, run) as opened:
        chains = sorted(row.chain for row in opened.attempts())
    found = []
    for chain in chains:
        with open_chain(store, run, chain) as each:
            found.append(course_of(each))
    return found


def test_an_attempt_by_a_workflow_names_the_node_of_each_step_and_its_first_alarm(tmp_path: Path) -> None:
    flaky = f"{TASKS},wrap=failures:rate=0.3"
    assay(tmp_path, "run", flaky, "--agent", "workflow", "--agent-option", f"file={FLOW}", "--run", "flaky")
    last = courses(tmp_path, "flaky")[3]
    (flow,) = last["workflows"]
    assert flow["nodes"] == [(0, "find"), (1, "find"), (2, "orders"), (3, "orders"), (4, "pay")]
    assert (flow["name"], flow["by"], flow["followed"], flow["calls"], flow["finished"]) == (
        "refund",
        "agent",
        5,
        5,
        True,
    )
    assert [(one["step"], one["error"]) for one in last["alarms"]] == [(0, "action: parameter_error")]


@pytest.mark.parametrize("sealed", [False, True])
def test_what_follow_notes_is_shown_and_the_newest_note_counts(tmp_path: Path, *, sealed: bool) -> None:
    assay(tmp_path, "run", TASKS, "--agent", "random-world", "--run", "random")
    assert courses(tmp_path, "random")[0]["workflows"] == []
    if sealed:
        seal(tmp_path, "random")
    for _ in range(2):
        assert "noted in 4 attempts" in assay(tmp_path, "workflow", "follow", FLOW, "random", "--record").output
    found = [flow for one in courses(tmp_path, "random") for flow in one["workflows"]]
    assert [(one["by"], one["followed"], one["deviated_at"]) for one in found] == [("follow", 0, 0)] * 4
    assert found[0]["expected"].startswith("find: find_customer(")


def test_hostile_notes_are_cut_and_typed(tmp_path: Path) -> None:
    assay(tmp_path, "run", TASKS, "--agent", "random-world", "--run", "random")
    with RunStore.open(tmp_path, "random") as opened:
        chain = min(row.chain for row in opened.attempts())
    hostile = {
        "workflow": "w" * 9_000, "calls": -1, "followed": True, "finished": "yes", "deviated_at": 10**9, "expected": 5,
        "nodes": [[0, "n" * 9_000], ["absent", "x"], [1], "no", [1.5, "x"]],
    }  # fmt: skip
    annotate(tmp_path, "random", chain, [Noted("workflow", hostile, 1.0), Noted("workflow", {"nodes": 5}, 2.0)])
    first, second = courses(tmp_path, "random")[0]["workflows"]
    assert (len(first["name"]), first["nodes"]) == (400, [(0, "n" * 400)])
    assert [first[key] for key in ("calls", "followed", "finished", "deviated_at", "expected")] == [
        None, None, None, None, "",
    ]  # fmt: skip
    assert (second["name"], second["nodes"]) == ("workflow", [])
