"""Results of Terminal-Bench: outcomes, tests and tokens as its files state them."""

from __future__ import annotations

import json
from pathlib import Path

from assay.formats.registry import find_format
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings
from assay.store import RunStore
from tests.formats.generated import read_whole

HERE = Path(__file__).parent / "benchmarks" / "terminal-bench"


def test_outcomes_and_tests_are_those_of_the_file() -> None:
    path = HERE / "results.json"
    stated = json.loads(path.read_text())
    found = read_whole(find_format(path), path)
    passed = [one.task for one in found if one.outcome == "pass"]
    assert passed == stated["resolved_ids"]
    assert len(found) - len(passed) == stated["n_unresolved"]
    tests = [len(trial["parser_results"] or {}) for trial in stated["results"]]
    assert [sum(fact.data["total"] for fact in one.evidence) for one in found] == tests
    assert {(one.agent, one.model) for one in found} == {("terminus", "openai/gpt-fake")}


def test_a_verifier_that_broke_gives_no_outcome_and_a_limit_is_told() -> None:
    ends = [
        (one.outcome, one.finished) for one in read_whole(find_format(HERE / "results.json"), HERE / "results.json")
    ]
    assert [(outcome, end.stopped, end.broke) for outcome, end in ends if end is not None] == [
        ("pass", None, None),
        ("fail", "wall_s", None),
        ("unknown", None, "verifier"),
    ]


def test_tokens_of_an_agent_that_counts_none_are_unknown() -> None:
    metrics = [
        one.finished.metrics
        for one in read_whole(find_format(HERE / "results.json"), HERE / "results.json")
        if one.finished
    ]
    assert metrics[:2] == [{"prompt_tokens": 1200.0, "completion_tokens": 80.0}, {}]


def test_a_trial_in_two_files_is_one_attempt(tmp_path: Path) -> None:
    report = import_paths(ImportConfig((str(HERE),)), Settings(cache=tmp_path / "cache", store=tmp_path))
    assert (report.read, report.known, report.unreadable_total) == (3, 1, 0)
    with RunStore.open(tmp_path, report.run) as store:
        assert sorted((row.task, row.number) for row in store.attempts()) == [("hello", 0), ("hello", 1), ("sort", 0)]
