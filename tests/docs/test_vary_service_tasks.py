"""The commands of the page on varying tasks of services run as they are written; a scripted model stands for models."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.environments.services.world import ServiceWorld
from assay.plugins import load
from assay.synthesis.services.family import ServiceTasks
from scripts.make_reference import ROOT

PAGE = (ROOT / "docs" / "how-to" / "vary-service-tasks.md").read_text()
COMMANDS = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
NOTHING = """
class Idle:
    name = "idle"
    needs_model = False

    async def run(self, attempt):
        attempt.finish("done")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    (tmp_path / "idle.py").write_text(NOTHING)
    (tmp_path / "replies.json").write_text(json.dumps({"replies": ["Cancel all of it."], "after": "last"}))
    return tmp_path


def printed(*words: str) -> str:
    done = CliRunner().invoke(build_app(), words)
    assert done.exit_code == 0, (words, done.output)
    return done.output


def document(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


@pytest.mark.long
def test_the_commands_without_a_model_run(folder: Path) -> None:
    twins, augment, pairs, stats, plans, _ = (printed(*shlex.split(command)[1:]) for command in COMMANDS[:6])
    assert re.search(r"^[1-4] pairs? of \d+ changes", twins)
    assert re.search(r"^renamed +8 +8 ", augment, re.MULTILINE)
    assert re.search(r"^oracle .*1\.000", pairs, re.MULTILINE)
    assert re.search(r"^oracle +- +\d +(\d+) +\1 +0 +0 +1\.000", stats, re.MULTILINE)
    assert re.search(r"^null +- +\d +(\d+) +0 +0 +\1 +0\.000", stats, re.MULTILINE)
    assert re.search(r"^oracle +- +nothing else +nothing else +1 +(\d+) of \1 ", stats, re.MULTILINE)
    assert re.search(r"^null +- +request +\w+ +\d+ +0 of \d+ ", stats, re.MULTILINE)
    kept = re.search(r"^oracle +- +(\d+) +\1 +\1 ", plans, re.MULTILINE)
    assert kept is not None
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == int(kept[1])
    called = {call["function"]["name"] for row in rows for m in row["messages"] for call in m.get("tool_calls") or ()}
    assert called - set(ServiceWorld.of([load("services", "shop")]).composition.actions)  # other names are taught


@pytest.mark.long
def test_the_commands_with_a_model_run(folder: Path) -> None:
    names = {"openai:NAME": "scripted:replies.json", "openai:OTHER": "scripted:replies.json", "n=20": "n=2"}
    for command in COMMANDS[6:8]:
        words = shlex.split(command)[1:]
        words = [word.replace("n=20", "n=2") for word in (names.get(word, word) for word in words)]
        told = printed(*words)
        assert "4 rewrites asked for: 0 kept, 4 rejected" in told
        assert "it leaves out" in told
    follow = [word.replace("n=20", "n=2") for word in shlex.split(COMMANDS[8])[1:]]
    follow[follow.index("loop")] = "idle.py"
    at = follow.index("--model")
    printed(*follow[:at], *follow[at + 2 :])
    told = printed(*shlex.split(COMMANDS[9])[1:])
    rows = re.findall(r"^services-\S+ +idle +- +0 of 4 .* 0\.000 +4 of 4 +no follower reaches it$", told, re.MULTILINE)
    assert len(rows) == 2


@pytest.mark.long
def test_a_rewrite_that_the_follower_does_not_reach_the_goal_with_is_dropped(folder: Path) -> None:
    name = "family:services,app=shop,level=implicit,writes=1,n=1"
    (folder / "copy.json").write_text(json.dumps({"rules": [{"match": r"(?s)^.*?\. (.*)$", "reply": "x"}]}))
    out = document(printed("synth", "rewrite", name, "--model", "scripted:replies.json", "--out", "o.jsonl", "--json"))
    assert (out["asked"], out["kept"]) == (2, 0)
    made = printed("synth", "augment", name, "--out", "p.jsonl", "--names", "0")
    assert "commuted" in made
    (task,) = ServiceTasks(app="shop", level="implicit", writes=1).tasks(1, 0)
    text = str(task.instruction).partition("\n\n")[0]
    other = "Hey! " + text.partition(". ")[2]
    (folder / "other.json").write_text(json.dumps({"replies": [other], "after": "last"}))
    words = ("synth", "rewrite", name, "--model", "scripted:other.json", "--out", "r.jsonl", "--json")
    assert document(printed(*words))["kept"] == 1
    dropped = document(printed(*words, "--follower", "idle.py"))
    assert dropped["kept"] == 0
    assert "the follower did not reach the goal in 2 attempts" in json.dumps(dropped["rejected"])
    assert (folder / "r.jsonl").read_bytes() == b""
    kept = document(printed(*words, "--follower", "oracle"))
    assert kept["kept"] == 1
    shown = printed("run", "family:written,path=r.jsonl,n=1", "--agent", "oracle", "--run", "again")
    assert re.search(r"^oracle +- +1 +1 +1 ", shown, re.MULTILINE)
    lines = printed("show", f"{task.id}-rewritten@0", "--run", "again")
    assert re.search(r"^clause 1 \(request\) .*: met  \[judged by: shop_", lines, re.MULTILINE)
    clauses = document(printed("show", f"{task.id}-rewritten@0", "--run", "again", "--json"))["clauses"]
    assert isinstance(clauses, list)
    assert clauses[0]["met"] is True
    assert clauses[0]["tied_to"]
