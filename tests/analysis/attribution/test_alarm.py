"""Alarms see the prefix alone, name step and actor, and are scored as AgentForesight scores them."""

from __future__ import annotations

import pytest

from assay.analysis.attribution import (
    Alarm,
    AlarmedAttempt,
    AlarmLabel,
    AlarmMonitor,
    AlarmScores,
    Label,
    read_alarm_label,
    score_alarms,
)
from assay.analysis.contracts.contract import read_contract
from assay.records import Evidence, Step, ToolCall
from tests.analysis.attribution.labelled import Run, who_and_when
from tests.analysis.trajectories import said

FAILED = said(2, "exitcode: 1 (execution failed)", "environment", "shell")
STEPS = [said(0, "Let me look.", name="a"), said(1, "I call it.\n```python\nx\n```", name="coder"), FAILED]
RULES = """
contract = "calm"
[[agents]]
name = "reader"
may_call = ["look"]
"""


def first_alarms(steps: list[Step], monitor: AlarmMonitor) -> list[tuple[int, Alarm]]:
    return [(step.index, alarm) for step in steps for alarm in monitor.see(step)]


def test_a_failed_act_is_blamed_on_its_author_once_its_result_is_there() -> None:
    ((at, alarm),) = first_alarms(STEPS, AlarmMonitor(threshold=1.5))
    assert (at, alarm.step, alarm.raised_at, alarm.who) == (2, 1, 2, "coder")
    assert alarm.weight == pytest.approx(2.0 * 0.88)


def test_later_steps_change_no_alarm() -> None:
    more = [*STEPS, *(said(n, "Let's assume that it worked.", name="b") for n in range(3, 9))]
    for length in range(len(more)):
        short = first_alarms(more[:length], AlarmMonitor())
        assert short == [one for one in first_alarms(more, AlarmMonitor()) if one[0] < length]


def test_a_call_that_a_role_may_not_make_raises_one() -> None:
    call = ToolCall("c", "delete", "{}", {})
    steps = [Step(0, "agent", tool_calls=(call,), actor_name="reader")]
    ((_, alarm),) = first_alarms(steps, AlarmMonitor(contracts=[read_contract(RULES, "calm")]))
    assert (alarm.who, alarm.reason) == ("reader", "calm.permission: 'reader' may call look, not 'delete'")


def alarm(step: int, who: str = "a") -> Alarm:
    return Alarm(step, who, step, 1.0, Label("others", "other"), "")


def test_a_wrong_step_is_a_false_positive_and_a_miss() -> None:
    right, wrong = (
        AlarmedAttempt(alarm(3), AlarmLabel(3, "a"), False),
        AlarmedAttempt(alarm(1), AlarmLabel(4, "b"), False),
    )
    missed, false = AlarmedAttempt(None, AlarmLabel(2, "a"), False), AlarmedAttempt(alarm(0), None, True)
    quiet, unknown = AlarmedAttempt(None, None, True), AlarmedAttempt(alarm(0), None, False)
    found = score_alarms([right, wrong, missed, false, quiet, unknown])
    assert found is not None
    assert (found.labelled, found.exact, found.before, found.after, found.missed) == (3, 1, 1, 0, 1)
    assert (found.right_actor, found.mean_shift, found.mean_delay) == (1, 1.5, 0.0)
    assert found.exact_f1 == pytest.approx(2 / (2 + 2 + 2))  # 1 true, 2 false, 2 missed
    assert (found.passed, found.false_alarms) == (2, 1)
    assert score_alarms([unknown]) is None


def test_a_label_is_read_and_hostile_ones_are_passed_over() -> None:
    odd = [{"steps": ["x"]}, {"steps": [True]}, {"steps": 3}, {"steps": []}, {"actor": "a"}]
    evidence = [Evidence(str(n), "audit", "label", data) for n, data in enumerate(odd)]
    assert read_alarm_label(evidence) is None
    assert read_alarm_label([*evidence, Evidence("9", "audit", "label", {"steps": [4], "actor": 7})]) == (4, "agent")


def scores(runs: list[Run]) -> AlarmScores:
    found = []
    for run in runs:
        label = AlarmLabel(run.label["steps"][0], run.label["actor"])
        alarms = first_alarms(list(run.trajectory.steps), AlarmMonitor())
        found.append(AlarmedAttempt(alarms[0][1] if alarms else None, label, False))
    made = score_alarms(found)
    assert made is not None
    return made


def test_the_half_that_nothing_was_set_on() -> None:
    found = scores([run for run in who_and_when() if not run.development])
    assert (found.labelled, found.exact, found.before, found.after, found.missed) == (52, 20, 20, 3, 9)
    assert (found.right_actor, round(found.exact_f1, 3)) == (28, 0.421)
    assert found.exact_share[1:] == pytest.approx((0.265, 0.520), abs=0.001)
