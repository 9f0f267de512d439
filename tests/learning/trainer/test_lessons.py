"""`assay curate` derives lessons and pairs from failed attempts; `assay train` learns from both."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.agents.interface import Attempt
from assay.cli.app import build_app
from assay.errors import UserError
from assay.learning.curation.lessons import read_lessons, read_pairs
from assay.learning.trainer.dpo import find_token_pairs
from assay.learning.trainer.options import ModelOptions
from assay.learning.trainer.policy import TrainedPolicy, make_model
from assay.learning.trainer.rollouts import complete_run
from assay.records import ToolCall
from assay.rollout.config import RunConfig
from assay.settings import Settings
from tests.optional import require_packages

require_packages("torch", "renderers")
FAMILY = "family:grid,size=3,turns=4,n=3,seed=5"
RECIPE = """
name = "{name}"
method = "{method}"
lessons = ["{lessons}"]
folder = "{folder}"

[model]
path = "{model}"
thinking = false
device = "cpu"

[{method}]
steps = 6
batch = 16
optimise = {{ learning_rate = 5e-3 }}
"""


def assay(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), list(words))
    return result.exit_code, f"{result.output}{result.exception or ''}"


class Stumbles:
    """Makes a move that does not exist, and then moves into the same wall until it is stopped."""

    name = "stumbles"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        for direction in ("sideways", *["up"] * 9):
            arguments = {"direction": direction}
            await attempt.act([ToolCall("c", "move", json.dumps(arguments), arguments)])


@pytest.fixture(scope="module")
def curated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, runs of an expert that often errs and of an agent that never wins, and what `curate` made of their
    failures."""
    folder = tmp_path_factory.mktemp("curated")
    options = ModelOptions(hidden=32, layers=1, heads=2, feed_forward=32, device="cpu", thinking=False, context=4096)
    make_model(folder / "model", ["goal 1 down 1 left " * 4], options, seed=0)
    settings = Settings(cache=folder / "cache", store=folder / "store")
    expert = RunConfig(tasks=(FAMILY,), agent="expert", agent_options={"noise": 0.6}, attempts=4, run="expert")
    stumbles = RunConfig(tasks=(FAMILY,), agent=f"{__file__}:Stumbles", run="stumbles")
    for run in (expert, stumbles):
        asyncio.run(complete_run(run, settings))
    agents = ["--recover", "expert", "--reattempt", "expert", "--where", "verdicts:outcome=fail"]
    code, text = assay(
        "curate", "expert", "stumbles", *agents, "--store", str(folder / "store"), "--out", str(folder / "out")
    )
    assert code == 0, text
    return folder


@pytest.fixture
def policy(curated: Path) -> TrainedPolicy:
    return TrainedPolicy.open(curated / "model", ModelOptions(thinking=False, device="cpu"))


def trained(curated: Path, tmp_path: Path, method: str, *changes: str) -> tuple[int, str]:
    told = {"model": curated / "model", "lessons": curated / "out", "folder": tmp_path, "name": tmp_path.name[:40]}
    (tmp_path / "recipe.toml").write_text(RECIPE.format(method=method, **told))
    options = [word for change in changes for word in ("--set", change)]
    return assay("train", str(tmp_path / "recipe.toml"), *options, "--store", str(curated / "store"), "--json")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize(("method", "file"), [("sft", "lessons.jsonl"), ("dpo", "pairs.jsonl")])
def test_what_curate_made_of_failures_is_trained_on(curated: Path, tmp_path: Path, method: str, file: str) -> None:
    code, text = trained(curated, tmp_path, method)
    assert code == 0, text
    report, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert report["rows"] == len(lines(curated / "out" / file)) * (1 + (method == "dpo"))
    assert report["last"]["loss"] < report["first"]["loss"]
    assert Path(report["model"]).is_dir()


def test_only_the_marked_turns_of_a_lesson_are_trained(curated: Path, policy: TrainedPolicy) -> None:
    rows = list(read_lessons(curated / "out", policy.renderer, "digest"))
    told = lines(curated / "out" / "lessons.jsonl")
    assert {line["kind"] for line in told} == {"salvage", "fission", "reattempt"}
    for row, line in zip(rows, told, strict=True):
        learn = [mark for mark, message in zip(line["learn"], line["messages"], strict=True)
                 if message["role"] == "assistant"]  # fmt: skip
        assert [turn.trained for turn in row.turns] == learn
        assert int(row.loss_mask.sum()) == sum(turn.end - turn.start for turn in row.turns if turn.trained)
        assert (row.outcome, row.chain, row.verified_pass) == ("pass", line["won"]["chain"], True)


def test_an_error_is_context_and_getting_over_it_is_trained(curated: Path, policy: TrainedPolicy) -> None:
    decode = policy.renderer.tokenizer.decode
    rows = [row for row in read_lessons(curated / "out", policy.renderer, "d") if row.branch.startswith("fission")]
    assert rows
    for row in rows:
        assert "sideways" in decode(row.token_ids.tolist())
        assert "sideways" not in decode(row.token_ids[row.loss_mask].tolist())
        assert [turn.trained for turn in row.turns][:2] == [False, True]


