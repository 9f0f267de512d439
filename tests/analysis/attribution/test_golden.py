"""How the rules do on labelled runs. The test half of Who&When and all of AgentRx were used for nothing but this."""

from __future__ import annotations

import pytest

from assay.analysis.attribution import attribute
from tests.analysis.attribution.accuracy import Accuracy, LabelledPrediction, accuracy, last_step, random_expectation
from tests.analysis.attribution.labelled import Run, agentrx, who_and_when


def labelled(run: Run) -> tuple[int, str]:
    """Step and agent that a person named; of AgentRx the root cause, whose agent is the only one."""
    if "root_cause" not in run.label:
        return run.label["steps"][0], run.label["actor"]
    names = [failure["failure_id"] for failure in run.label["failures"]]
    cause = run.label["root_cause"]["failure_id"]
    return run.label["steps"][names.index(cause) if cause in names else 0], "agent"


def by_rules(runs: list[Run]) -> Accuracy:
    rows = []
    for run in runs:
        named = attribute(run.trajectory)
        step, who = (named.step, named.who) if named is not None else (None, None)
        rows.append(LabelledPrediction(*labelled(run), step, who))
    return accuracy(rows)


def by_last(runs: list[Run]) -> Accuracy:
    return accuracy([LabelledPrediction(*labelled(run), *last_step(run.by())) for run in runs])


def by_chance(runs: list[Run]) -> tuple[float, float]:
    return random_expectation([(*labelled(run), run.by()) for run in runs])


@pytest.fixture(scope="module")
def halves() -> tuple[list[Run], list[Run]]:
    runs = who_and_when()
    return [r for r in runs if r.development], [r for r in runs if not r.development]


def test_the_halves_are_what_was_stated(halves: tuple[list[Run], list[Run]]) -> None:
    assert [len(half) for half in halves] == [74, 52]


def test_rules_on_the_half_that_nothing_was_set_on(halves: tuple[list[Run], list[Run]]) -> None:
    runs = halves[1]
    found, last = by_rules(runs), by_last(runs)
    assert (found.steps_right, found.agents_right, found.n) == (19, 28, 52)
    assert found.step_interval == pytest.approx((0.248, 0.501), abs=0.001)
    assert found.agent_interval == pytest.approx((0.405, 0.667), abs=0.001)
    assert (last.steps_right, last.agents_right) == (5, 18)
    assert by_chance(runs) == pytest.approx((0.1646, 0.4095), abs=0.0001)


def test_rules_on_the_development_half_for_comparison(halves: tuple[list[Run], list[Run]]) -> None:
    found = by_rules(halves[0])
    assert (found.steps_right, found.agents_right) == (29, 45)


def test_root_causes_of_agentrx_are_found_hardly_better_than_by_naming_the_last_step() -> None:
    runs = agentrx()
    found, last = by_rules(runs), by_last(runs)
    assert (found.steps_right, last.steps_right, found.n) == (4, 3, 29)
    assert by_chance(runs)[0] == pytest.approx(0.0423, abs=0.0001)
    first = sum(run.label["root_cause"]["failure_id"] == run.label["failures"][0]["failure_id"] for run in runs)
    assert first == 27
