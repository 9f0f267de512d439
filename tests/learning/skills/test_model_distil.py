"""Rules that a model proposes are kept only if their citations hold and they leak nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.learning.skills.evidence import ContrastAttempt
from assay.learning.skills.leaks import TaskSecrets
from assay.learning.skills.model_distil import (
    ProposedRule,
    RuleCitation,
    check_rules,
    choose_attempts,
    render_attempts,
)
from assay.records import AttemptStarted, Observation, Step, ToolCall, Trajectory

WORLDS = "family:adventure,rooms=3,locks=0"


def attempt(name: str, *, passed: bool, steps: int = 2) -> ContrastAttempt:
    call = ToolCall("c", "do", '{"command":"take crown"}', {"command": "take crown"})
    made = tuple(
        Step(
            n,
            "agent",
            message="I look\naround",
            tool_calls=(call,),
            observations=(Observation("You carry: crown.", "c"),),
        )
        for n in range(steps)
    )
    started = AttemptStarted("r", name, "t", "", "a", None, 0, 0)
    empty: dict[str, Any] = dict.fromkeys(("calls", "evidence", "verdicts", "notes"), ())
    fields: dict[str, Any] = {"run": "r", "attempt": name, "chain": name, "task": "t", "task_digest": "", "agent": "a"}
    fields |= {"model": None, "seed": 0, "number": 0, "retry": 0, "started": started, "finished": None}
    return ContrastAttempt(Trajectory(**fields, isolation=None, steps=made, **empty, head="h", length=0), passed)


SHOWN = [attempt("one", passed=True), attempt("two", passed=False)]
SECRETS = [TaskSecrets("t-17", (("task id", "t-17"),))]
GOOD = RuleCitation("A1", 1, "You carry: crown.")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (ProposedRule("Take it.", (RuleCitation("A9", 1, "You carry: crown."),)), "no attempt is called"),
        (ProposedRule("Take it.", (RuleCitation("A1", 7, "You carry: crown."),)), "has no step 7"),
        (ProposedRule("Take it.", (RuleCitation("A1", 1, "You carry: sword."),)), "does not hold 'You carry: sword.'"),
        (ProposedRule("Take it.", (RuleCitation("A1", 1, "crown"),)), "at least 8 characters"),
        (ProposedRule("Take it.", (RuleCitation("A2", 1, "You carry: crown."),)), "no step of a passing attempt"),
        (ProposedRule("Take it.", ()), "no step of a passing attempt"),
        (ProposedRule("In t-17 take it.", (GOOD,)), "it holds a task id"),
        (ProposedRule("two\nlines", (GOOD,)), "one printable line"),
        (ProposedRule("x" * 301, (GOOD,)), "one printable line"),
    ],
)
def test_a_rule_that_does_not_hold_is_refused_for_its_reason(rule: ProposedRule, reason: str) -> None:
    claims, (refused,) = check_rules([rule], SHOWN, SECRETS)
    assert (claims, reason in refused.reason) == ((), True), refused.reason


def test_a_rule_that_holds_cites_the_steps_of_passes() -> None:
    cites = (GOOD, RuleCitation("A1", 0, "I look around"), RuleCitation("A2", 0, '{"command":"take crown"}'))
    (claim,), refused = check_rules([ProposedRule("- Take the goal.", cites)], SHOWN, SECRETS)
    assert (claim.text, refused) == ("- Take the goal.", ())
    assert [(ref.attempt, ref.head, ref.steps) for ref in claim.evidence] == [("one", "h", (0, 1))]


def test_pairs_of_a_pass_and_a_fail_are_shown_first_and_long_attempts_are_cut() -> None:
    judged = [attempt("long", passed=True, steps=5_000), *SHOWN]
    chosen = choose_attempts(judged)
    assert [one.trajectory.attempt for one in chosen] == ["one", "two"]
    text = render_attempts([judged[0], *SHOWN])
    assert len(text) < 61_000
    assert "Attempt A3 (failed)\nstep 0: says I look around\nstep 0: calls do" in text


def invoke(store: Path, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(build_app(), [*words, "--store", str(store)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else " ".join(result.stderr.split())


@pytest.mark.long
def test_a_scripted_model_distils_a_skill_from_recorded_attempts(tmp_path: Path) -> None:
    store = tmp_path / "store"
    invoke(store, "run", f"{WORLDS},n=25", "--agent", "rules-world", "--run", "first")
    script = tmp_path / "model.py"
    script.write_text(SCRIPT)
    words = ("skills", "distil", "first", "--name", "by-model", "--model", f"scripted:{script}:answer", "--json")
    found = json.loads(invoke(store, *words))
    assert [one["text"] for one in found["claims"]] == ["- Take the goal as soon as you see it."]
    assert "does not hold" in found["refused"][0]["reason"]
    assert json.loads(invoke(store, "skills", "validate", "by-model", "--json"))["valid"]
    (exchange,) = (store / "skills" / "by-model" / "exchanges").iterdir()
    assert "Attempt A1 (passed)" in exchange.read_text()


@pytest.mark.long
@pytest.mark.parametrize("reply", ["no JSON", '{"rules": []}', "[" * 100_000])
def test_an_answer_without_a_rule_makes_no_skill(tmp_path: Path, reply: str) -> None:
    store = tmp_path / "store"
    invoke(store, "run", f"{WORLDS},n=20", "--agent", "rules-world", "--run", "first")
    (tmp_path / "model.json").write_text(json.dumps([reply]))
    words = ("skills", "distil", "first", "--name", "x", "--model", f"scripted:{tmp_path / 'model.json'}")
    assert "model" in invoke(store, *words, code=2)
    assert not (store / "skills" / "x").exists()


SCRIPT = '''"""Cites a step of the first passing attempt that it is shown, and one that is not there."""
import json, re


def answer(request):
    shown = request.messages[1]["content"]
    name, part = re.search(r"Attempt (A\\d+) \\(passed\\)\\n(.*?)(?:\\n\\nAttempt |$)", shown, re.DOTALL).groups()
    step, quote = re.search(r"step (\\d+): calls do (\\{[^\\n]*\\})", part).groups()
    cite = {"attempt": name, "step": int(step), "quote": quote}
    rules = [
        {"text": "Take the goal as soon as you see it.", "cites": [cite]},
        {"text": "Sing.", "cites": [cite | {"quote": "words that are not there"}]},
    ]
    return json.dumps({"description": "Guides through adventures of rooms and things.", "rules": rules})
'''
