from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.statistics import AttemptOutcome, GroupSummary, OutcomeBounds, count_by_task, pass_at_k, summarise

pytestmark = pytest.mark.quick
STATUS = st.sampled_from(["pass", "fail", "unknown", "error"])
TASKS = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(STATUS, min_size=1, max_size=5), min_size=1)


def rows(tasks: dict[str, list[Any]], agent: str = "x", model: str | None = None) -> list[AttemptOutcome]:
    return [
        AttemptOutcome(task, agent, model, n, status) for task, given in tasks.items() for n, status in enumerate(given)
    ]


def one(tasks: dict[str, list[Any]], **options: Any) -> GroupSummary:
    (summary,) = summarise(rows(tasks), **options)
    return summary


@pytest.fixture(scope="module")
def airline(shared_data: Path) -> list[AttemptOutcome]:
    runs = json.loads((shared_data / "tau-bench" / "gpt-4o-airline-tasks-00-24.json").read_text())
    return [
        AttemptOutcome(
            str(r["task_id"]), "tools", "gpt-4o", r["trial"], "pass" if r["reward"] == 1 else "fail", r["reward"]
        )
        for r in runs
    ]


def test_published_runs(airline: list[AttemptOutcome]) -> None:
    (summary,) = summarise(airline, ks=(1, 2, 3, 4))
    assert (summary.n_tasks, summary.n_attempts, summary.passed, summary.failed) == (25, 100, 31, 69)
    assert [round(at.pass_hat_k.value or 0, 3) for at in summary.at_k] == [0.310, 0.193, 0.170, 0.160]
    assert summary.pass_at_1.value == summary.mean_score.value == pytest.approx(0.31)
    assert (summary.pass_at_1_wilson.low, summary.pass_at_1_wilson.high) == pytest.approx((0.2278, 0.4063), abs=1e-4)


def test_published_runs_are_clustered(airline: list[AttemptOutcome]) -> None:
    (summary,) = summarise(airline)
    assert summary.design_effect == pytest.approx(1 + 3 * (summary.icc or 0))
    assert summary.effective_n == pytest.approx(100 / (summary.design_effect or 1))
    quoted, naive, boot = summary.pass_at_1, summary.pass_at_1_wilson, summary.pass_at_1_bootstrap
    assert (quoted.low or 0) < (naive.low or 0)
    assert (quoted.high or 0) > (naive.high or 0)
    assert (boot.low, boot.high) == pytest.approx((0.17, 0.46), abs=0.02)


def test_what_was_not_judged_is_no_zero() -> None:
    summary = one({"a": ["pass", "unknown"], "b": ["fail", "error"], "c": ["error", "error"]})
    assert (summary.passed, summary.failed, summary.unknown, summary.error) == (1, 1, 1, 3)
    assert (summary.n_tasks, summary.n_tasks_judged, summary.pass_at_1.n) == (3, 2, 2)
    assert summary.pass_at_1.value == 0.5
    assert summary.pass_at_1_bounds == OutcomeBounds(pytest.approx(0.5 / 3), pytest.approx(2.5 / 3))


def test_nothing_judged_gives_no_number() -> None:
    summary = one({"a": ["error"], "b": ["unknown"]}, ks=(1,))
    estimates = (summary.pass_at_1, summary.pass_at_1_wilson, summary.pass_at_1_bootstrap, summary.mean_score)
    assert all((e.value, e.low, e.high, e.method) == (None, None, None, "nothing was judged") for e in estimates)
    assert summary.pass_at_1_bounds == OutcomeBounds(0.0, 1.0)
    assert summary.at_k[0].pass_at_k.method == "no task has 1 judged attempts"


def test_one_task_speaks_for_itself_alone() -> None:
    summary = one({"a": ["pass", "fail", "pass", "pass"]}, ks=(2,))
    assert (summary.pass_at_1.value, summary.pass_at_1.method) == (0.75, "Wilson, for this one task alone")
    assert summary.at_k[0].pass_at_k.value == pass_at_k(4, 3, 2)
    assert (summary.at_k[0].pass_at_k.low, summary.at_k[0].pass_at_k.method) == (None, "one task has no spread")


