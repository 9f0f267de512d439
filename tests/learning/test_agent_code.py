"""Code of an agent as a searched part: candidates are checked, kept by content, run in the sandbox alone, and gated."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.errors import StoreError, UserError
from assay.learning.evolution.agent_code import AgentCode, CandidateError
from assay.learning.evolution.evolve import EvolutionEntry, evolve
from assay.learning.evolution.recipe import EvolveCodeOptions, EvolveRecipe
from assay.settings import Settings
from assay.store import RunStore, list_runs
from assay.store.chained_file import ChainedFile
from assay.tasks import find_tasks

ROOT = Path(__file__).parents[2]
WALKER = ROOT / "docs_src" / "maze_walker"
DEPTH_FIRST = (WALKER / "depth_first.diff").read_text()
SEARCH, GATE = "family:maze,n=4,size=7,seed=1", "family:maze,n=14,size=7,seed=2"


def code_in(place: Path, **options: Any) -> AgentCode:
    agent = place / "agent"
    agent.mkdir(exist_ok=True)
    (agent / "old").mkdir(exist_ok=True)
    for name, text in {"a.py": "x = 1\n", "notes.json": "{}", "own.txt": "mine\n", "old/b.txt": "old\n"}.items():
        (agent / name).write_text(text)
    given = {
        "folder": str(agent),
        "target": "/opt/agent",
        "files": ["a.py", "notes.json", "new/*", "b.bin", "old"],
        **options,
    }
    return AgentCode(msgspec.convert(given, EvolveCodeOptions), place / "store", find_tasks([GATE]))


def block(path: str, text: str) -> str:
    return f"```file {path}\n{text}\n```\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I would rather not.", "neither a block"),
        ("```file a.py\nx = 2\n", "neither a block"),
        (block("a.py", "x = 1"), "changes nothing"),
        (block("own.txt", "theirs"), "changes 'own.txt'"),
        (block("../a.py", "x = 2"), "not a plain path"),
        (block("/etc/passwd", "x"), "not a plain path"),
        (block("new/" + "x" * 300, "x"), "not a plain path"),
        (block("new/__pycache__/a.py", "x"), "does not belong to the code"),
        (block("new/p", "x") + block("new/p/q", "x"), "both a file and a folder, or in a file"),
        (block("old", "x"), "both a file and a folder"),
        (block("new/\udce4", "x"), "not a plain path"),
        (block("a.py", "def f(:"), "a.py: does not compile: not a Python program"),
        (block("a.py", "return 1"), "a.py: does not compile"),
        (block("a.py", "x = '\0'"), "null character"),
        (block("notes.json", "{"), "notes.json: "),
        (block("new/t.toml", "= 1"), "new/t.toml: "),
        (block("a.py", "x = 1\n" * 5_000), "longer than"),
        ("".join(block(f"new/{n}.txt", "x") for n in range(33)), "changes 33 files; at most 32"),
        ("".join(block(f"new/{n}.txt", "x" * 100_000) for n in range(3)), "256 KiB together"),
        ("```diff\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 9\n+x = 2\n```", "the diff does not apply"),
        ("```diff\n--- a/a.py\n+++ b/../../a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n```", "not a plain path below"),
        (block("a.py", "x = 1\nplan = 'maze-size7-2-3'"), "holds a task id of task maze-size7-2-3"),
    ],
)
def test_a_candidate_that_may_not_be_tried_is_refused(tmp_path: Path, answer: str, reason: str) -> None:
    code = code_in(tmp_path)
    kept = list((tmp_path / "store").rglob("*"))
    with pytest.raises(CandidateError, match=reason):
        code.changed_by_answer(code.base.digest, answer)
    assert list((tmp_path / "store").rglob("*")) == kept


def test_a_candidate_is_kept_by_content_with_its_diff_and_read_again_with_its_digest(tmp_path: Path) -> None:
    code = code_in(tmp_path)
    diff = "```diff\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-x = 1\n+x = 2\n+y = 3\n```\n"
    first = code.changed_by_answer(code.base.digest, f"Here:\n{diff}" + block("new/p.txt", "more"))
    second = code.changed_by_answer(first.digest, block("a.py", "x = 4"))
    assert code.tree_of(second.digest).files == {**code.base.files, "a.py": b"x = 4\n", "new/p.txt": b"more\n"}
    assert "-x = 1\n+x = 4\n" in second.diff
    assert "--- /dev/null\n+++ b/new/p.txt\n" in second.diff
    options = code.run_options({"code": first.digest, "command": "run", "mounts": {"/a": "/b"}})
    assert options == {"command": "run", "mounts": {"/a": "/b", str(code.folder_of(first.digest)): "/opt/agent"}}
    (code.folder_of(first.digest) / "a.py").write_text("import os\n")
    with pytest.raises(StoreError, match="was changed"):
        code.run_options({"code": first.digest})


def test_an_agent_of_one_file_stays_one_file(tmp_path: Path) -> None:
    program = tmp_path / "one.py"
    program.write_text("x = 1\n")
    code = code_in(tmp_path, folder=str(program), files=["*"])
    made = code.changed_by_answer(code.base.digest, block("one.py", "x = 2"))
    assert code.run_options({"code": made.digest}) == {
        "mounts": {str(code.folder_of(made.digest) / "one.py"): "/opt/agent"}
    }
    with pytest.raises(CandidateError, match="the agent is one file"):
        code.changed_by_answer(code.base.digest, block("two.py", "x = 2"))


def recipe(folder: Path, **changes: Any) -> EvolveRecipe:
    (folder / "model.json").write_text('["unused"]')
    given = {
        "name": "walk",
        "agent": "command",
        "model": f"scripted:{folder / 'model.json'}",
        "base": {"command": ["python3", "/opt/walker/agent.py"]},
        "code": {"folder": str(WALKER / "program"), "target": "/opt/walker", "files": ["policy.py"]},
        "search": {"tasks": [SEARCH], "method": "mutate", "proposer": f"scripted:{__file__}:propose", "proposals": 2},
        "gate": {"tasks": [GATE], "looks": 1},
        "concurrency": 2,
    }
    return msgspec.convert({**given, **changes}, EvolveRecipe)


def propose(request: Any) -> str:
    """Writes a program that does not compile, and then one that walks depth first; keeps the prompts."""
    place = Path(os.environ["PROMPTS_OF_THE_TEST"])
    asked = len(list(place.iterdir()))
    (place / str(asked)).write_text(request.messages[-1]["content"])
    return block("policy.py", "class Policy(") if asked == 0 else f"It forgets where it was.\n```diff\n{DEPTH_FIRST}```"


async def test_a_model_changes_the_code_and_the_winner_holds_on_tasks_that_it_never_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    monkeypatch.setenv("PROMPTS_OF_THE_TEST", str(prompts))
    settings = Settings(Settings.from_environment().cache, tmp_path / "store")
    found = await evolve(recipe(tmp_path), settings)
    assert (found.accepted, found.held_out is not None and found.held_out[1]) == (True, 1.0)
    assert found.code is not None
    assert "depth first" in (Path(found.code) / "policy.py").read_text()
    assert "policy" not in sys.modules
    first, second = ((prompts / name).read_text() for name in ("0", "1"))
    assert "Takes any open way" in first
    assert "solved: fail" in first
    assert "urllib" not in first, "files that may not change are not shown"
    assert "An answer was refused: policy.py: does not compile" in second
    entries = ChainedFile(settings.store / "evolution" / "walk.jsonl", EvolutionEntry).read()
    refused, accepted = [one for one in entries if one.kind == "code"]
    assert (refused.accepted, accepted.accepted, "Walks depth first" in accepted.text) == (False, True, True)
    with RunStore.open(settings.store, next(run for run in list_runs(settings.store) if "-gate-" in run)) as store:
        isolated = {one.isolation.name for one in store.trajectories() if one.isolation is not None}
    assert isolated
    assert not isolated & {"none", "not needed"}
    runs = list_runs(settings.store)
    again = await evolve(recipe(tmp_path), settings)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(found)
    assert (list_runs(settings.store), len(list(prompts.iterdir()))) == (runs, 2)


@pytest.mark.long
def test_the_recipe_of_the_page_accepts_the_listed_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(
        build_app(), ["evolve", "recipes/evolve_code.toml", "--store", str(tmp_path / "s"), "--json"]
    )
    found = json.loads(done.stdout)
    assert (done.exit_code, found["accepted"], found["claimed"][1]) == (0, True, 1.0), found
    assert found["claimed"][0] < found["held_out"][1] == 1.0


@pytest.mark.quick
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"agent": "expert"}, "would run in this process"),
        ({"code": None}, "name its folder"),
        ({"space": {"name": ["a"]}}, "leave other options"),
        ({"search": {"tasks": [SEARCH], "method": "mutate"}}, "name it as proposer"),
        ({"search": {"tasks": [SEARCH]}}, "space has no values"),
    ],
)
def test_a_search_of_code_that_cannot_work_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises((UserError, msgspec.ValidationError), match=reason):
        recipe(tmp_path, **changes)


async def test_a_variant_that_may_not_be_tried_ends_the_search_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "v.diff").write_text("--- a/agent.py\n+++ b/agent.py\n@@ -1 +1 @@\n-a\n+b\n")
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    for given in (str(tmp_path / "v.diff"), str(tmp_path / "absent")):
        wrong = recipe(tmp_path, search={"tasks": [SEARCH]}, space={"code": [given]})
        with pytest.raises(UserError, match=r"cannot be (tried|read)"):
            await evolve(wrong, settings)
    assert not list_runs(settings.store)
