"""The rules that turn observations into a status: a pass needs every witness, and no doubt becomes a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.results import Counts, TestReport, TestResult, make_report
from assay.verify._pytest_rules import PytestFacts
from assay.verify._pytest_rules import rule as pytest_rule
from assay.verify._script_rules import ScriptFacts, rule, rule_literally
from assay.verify.rewards import Rewards, headline, parse_rewards

pytestmark = pytest.mark.quick

WHOLE = {"tests": [{"id": "a", "status": "passed"}], "problems": [], "always_equal": [], "broken_files": []}
ONE = Rewards({"reward": 1.0}, None, "reward.txt")
GOOD = ScriptFacts(0, False, None, ONE, (WHOLE,), (), 0, 0, (), "tests")
DOUBTS = {
    "exit code": {"exit_code": 2},
    "still running": {"left_running": 1},
    "recorded test run is not whole": {"records": ({**WHOLE, "problems": ["it ended early"]},)},
    "no passing test": {"records": ()},
    "reach for": {"untrusted": ("frames",)},
    "reward.txt says": {"rewards": Rewards({"reward": 1.0}, "reward.json says 1 and reward.txt says 0", "reward.json")},
    "time limit": {"timed_out": True},
    "no reward": {"rewards": Rewards({}, "no reward was written")},
}
FAILURES = {
    "tests failed": {"records": ({**WHOLE, "tests": [{"id": "a", "status": "failed"}]},)},
    "could not be collected": {"records": ({**WHOLE, "broken_files": ["a.py"]},)},
    "compares as true": {"records": ({**WHOLE, "always_equal": ["X == str"]},)},
    "junit tells": {"reports": (TestReport(Counts(failed=1), (), "junit"),)},
    "reward 0.5": {"rewards": Rewards({"reward": 0.5})},
}


def test_all_witnesses_agree() -> None:
    assert rule(GOOD).status == "pass"


@pytest.mark.parametrize("words", DOUBTS)
def test_a_doubt_is_unknown(words: str) -> None:
    ruling = rule(GOOD._replace(**DOUBTS[words]))
    assert (ruling.status, ruling.score) == ("unknown", None)
    assert words in ruling.reason


@pytest.mark.parametrize("words", FAILURES)
def test_evidence_against_is_a_failure(words: str) -> None:
    ruling = rule(GOOD._replace(**FAILURES[words]))
    assert ruling.status == "fail"
    assert words in ruling.reason


def test_a_report_is_enough_where_the_task_says_so() -> None:
    facts = GOOD._replace(records=(), reports=(TestReport(Counts(passed=1), (), "ctrf"),), demand="report")
    assert rule(facts).status == "pass"
    assert rule(facts._replace(reports=())).status == "unknown"


@pytest.mark.parametrize("demand", ["script", "reward"])
def test_a_script_without_tests_is_judged_by_itself(demand: str) -> None:
    assert rule(GOOD._replace(records=(), demand=demand)).status == "pass"


def test_literally_the_reward_decides() -> None:
    bad = GOOD._replace(exit_code=1, left_running=2, records=())
    assert rule_literally(bad).status == "pass"
    assert rule_literally(bad._replace(rewards=Rewards({"reward": 0.25}))).score == 0.25
    assert rule_literally(bad._replace(rewards=Rewards({}, "no reward was written"))).status == "error"


changes = st.lists(st.sampled_from([*DOUBTS.values(), *FAILURES.values()]), min_size=1, max_size=5)


@given(changes)
def test_no_mixture_of_doubts_passes(parts: list[dict[str, object]]) -> None:
    facts = GOOD
    for part in parts:
        facts = facts._replace(**part)
    assert rule(facts).status != "pass"


# Rewards


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"1", b'{"a": "1"}', b'{"a": NaN}', b'{"a": true}', b'{"a": 1e999}']
)
def test_reward_json_must_be_finite_numbers(data: bytes) -> None:
    assert parse_rewards(data, b"1").problem


@pytest.mark.parametrize("data", [b"", b"one", b"nan", b"inf", b"1 2", b"\xff", "\u0661".encode()])
def test_reward_text_must_be_one_finite_number(data: bytes) -> None:
    rewards = parse_rewards(None, data)
    assert rewards.values == {}
    assert rewards.problem


def test_json_goes_before_text_and_a_contradiction_is_told() -> None:
    assert parse_rewards(b'{"reward": 1, "speed": 0.5}', b"1\n") == Rewards(
        {"reward": 1, "speed": 0.5}, None, "reward.json"
    )
    assert "reward.txt says 0" in (parse_rewards(b'{"reward": 1}', b"0").problem or "")


@pytest.mark.parametrize(("as_json", "as_text"), [(b'{"reward": "x"}', b"1"), (b'{"reward": 1}', b"one")])
def test_an_unusable_reward_beside_a_good_one_is_an_error(as_json: bytes, as_text: bytes) -> None:
    rewards = parse_rewards(as_json, as_text)
    assert rewards.unusable
    assert rewards.problem
    assert rule(GOOD._replace(rewards=rewards)).status == "error"
    # Taken literally, reward.json stands before reward.txt.
    assert rule_literally(GOOD._replace(rewards=rewards)).status == ("pass" if rewards.values else "error")
    assert rule(GOOD._replace(rewards=rewards, **FAILURES["tests failed"])).status == "fail"


def test_an_orphan_is_a_doubt_where_the_reward_is_the_only_witness() -> None:
    facts = GOOD._replace(orphans=1)
    assert rule(facts).status == "pass"
    assert rule(facts._replace(records=(), demand="script")).status == "unknown"
    assert rule(facts._replace(records=(), demand="script", allowed=("orphaned_processes",))).status == "pass"


def test_headline_is_the_reward_or_the_lowest() -> None:
    assert headline({"reward": 1, "a": 0}) == 1
    assert headline({"b": 1, "a": 0.5}) == 0.5


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=20))
def test_any_bytes_are_rewards_or_a_problem(as_json: bytes | None, as_text: bytes | None) -> None:
    rewards = parse_rewards(as_json, as_text)
    assert rewards.values or rewards.problem


# Named tests

RAN = make_report([TestResult("a", "passed"), TestResult("b", "passed")], "recorder")
FACTS = PytestFacts(("a",), ("b",), RAN, (), (), (), 2, False, False, 0, 0, ())


def report(*tests: TestResult) -> TestReport:
    return make_report(tests, "recorder")


PYTEST: dict[str, tuple[str, dict[str, object]]] = {
    "no report": ("unknown", {"report": None, "exit_code": -9}),
    "forged": ("fail", {"forged": True}),
    "compares as true": ("fail", {"always_equal": ("X == str",)}),
    "b skipped": ("fail", {"report": report(TestResult("a", "passed"), TestResult("b", "skipped"))}),
    "b xfailed": ("fail", {"report": report(TestResult("a", "passed"), TestResult("b", "xfailed"))}),
    "b xpassed": ("fail", {"report": report(TestResult("a", "passed"), TestResult("b", "xpassed"))}),
    "did not run: b": ("fail", {"report": report(TestResult("a", "passed"))}),
    "not collected": ("fail", {"report": report(), "broken_files": ("x.py",)}),
    "1 of the wanted tests": (
        "fail",
        {"report": report(TestResult("a", "failed"), TestResult("a", "passed"), TestResult("b", "passed"))},
    ),
    "not whole": ("unknown", {"problems": ("a was told of twice",)}),
    "time limit": ("unknown", {"timed_out": True, "problems": ("the time limit was met",)}),
    "outlived": ("unknown", {"left_running": 1}),
    "reach for": ("unknown", {"untrusted": ("frames",)}),
}


def test_named_tests_pass() -> None:
    assert pytest_rule(FACTS).status == "pass"


@pytest.mark.parametrize("words", PYTEST)
def test_named_tests_do_not_pass(words: str) -> None:
    status, change = PYTEST[words]
    ruling = pytest_rule(FACTS._replace(**change))
    assert (ruling.status, words in ruling.reason) == (status, True)


def test_partial_score_is_the_share_of_wanted_tests() -> None:
    tests = report(TestResult("a", "failed"), TestResult("b", "passed"))
    assert pytest_rule(FACTS._replace(report=tests)).score == 0.5


def test_without_names_every_test_is_wanted() -> None:
    facts = FACTS._replace(expected=(), also=())
    assert pytest_rule(facts).status == "pass"
    assert pytest_rule(facts._replace(report=report())).status == "fail"
    assert pytest_rule(facts._replace(broken_files=("x.py",))).status == "fail"
    assert pytest_rule(FACTS._replace(broken_files=("x.py",))).status == "pass"
