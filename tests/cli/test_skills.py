"""`assay skills`, from real attempts to a released skill, and the refusals on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.agents.text_rules import parse_rules, render_rule
from assay.cli.app import build_app

AGENT = "assay.agents.rules_world:RulesWorldAgent"
WORLDS = "family:adventure,rooms=3,locks=0"
pytestmark = pytest.mark.long


def assay(store: Path, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(build_app(), [*words, "--store", str(store)])
    assert result.exit_code == code, result.output
    return result.stdout


def answer(store: Path, *words: str, code: int = 0) -> Any:
    return json.loads(assay(store, *words, "--json", code=code))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a distilled skill; its attempts are real."""
    root = tmp_path_factory.mktemp("store")
    assay(root, "run", f"{WORLDS},n=60", "--agent", AGENT, "--run", "first")
    assay(root, "skills", "distil", "first", "--name", "guide")
    return root


@pytest.mark.long
def test_every_rule_cites_steps_that_are_there(store: Path) -> None:
    found = answer(store, "skills", "show", "guide")
    claims = found["skill"]["claims"]
    assert len(claims) >= 5
    assert all(sum(len(ref["steps"]) for ref in one["evidence"]) == one["taken"] for one in claims if one["taken"])
    assert all(ref["steps"] for one in claims for ref in one["evidence"])
    assert answer(store, "skills", "validate", "guide")["valid"]


@pytest.mark.long
def test_skill_that_helps_is_released_and_exported(store: Path, tmp_path: Path) -> None:
    assay(store, "skills", "export", "guide", str(tmp_path / "guide"), code=2)
    trial = answer(store, "skills", "trial", "guide", "--tasks", f"{WORLDS},n=80,seed=5")["trial"]
    assert [one["name"] for one in trial["arms"]] == ["none", "skill", "placebo"]
    assert trial["arms"][1]["rate"] > trial["arms"][0]["rate"] + 0.1
    assert (trial["planned"], trial.get("unjudged", 0), trial.get("earlier_uses", 0)) == (80, 0, 0)
    assert answer(store, "skills", "trial", "guide", "--tasks", f"{WORLDS},n=80,seed=5")["trial"] == trial
    assert len(answer(store, "skills", "show", "guide")["skill"]["entries"]) == 2
    again = refusal(store, "skills", "trial", "guide", "--tasks", f"{WORLDS},n=80,seed=5", "--no-placebo")
    assert "this holdout is used up" in again
    assay(store, "skills", "export", "guide", str(tmp_path / "guide"))
    assert answer(store, "skills", "validate", str(tmp_path / "guide"), "--tasks", f"{WORLDS},n=80,seed=5")["valid"]
    assert [one["left"] for one in answer(store, "skills", "holdouts")] == [0.0]


@pytest.mark.long
def test_harmful_and_null_skills_are_refused_for_their_reason(store: Path, tmp_path: Path) -> None:
    rules = parse_rules(answer(store, "skills", "show", "guide")["text"])
    inverse = {pattern: min(900.0, factor**-4) for pattern, factor in rules.items()}
    for name, table in (("harmful", inverse), ("empty-words", dict.fromkeys(rules, 1.0))):
        lines = "\n".join(render_rule(pattern, factor) for pattern, factor in table.items())
        write(tmp_path / name, f"---\nname: {name}\ndescription: d\n---\n\n{lines}\n")
        assay(store, "skills", "import", str(tmp_path / name))
        tasks = f"{WORLDS},n=60,seed={len(name)}"
        refused = answer(store, "skills", "trial", name, "--tasks", tasks, code=1)
        assert refused["trial"]["causes"][0] == ("harm" if name == "harmful" else "no gain")


@pytest.mark.long
def test_mild_harm_is_found_by_further_attempts_at_tasks_that_passed(store: Path, tmp_path: Path) -> None:
    rules = parse_rules(answer(store, "skills", "show", "guide")["text"])
    lines = "\n".join(render_rule(pattern, factor**-0.5) for pattern, factor in rules.items())
    write(tmp_path / "mild", f"---\nname: mild\ndescription: d\n---\n\n{lines}\n")
    assay(store, "skills", "import", str(tmp_path / "mild"))
    words = ("mild", "--tasks", f"{WORLDS},n=30,seed=530", "--looks", "1", "--harm-attempts", "12", "--no-placebo")
    refused = answer(store, "skills", "trial", *words, code=1)["trial"]
    check = refused["harm_check"]
    assert refused["causes"] == ["harm", "no gain"]
    assert check["p_harm"] <= check["level"] == 0.025
    assert check["passed"][1] < check["passed"][0] <= 12 * check["tasks"]
    assert len(set(check["runs"])) == 2


@pytest.mark.long
def test_leaking_skill_is_refused_before_anything_runs(store: Path, tmp_path: Path) -> None:
    write(tmp_path / "leaking", "---\nname: leaking\ndescription: d\n---\n\nIn adventure-locks0-rooms3-9-1 go north.\n")
    assay(store, "skills", "import", str(tmp_path / "leaking"))
    refused = answer(store, "skills", "trial", "leaking", "--tasks", f"{WORLDS},n=3,seed=9", code=1)
    assert (refused["trial"]["causes"], refused["trial"]["arms"]) == (["leak"], [])


@pytest.mark.long
def test_tasks_that_the_search_saw_are_refused(store: Path) -> None:
    assert "distilled from" in refusal(store, "skills", "trial", "guide", "--tasks", f"{WORLDS},n=5")
    assert "distilled from" in refusal(store, "skills", "trial", "guide", "--tasks", f"{WORLDS},n=5,turns=99")


