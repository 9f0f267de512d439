"""`assay skills usage`, `route`, `retire --by-usage` and `mine` on recorded attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.agents.text_rules import render_rule
from assay.cli.app import build_app
from assay.learning.skills.library import SkillLibrary
from assay.learning.skills.records import TrialRecord
from assay.learning.skills.routing import offered_tiers

WORLDS = "family:adventure,rooms=3,locks=0,n=40,seed=4"
SOLVER = "tests.synthesis.services.solver_agent:SolverAgent"
pytestmark = pytest.mark.long


def invoke(store: Path, *words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(build_app(), [*words, "--json", "--store", str(store)])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 else " ".join(result.stderr.split())


def run(store: Path, name: str, *words: str) -> None:
    result = CliRunner().invoke(build_app(), ["run", *words, "--run", name, "--store", str(store)])
    assert result.exit_code in (0, 1), result.output


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two released skills, of which one harms, and runs with and without each."""
    root = tmp_path_factory.mktemp("usage")
    run(root / "store", "without", WORLDS, "--agent", "rules-world")
    for name, factor in (("takes", 50.0), ("drops", 0.001)):
        folder = root / name
        folder.mkdir()
        rule = render_rule("take the goal elsewhere", factor)
        text = f"---\nname: {name}\ndescription: {name} the thing, home, rooms and adventure\n---\n\n{rule}\n"
        (folder / "SKILL.md").write_text(text)
        invoke(root / "store", "skills", "import", str(folder))
        release(root / "store", name)
        run(root / "store", f"with-{name}", WORLDS, "--agent", "rules-world", "--agent-option", f"skill={folder}")
    return root / "store"


def release(store: Path, name: str) -> None:
    library = SkillLibrary(store)
    accepted = TrialRecord(True, (), ("by hand",), "", 0.03, (), None, None)
    library.record_trial(name, library.summary(name).version, accepted)


def test_versions_are_counted_beside_attempts_without_a_skill(store: Path) -> None:
    (helpful,) = invoke(store, "skills", "usage", "takes")
    assert (helpful["loaded"], helpful["tasks"]) == (40, 40)
    assert helpful["difference"] > 0.1
    assert helpful["low"] < helpful["difference"] < helpful["high"]
    assert invoke(store, "skills", "usage", "takes", "without") == []


def test_runs_move_skills_between_tiers_and_a_demoted_one_is_not_offered(store: Path) -> None:
    runs = ("without", "with-takes", "with-drops")
    looked = {one["skill"]: one for one in invoke(store, "skills", "tiers", *runs)}
    assert {name: (one["before"], one["tier"]) for name, one in looked.items()} == {
        "takes": ("new", "proven"),
        "drops": ("new", "demoted"),
    }
    assert {one["tier"] for one in invoke(store, "skills", "ls")} == {"new"}  # a look records nothing
    moved = {one["skill"]: one for one in invoke(store, "skills", "tiers", *runs, "--record")}
    assert (moved["takes"]["promotions"], moved["drops"]["demotions"]) == (1, 1)
    again = invoke(store, "skills", "tiers", *runs, "--record")
    assert [(one["skill"], one["before"], one["tier"]) for one in again] == [
        ("takes", "proven", "proven"),
        ("drops", "demoted", "demoted"),
    ]
    assert list(offered_tiers(SkillLibrary(store))) == ["takes"]
    entry = SkillLibrary(store).summary("drops").entries[-1]
    assert (entry.kind, entry.tier, entry.source) == ("tier", "demoted", ", ".join(runs))


def test_a_skill_is_retired_by_usage_only_where_it_harms(store: Path) -> None:
    assert "do not show that the released version" in invoke(
        store, "skills", "retire", "takes", "--by-usage", "without", "--by-usage", "with-takes", code=2
    )
    assert "no attempt loaded it" in invoke(store, "skills", "retire", "drops", "--by-usage", "without", code=2)
    retired = invoke(store, "skills", "retire", "drops", "--by-usage", "without", "--by-usage", "with-drops")
    assert retired["state"] == "retired"
    assert "harmful in use" in SkillLibrary(store).summary("drops").entries[-1].reason


def test_released_skills_are_routed_by_the_words_of_tasks(store: Path) -> None:
    (routed,) = invoke(store, "skills", "route", "family:adventure,rooms=3,locks=0,n=1,seed=9", "--most", "1")
    assert [one["name"] for one in routed["skills"]] in ([], ["takes"])
    (other,) = invoke(store, "skills", "route", "family:grid,n=1")
    assert other["skills"] == []


def test_composite_tools_are_mined_executed_again_and_offered(tmp_path: Path) -> None:
    store = tmp_path / "store"
    tasks = "family:services,app=tracker,kind=mixed,n=10"
    run(store, "first", f"{tasks},seed=5", "--agent", SOLVER)
    mined = invoke(store, "skills", "mine", "first", "--name", "tracker-tools")
    assert mined["tools"]
    assert all(one["offered"] == "yes" and one["executed"] == 3 for one in mined["tools"])
    assert invoke(store, "skills", "validate", "tracker-tools")["valid"]
    folder = tmp_path / "tracker-tools"
    invoke(store, "skills", "export", "tracker-tools", str(folder), "--untried")
    run(store, "second", f"{tasks},seed=6", "--agent", SOLVER, "--agent-option", f"skill={folder}")
    (counted,) = invoke(store, "skills", "usage", "tracker-tools")
    assert (counted["loaded"], counted["judged"]) == (10, 10)


def test_attempts_without_linked_calls_make_no_tools(tmp_path: Path) -> None:
    run(tmp_path, "first", "family:grid,n=6,size=4", "--agent", "expert")
    assert "no sequence of linked calls" in invoke(tmp_path, "skills", "mine", "first", "--name", "x", code=2)


def test_a_skill_is_tried_with_a_model_that_reads_it(tmp_path: Path) -> None:
    """The scripted model walks to the goal if the skill in its context says so, and otherwise gives up."""
    folder = tmp_path / "walk"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: walk\ndescription: d\n---\n\nWALK to the goal. Never stop before.\n")
    (tmp_path / "model.py").write_text(WALKER)
    store = tmp_path / "store"
    invoke(store, "skills", "import", str(folder))
    model = ("--agent", "loop", "--model", f"scripted:{tmp_path / 'model.py'}:answer")
    words = ("skills", "trial", "walk", "--tasks", "family:grid,n=30,size=3,seed=3", *model, "--looks", "1")
    trial = invoke(store, *words)["trial"]
    assert trial["accepted"]
    assert [one["passed"] for one in trial["arms"]] == [0, 30, 0]
    (counted,) = invoke(store, "skills", "usage", "walk")
    assert (counted["loaded"], counted["difference"]) == (30, 1.0)


WALKER = '''"""Reads the way to the goal in the first observation, if the skill says WALK to the goal."""
import re


def answer(request):
    texts = [str(message["content"]) for message in request.messages]
    turn = sum(message["role"] == "assistant" for message in request.messages)
    way = re.search(r"goal (\\d[^\\n]*)", " ".join(texts[1:])).group(1)
    moves = [side for count, side in re.findall(r"(\\d+) (up|down|left|right)", way) for _ in range(int(count))]
    if "WALK to the goal." not in texts[0] or turn >= len(moves):
        return {"tool_calls": [{"name": "finish", "arguments": {"message": "done"}}]}
    return {"tool_calls": [{"name": "move", "arguments": {"direction": moves[turn]}}]}
'''