def test_k_needs_k_attempts() -> None:
    summary = one({"a": ["pass", "fail"], "b": ["pass"]}, ks=(2, 3))
    assert (summary.at_k[0].pass_at_k.value, summary.at_k[0].pass_at_k.n_tasks) == (1.0, 1)
    assert summary.at_k[1].pass_at_k.value is None
    assert summary.at_k[1].pass_at_k_bounds == OutcomeBounds(None, None)


def test_all_passed_is_no_certainty() -> None:
    summary = one({str(n): ["pass"] for n in range(24)})
    assert summary.pass_at_1.high == 1.0
    assert 0.8 < (summary.pass_at_1.low or 0) < 0.9


def test_tasks_weigh_the_same_whatever_their_attempts() -> None:
    summary = one({"a": ["pass"] * 9, "b": ["fail"]})
    assert (summary.pass_at_1.value, summary.pass_at_1_wilson.value) == (0.5, 0.9)


def test_groups_are_apart_and_sorted() -> None:
    given = rows({"a": ["pass"]}, "y") + rows({"a": ["fail"]}, "x", "m") + rows({"a": ["error"]}, "x")
    assert [(s.agent, s.model, s.passed, s.failed) for s in summarise(given)] == [
        ("x", None, 0, 0),
        ("x", "m", 0, 1),
        ("y", None, 1, 0),
    ]


def test_scores_of_judged_attempts_alone_are_averaged() -> None:
    given = [
        AttemptOutcome("a", "x", None, n, s, v)
        for n, (s, v) in enumerate([("pass", 1.0), ("fail", 0.5), ("error", 0.0)])
    ]
    (summary,) = summarise(
        [*given, AttemptOutcome("b", "x", None, 0, "fail", 0.25), AttemptOutcome("b", "x", None, 1, "fail")]
    )
    assert (summary.mean_score.value, summary.mean_score.n) == (pytest.approx(0.5), 3)


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ([AttemptOutcome("a", "x", None, 0, "pass"), AttemptOutcome("a", "x", None, 0, "fail")], {}, "given twice"),
        ([AttemptOutcome("a", "x", None, 0, "pass", 1.5)], {}, r"a score is in \[0, 1\]"),
        ([AttemptOutcome("a", "x", None, 0, "pass", float("nan"))], {}, "a score is in"),
        ([AttemptOutcome("a", "x", None, 0, "passed")], {}, "status is one of"),  # type: ignore[arg-type]
        ([], {"ks": (0,)}, "k must be at least 1"),
        ([], {"confidence": 95}, "confidence must be between"),
    ],
)
def test_impossible_rows_are_refused(given: list[AttemptOutcome], options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        summarise(given, **options)


@settings(max_examples=30, deadline=None)
@given(TASKS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(tasks: dict[str, list[Any]], shuffler: random.Random) -> None:
    given = rows(tasks)
    first = summarise(given, ks=(1, 2))
    shuffler.shuffle(given)
    assert summarise(given, ks=(1, 2)) == first


@settings(max_examples=50, deadline=None)
@given(TASKS)
def test_counts_add_up_and_bounds_hold(tasks: dict[str, list[Any]]) -> None:
    summary = one(tasks, ks=(1,))
    assert summary.passed + summary.failed + summary.unknown + summary.error == summary.n_attempts
    assert sum(count.attempts for count in count_by_task(rows(tasks))) == summary.n_attempts
    value, bounds = summary.pass_at_1.value, summary.pass_at_1_bounds
    if value is not None and summary.n_tasks == summary.n_tasks_judged:
        assert (bounds.worst or 0) - 1e-12 <= value <= (bounds.best or 0) + 1e-12
    if summary.unknown + summary.error == 0:
        assert bounds.worst == bounds.best == pytest.approx(value)


def test_summaries_are_plain_records(airline: list[AttemptOutcome]) -> None:
    (summary,) = summarise(airline)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=GroupSummary) == summary


def test_nothing_gives_nothing() -> None:
    assert summarise([]) == ()