@pytest.mark.long
def test_copy_under_another_name_rests_on_what_the_skill_rests_on(store: Path, tmp_path: Path) -> None:
    text = answer(store, "skills", "show", "guide")["text"]
    write(tmp_path / "copied", text.replace("guide", "copied", 1))
    assay(store, "skills", "import", str(tmp_path / "copied"))
    assert "distilled from" in refusal(store, "skills", "trial", "copied", "--tasks", f"{WORLDS},n=5")


def refusal(store: Path, *words: str) -> str:
    """Returns the message of a command that is refused."""
    result = CliRunner().invoke(build_app(), [*words, "--store", str(store)])
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tasks", f"{WORLDS},n=3", "--agent", "null"), "does not take these options (skill)"),
        (("--tasks", f"{WORLDS},n=3", "--protected", "other"), "not among the trial's tasks"),
        (("--tasks", f"{WORLDS},n=3", "--alpha", "2"), "alpha"),
        (("--tasks", f"{WORLDS},n=3", "--attempts", "0"), "attempts"),
        ((), "tasks is missing"),
    ],
)
def test_impossible_trial_is_refused_and_spends_nothing(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    write(tmp_path / "guide", "---\nname: guide\ndescription: d\n---\n\n- look: 2.0 times as likely as a random act\n")
    assay(tmp_path / "store", "skills", "import", str(tmp_path / "guide"))
    assert message in refusal(tmp_path / "store", "skills", "trial", "guide", *words)
    assert answer(tmp_path / "store", "skills", "holdouts") == []


def test_trial_without_a_judged_control_decides_nothing(tmp_path: Path) -> None:
    """The agent acts in another family alone, so that every attempt breaks, with the skill and without."""
    write(tmp_path / "guide", "---\nname: guide\ndescription: d\n---\n\n- look: 2.0 times as likely as a random act\n")
    assay(tmp_path / "store", "skills", "import", str(tmp_path / "guide"))
    said = refusal(tmp_path / "store", "skills", "trial", "guide", "--tasks", "family:grid,n=3", "--no-placebo")
    assert "look 1 of 3: none, 1 attempt " in said
    assert "nothing is decided and the skill keeps its state" in said
    assert [one["state"] for one in answer(tmp_path / "store", "skills", "ls")] == ["candidate"]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("distil", "nope", "--name", "x"), "no runs in"), (("retire", "guide", "--reason", " "), "no reason: give one")],
)
def test_missing_run_and_reason_are_named(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    assert message in refusal(tmp_path / "store", "skills", *words)


def test_evidence_without_steps_is_shown_and_not_valid(tmp_path: Path) -> None:
    write(tmp_path / "guide", "---\nname: guide\ndescription: d\n---\n\n- first\n")
    root, ref = tmp_path / "store", {"run": "r", "attempt": "a", "chain": "c", "head": "h", "steps": []}
    assay(root, "skills", "import", str(tmp_path / "guide"))
    proposal = {"reason": "x", "edits": [{"op": "add", "text": "- second"}], "evidence": [ref]}
    (tmp_path / "edits.json").write_text(json.dumps(proposal))
    assay(root, "skills", "edit", "guide", str(tmp_path / "edits.json"))
    assert "- second" in assay(root, "skills", "show", "guide")
    assert answer(root, "skills", "validate", "guide", code=1)["evidence"][0] == "'- second' cites nothing"


def test_edit_import_list_and_retire(tmp_path: Path) -> None:
    write(tmp_path / "guide", "---\nname: guide\ndescription: d\n---\n\n- first\n")
    root = tmp_path / "store"
    assert "no skills" in assay(root, "skills", "ls")
    assay(root, "skills", "import", str(tmp_path / "guide"))
    proposal = {"reason": "longer", "edits": [{"op": "add", "line": "- first", "text": "- second"}]}
    (tmp_path / "edits.json").write_text(json.dumps(proposal))
    assay(root, "skills", "edit", "guide", str(tmp_path / "edits.json"))
    assert "- second" in assay(root, "skills", "show", "guide")
    assay(root, "skills", "retire", "guide", "--reason", "old")
    assert answer(root, "skills", "ls")[0]["state"] == "retired"
    assay(root, "skills", "export", "guide", str(tmp_path / "out" / "guide"), code=2)


@pytest.mark.parametrize("text", ["", "{}", '{"reason": "x", "edits": [], "z": 1}', "[" * 100_000])
def test_broken_proposal_is_named(tmp_path: Path, text: str) -> None:
    write(tmp_path / "guide", "---\nname: guide\ndescription: d\n---\n\n- first\n")
    assay(tmp_path / "store", "skills", "import", str(tmp_path / "guide"))
    (tmp_path / "edits.json").write_text(text)
    assay(tmp_path / "store", "skills", "edit", "guide", str(tmp_path / "edits.json"), code=2)


def test_invalid_import_is_listed_with_its_problems(tmp_path: Path) -> None:
    write(tmp_path / "Bad_Name", "no front matter")
    (found,) = answer(tmp_path / "store", "skills", "import", str(tmp_path / "Bad_Name"))
    assert "must start with YAML front matter" in found["problems"][0]
    assay(tmp_path / "store", "skills", "validate", str(tmp_path / "Bad_Name"), code=1)


def write(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "SKILL.md").write_text(text)
