"""Typed facts about verdicts, records and agents; no name of an agent decides anything."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.agents.calls import CallsAgent
from assay.agents.interface import attempts_task, takes_solution
from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.records import AttemptStarted
from assay.verdicts import (
    MARKS,
    is_baseline,
    is_reverification,
    outcome_verdicts,
    recorded_check,
    reverification_check,
    was_given_solution,
)
from assay.verify._script_rules import ScriptFacts, rule
from assay.verify.rewards import Rewards
from tests.verdicts.made import verdict

pytestmark = pytest.mark.quick
STARTED = AttemptStarted("r", "t@0", "t", "", "a", None, 0, 0)


def test_name_of_a_reverification_leads_back_to_its_check():
    assert is_reverification(reverification_check("tests"))
    assert recorded_check(reverification_check("tests")) == recorded_check("tests") == "tests"
    assert not is_reverification("tests")


def test_outcome_verdicts_leave_reverifications_and_other_kinds_out():
    first = verdict()
    assert outcome_verdicts([first, verdict(check="reverify:tests"), verdict(kind="safety")]) == [first]


def test_agent_is_given_the_solution_because_it_takes_it_and_not_for_its_name():
    impostor = NullAgent()
    impostor.name = "oracle"
    assert takes_solution(OracleAgent())
    assert not takes_solution(impostor)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"agent": "oracle"}, True),
        ({"agent": "oracle+as-asked"}, True),
        ({"agent": "oracle", "takes_solution": False}, False),
        ({"agent": "mine", "takes_solution": True}, True),
        ({"agent": "mine"}, False),
        ({"agent": "oracle", "config": {"imported": {}}}, False),
        ({"agent": "mine", "takes_solution": True, "config": {"imported": {}}}, False),
    ],
)
def test_record_says_whether_its_agent_was_given_the_solution(change, expected):
    assert was_given_solution(msgspec.structs.replace(STARTED, **change)) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"agent": "null"}, True),
        ({"agent": "oracle+as-asked"}, True),
        ({"agent": "null", "attempts_task": True}, False),
        ({"agent": "mine", "attempts_task": False}, True),
        ({"agent": "mine"}, False),
    ],
)
def test_record_says_whether_its_agent_is_a_baseline(change, expected):
    assert is_baseline(msgspec.structs.replace(STARTED, **change)) is expected


def test_agent_is_a_baseline_because_it_says_so_and_not_for_its_name():
    impostor = CallsAgent("null", ())
    assert attempts_task(impostor)
    assert not attempts_task(NullAgent())


RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "tests": st.just([{"id": "a", "status": "failed"}]),
        "problems": st.just(["it ended early"]),
        "always_equal": st.just(["x"]),
        "broken_files": st.just(["f"]),
        "canaries": st.just({"planted": 2, "failed": 1, "unsure": 0}),
    },
)
FACTS = st.builds(
    ScriptFacts,
    exit_code=st.integers(0, 1),
    timed_out=st.booleans(),
    killed_by=st.none(),
    rewards=st.sampled_from([Rewards({"a": 1.0}), Rewards({"a": 1.0}, "two rewards"), Rewards({}), Rewards({"a": 0})]),
    records=st.lists(RECORDS, max_size=2).map(tuple),
    reports=st.just(()),
    left_running=st.integers(0, 1),
    orphans=st.integers(0, 1),
    untrusted=st.sampled_from([(), ("frames",)]),
    demand=st.sampled_from(["tests", "script"]),
)


@given(FACTS)
def test_rulings_carry_documented_marks_and_only_a_pass_has_none(facts):
    ruling = rule(facts)
    assert set(ruling.marks) <= set(MARKS)
    assert (ruling.status == "pass") <= (ruling.marks == ())
    assert ("reward_overruled" in ruling.marks) == (", but " in ruling.reason)
