"""The gate notices what became dearer, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gate
from tests.benchmarks.planted_regressions import PLANTED
from tests.sampling import draw_sample

BOUNDS = {
    "python": gate._python(),
    "bounds": {"turn": {"function calls": 100.0, "bytes written": 50.0}},
    "instructions": {"of another build": {"turn": 1.0}},
}


def verdicts(counted: float, *others: str, python: str = gate._python()) -> dict[str, str]:
    more = dict.fromkeys(others, 3.0)
    counts = {"turn": {"function calls": counted, "bytes written": 50.0, "instructions": 1.0, **more}}
    return {one.metric: one.verdict for one in gate.compare(counts, {**BOUNDS, "python": python})}


@pytest.mark.parametrize(("counted", "verdict"), [(80, "less"), (91, "same"), (110, "same"), (111, "more")])
def test_a_tenth_more_is_noticed(counted: float, verdict: str) -> None:
    assert verdicts(counted) == {"function calls": verdict, "bytes written": "same"}


def test_another_python_is_compared_by_what_does_not_depend_on_it() -> None:
    assert verdicts(500, python="CPython 3.99") == {"bytes written": "same"}


def test_a_count_without_a_bound_is_named() -> None:
    assert verdicts(100, "SQL statements") == {
        "function calls": "same",
        "bytes written": "same",
        "SQL statements": "new",
    }


@pytest.mark.parametrize("counts", [{}, {"turn": {}}, {"turn": {"bytes written": 50.0}}])
def test_a_bound_without_a_count_is_named(counts: dict[str, dict[str, float]]) -> None:
    gone = {one.metric for one in gate.compare(counts, BOUNDS) if one.verdict == "gone"}
    assert gone == BOUNDS["bounds"]["turn"].keys() - counts.get("turn", {}).keys()


def test_instructions_are_missed_only_where_others_were_counted() -> None:
    bounds = {**BOUNDS, "bounds": {}, "instructions": {gate._build(): {"turn": 1.0, "call": 1.0}}}
    assert gate.compare({"turn": {}}, bounds) == []
    assert [one.scenario for one in gate.compare({"turn": {"instructions": 1.0}}, bounds) if one.verdict == "gone"] == [
        "call"
    ]


def test_only_what_a_busy_host_adds_to_is_counted_again() -> None:
    bounds = {
        "python": gate._python(),
        "instructions": {},
        "bounds": {"turn": {"x": 50.0}, "null attempt": {"x": 50.0}},
    }
    asked: list[str] = []

    def again(scenario: str) -> dict[str, dict[str, float]]:
        asked.append(scenario)
        return {scenario: {"x": 70.0 if len(asked) == 1 else 51.0}}

    found = gate.recount({"turn": {"x": 60.0}, "null attempt": {"x": 80.0}}, bounds, again)
    assert asked == ["null attempt"] * 2
    assert {one.scenario: one.verdict for one in gate.compare(found, bounds)} == {
        "turn": "more",
        "null attempt": "same",
    }


@pytest.mark.long
@pytest.mark.parametrize("planted", draw_sample(sorted(PLANTED), 2))
def test_planted_regressions_are_noticed(planted: str, tmp_path: Path) -> None:
    scenario = "listed attempt" if planted == "loses_the_index" else "recorded turn"
    program = ["-m", "tests.benchmarks.planted_regressions", planted, str(tmp_path), scenario]
    counts = gate.count_plainly(program)
    bounds = json.loads(gate.BOUNDS.read_text(encoding="utf-8"))
    more = [one.metric for one in gate.compare(counts, bounds) if one.verdict == "more"]
    assert bool(more) == (planted != "nothing"), (more, counts)


def test_bounds_of_other_builds_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BOUNDS", tmp_path / "gate.json")
    gate.BOUNDS.write_text(json.dumps(BOUNDS), encoding="utf-8")
    gate._write_bounds({"turn": {"instructions": 7.0, "bytes written": 60.0}})
    bounds = json.loads(gate.BOUNDS.read_text(encoding="utf-8"))
    assert bounds["instructions"] == {"of another build": {"turn": 1.0}, gate._build(): {"turn": 7.0}}
    assert bounds["bounds"] == {"turn": {"bytes written": 60.0}}
