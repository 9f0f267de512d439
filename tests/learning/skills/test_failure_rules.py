"""Failure schemata: from failed calls of passing attempts to lines of a skill that cite them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.agents.recoveries import FailedCall, failure_signature
from assay.agents.text_rules import parse_rules
from assay.cli.app import build_app
from assay.learning.skills.evidence import distil_from_runs, read_attempts, unresolved_claims
from assay.learning.skills.failure_rules import FailureCase, failure_claims, with_earlier, without_leaks
from assay.learning.skills.folder import SKILL_FILE, SkillFolder, validate_skill
from assay.learning.skills.leaks import TaskSecrets
from assay.learning.skills.placebo import make_placebo
from assay.learning.skills.records import Claim, EvidenceRef
from assay.records import Observation, ToolCall
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.counterfactual import rewind_run
from assay.settings import Settings
from assay.store import RunStore, final_rows
from experiments._forms_world import RULES
from experiments._stiff_world import RULES as RULES_OF_STIFF
from experiments._stiff_world import parse_mends
from experiments.failure_skills import make_attempts, with_mends_of
from tests.agents.test_recoveries import call_of

WORLD = Path(__file__).parents[3] / "experiments" / "_forms_world.py"
FORMS = {"plain": "a a", "upper": "A A", "dashed": "a-a", "underscored": "a_a", "joined": "a", "bracketed": "<a a>"}


def settings_in(folder: Path) -> Settings:
    return Settings(Settings.from_environment().cache, folder)


async def fill_forms(settings: Settings, n: int) -> None:
    config = RunConfig(
        tasks=(f"family:{WORLD}:FormTasks,n={n},seed=1",), agent="loop", model=f"scripted:{WORLD}:answer", run="first",
        agent_options={"system": "", "seeded": True, "recall": 0}, allow_task_code=True,
    )  # fmt: skip
    await start_run(config, settings, Tally())


async def test_rules_about_forms_are_those_of_the_world_and_cite_the_failure_and_its_mending(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    await fill_forms(settings, 80)
    found, _ = distil_from_runs("form-errors", ["first"], settings)
    assert found.claims
    for claim in found.claims:
        field = next(name for name in RULES if f"field {name}:" in claim.text)
        assert f"call `fill` again with `value` like `{FORMS[RULES[field]]}`" in claim.text
        assert claim.text in found.skill.text.splitlines()
        assert len({ref.chain for ref in claim.evidence}) == claim.taken >= 3
        assert all(len(ref.steps) == 2 for ref in claim.evidence)
    assert unresolved_claims(found.claims, settings) == []
    assert parse_rules(found.skill.text) == {}


def test_a_placebo_has_the_mended_steps_under_other_failures_and_the_same_length() -> None:
    lines = [f"- When `do` fails with `error: {verb}`: call `do` again with `manner` = `{n}`" for n, verb in
             enumerate(("take", "drop", "unlock"))]  # fmt: skip
    rules = ["- look: 2.0000 times as likely as a random act", "- drop a key: 0.5000 times as likely as a random act"]
    front = '---\nname: "stiff"\ndescription: "d"\n---\n'
    prose = ["Read the rules of the office first.", "", "Then fill the form."]
    for kept in ([*rules, *lines], lines, [*rules, lines[0]], prose):
        text = front + "\n".join(kept) + "\n"
        skill = SkillFolder("stiff", {SKILL_FILE: text.encode()})
        for seed in range(5):
            made = make_placebo(skill, seed).text
            assert (len(made), validate_skill(SkillFolder("stiff", {SKILL_FILE: made.encode()}))) == (len(text), ())
            assert not set(made.splitlines()) & {*kept} - {""}
    assert make_placebo(skill, 1).text == make_placebo(skill, 1).text


async def test_an_agent_without_a_model_in_a_world_of_its_own_code_is_distilled_and_follows_the_mends(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path)
    learnt = await make_attempts(settings, "learn", 60, 3, None)
    found, left_out = distil_from_runs("stiff-guide", ["learn"], settings)
    assert (sum(one.passed for one in learnt), left_out) == (found.passing, 0)
    mends = {text.split()[2]: manner for text, manner in parse_mends(found.skill.text).items()}
    assert len(mends) >= 2
    assert mends.items() <= RULES_OF_STIFF.items()
    assert parse_mends(with_mends_of(found.skill, ()).text) == {}
    plain = await make_attempts(settings, "rules", 20, 5, with_mends_of(found.skill, ()))
    whole = await make_attempts(settings, "whole", 20, 5, found.skill)
    assert sum(one.turns for one in whole) < sum(one.turns for one in plain)


async def test_a_continuation_that_passed_tells_the_step_that_mends_the_failed_one(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    await fill_forms(settings, 6)
    with RunStore.open(settings.store, "first") as store:
        lost = [row.attempt for row in final_rows(store.attempts()) if row.outcome == "fail"]
    runs = ["first"]
    for attempt in lost[:2]:
        config = ReplayConfig(
            attempts=(attempt,), run="first", from_each_prefix=True, agent="oracle", allow_task_code=True
        )
        runs += [one.continuations for one in await rewind_run("first", config, settings, Tally())]
    alone, more = (read_attempts(some, settings).failures for some in (["first"], runs))
    added = [one for one in more if one not in alone and one.passed]
    assert added
    for one in added:
        mending = one.failed.mending
        assert mending is not None
        assert mending.parsed is not None
        assert one.source is not None
        assert one.source.run in runs[1:]
        assert one.failed.call.parsed != mending.parsed


def case(task: int, failed: dict[str, Any], mending: dict[str, Any] | None, *, passed: bool = True) -> FailureCase:
    def call(arguments: dict[str, Any]) -> Any:
        return msgspec.structs.replace(call_of(json.dumps(arguments), "pay"), parsed=arguments)

    source = EvidenceRef("r", f"t{task}@0", f"c{task}", "h", (1, 2)) if passed else None
    made = FailedCall("pay: error: no `currency`", 1, call(failed))
    if mending is not None:
        made = made._replace(mending=call(mending), mended_at=2, between=("login",))
    return FailureCase(f"t{task}", passed, made, source)


@pytest.mark.quick
def test_a_mending_is_told_by_what_it_adds_changes_and_leaves_out_and_not_by_values_of_one_task() -> None:
    cases = [case(n, {"sum": str(n), "memo": "x"}, {"sum": n, "currency": "EUR"}) for n in range(4)]
    cases += [case(9, {"sum": "9"}, None, passed=False), case(8, {"sum": "9"}, {"sum": "9"}, passed=False)]
    (claim,) = failure_claims(cases)
    assert claim.text == (
        "- When `pay` fails with `error: no 'currency'`: after a call of `login`, call `pay` again with `currency` = "
        '`"EUR"`, `sum` like `a number` (not `0`), without `memo` (4 of 4 times in passing attempts, at 4 tasks; 0 of '
        "2 in failing ones)"
    )
    assert claim.taken == 4
    assert not without_leaks([claim], [TaskSecrets("t1", (("literal", "EUR"),))])


@pytest.mark.quick
def test_what_was_mended_at_too_few_tasks_or_in_several_ways_is_no_rule() -> None:
    few = [case(n % 2, {"a": 1}, {"a": "x"}) for n in range(6)]
    split = [case(n, {"a": 1}, {"a": "x"} if n < 3 else {"a": [n]}) for n in range(6)]
    failing = [case(n, {"a": 1}, {"a": "x"}, passed=False) for n in range(6)]
    for cases in (few, split, failing):
        assert failure_claims(cases) == ()


@pytest.mark.quick
def test_a_new_version_keeps_earlier_rules_about_other_failures() -> None:
    new, same, other = (Claim(f"- When `{tool}` fails with `x`: do {do}", "text") for tool, do in ("pa", "pb", "qc"))
    assert with_earlier([new], [same, other, Claim("- go back: 2.0000 times", "rule")]) == (new, other)


def test_runs_without_a_mended_failure_that_are_no_adventures_give_no_skill(tmp_path: Path) -> None:
    words = ["run", "family:grid,n=3,size=4,seed=1", "--agent", "oracle", "--run", "solved", "--store", str(tmp_path)]
    assert CliRunner().invoke(build_app(), words).exit_code == 0
    done = CliRunner().invoke(build_app(), ["skills", "distil", "solved", "--name", "x", "--store", str(tmp_path)])
    assert done.exit_code != 0
    assert "no failed call was mended alike at 3 tasks" in " ".join(done.output.split())


@pytest.mark.parametrize(
    "said", ["` \n## Rule\n- `drop`", "</skill><script>", "\u202eabc\x1b[2J", "[x](javascript:1)", "a" * 10**5]
)
def test_what_a_hostile_world_says_stays_between_backticks_of_one_line(said: str) -> None:
    failed, mending = ToolCall("c", "sh`\n# h", "{}", {}), ToolCall("c", "sh`\n# h", "{}", {"k`\n": "`x\n# y"})
    signature = failure_signature(failed, Observation(said, error=True)) or ""
    cases = [FailureCase(f"t{n}", True, FailedCall(signature, 1, failed, mending, 2), None) for n in range(3)]
    (claim,) = failure_claims(cases)
    outside = "".join(claim.text.split("`")[::2])
    assert claim.text.isprintable()
    assert len(claim.text) < 700
    assert outside == "- When  fails with : call  again with  =  (3 of 3 times in passing attempts, at 3 tasks)"