def test_a_mark_in_the_file_decides_what_is_trained(curated: Path, policy: TrainedPolicy, tmp_path: Path) -> None:
    line = max(lines(curated / "out" / "lessons.jsonl"), key=lambda one: sum(one["learn"]))
    first = line["learn"].index(True)
    line["learn"][first] = False
    (tmp_path / "lessons.jsonl").write_text(json.dumps(line) + "\n")
    (row,) = read_lessons(tmp_path, policy.renderer, "digest")
    assert [turn.trained for turn in row.turns].count(False) == 1
    assert not row.loss_mask[row.turns[0].start : row.turns[0].end].any()


def test_a_pair_trains_the_two_messages_that_it_names(curated: Path, policy: TrainedPolicy) -> None:
    told = lines(curated / "out" / "pairs.jsonl")
    pairs = find_token_pairs(read_pairs(curated / "out", policy.renderer, "digest"))
    assert len(pairs) == len(told) > 0
    for pair, line in zip(pairs, told, strict=True):
        for ids, name in ((pair.chosen, "chosen"), (pair.rejected, "rejected")):
            arguments = line[name][0]["tool_calls"][0]["function"]["arguments"]
            text = policy.renderer.tokenizer.decode(ids.tolist())
            assert json.loads(arguments)["direction"] in text


def test_a_weak_pass_and_a_held_out_task_teach_nothing(curated: Path, tmp_path: Path) -> None:
    weak = tmp_path / "weak"
    weak.mkdir()
    text = (curated / "out" / "lessons.jsonl").read_text()
    (weak / "lessons.jsonl").write_text(text.replace('"no-agent-code"', '"same-process"'))
    changes = [f'lessons=["{weak}"]', "require=separate"]
    assert "nothing to learn from" in trained(curated, tmp_path, "sft", *changes)[1]
    code, said = trained(curated, tmp_path, "sft", "name=apart", f'held_out=["{FAMILY}"]')
    assert (code != 0, "held-out task" in said) == (True, True)


def test_lines_that_curate_did_not_write_are_refused(curated: Path, policy: TrainedPolicy, tmp_path: Path) -> None:
    line = lines(curated / "out" / "lessons.jsonl")[0]
    refusals = Counter[str]()
    changes: list[dict[str, Any]] = [{"learn": [True]}, {"messages": 3}, {"won": {}}]
    for changed in changes:
        (tmp_path / "lessons.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line | changed) + "\n")
        with pytest.raises(UserError, match=r"lessons\.jsonl, line 2, is not as") as refused:
            list(read_lessons(tmp_path, policy.renderer, "digest"))
        refusals[str(refused.value)] += 1
    assert len(refusals) == 3
    with pytest.raises(UserError, match="--recover or --reattempt"):
        list(read_pairs(tmp_path, policy.renderer, "digest"))


@pytest.mark.long
def test_a_selection_is_trained_on(curated: Path, tmp_path: Path) -> None:
    store = ["--store", str(curated / "store")]
    assert assay("curate", "expert", *store, "--where", "mixture:total=3", "--out", str(tmp_path / "o"))[0] == 0
    code, text = trained(curated, tmp_path, "sft", "lessons=[]", f'selected=["{tmp_path / "o"}"]')
    assert code == 0, text
    kept = [one for one in lines(tmp_path / "o" / "decisions.jsonl") if one["kept"] and one["outcome"] is not None]
    report, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert report["attempts"] == len(kept) == 3


@pytest.mark.long
def test_lessons_with_a_secret_are_left_out(curated: Path, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    (tmp_path / "planted").mkdir()
    first, *others = lines(curated / "out" / "lessons.jsonl")
    asked = next(message for message in first["messages"] if message["role"] == "user")
    asked["content"] += f" The token is {token}"
    text = "".join(json.dumps(one) + "\n" for one in (first, *others))
    (tmp_path / "planted" / "lessons.jsonl").write_text(text)
    steps = [f'lessons=["{tmp_path / "planted"}"]', "sft.steps=1"]
    code, said = trained(curated, tmp_path, "sft", *steps)
    assert code == 0, said
    report, _ = json.JSONDecoder().raw_decode(said[said.index("{") :])
    assert (report["secret"], report["rows"]) == ([first["source"]["attempt"]], len(others))
    assert f"left out, because a secret is in it: 1 attempts ({first['source']['attempt']})" in said
    code, said = trained(curated, tmp_path, "sft", *steps, "with_secrets=true", "name=all")
    assert json.JSONDecoder().raw_decode(said[said.index("{") :])[0]["rows"] == len(others) + 1


def test_lessons_have_no_policy_gradient(curated: Path, tmp_path: Path) -> None:
    code, text = trained(curated, tmp_path, "policy_gradient", "policy_gradient={}")
    assert (code != 0, "no policy gradient: use sft or dpo" in text) == (True, True)
