"""How an attempt stands decides what a trainer is told of it, whatever was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from assay.errors import UserError
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.records import Body, ModelCalled, StepAdded, VerdictAdded
from assay.settings import Settings
from tests.learning.recorded import store_run

pytestmark = pytest.mark.quick
Make = Callable[..., list[Body]]


def exported(to: str, attempts: list[list[Body]], tmp_path: Path, **how: Any) -> Path:
    out = tmp_path / to
    store = store_run(tmp_path / f"{to}-store", attempts)
    export_for_training("r", WriteConfig(to=to, out=str(out), **how), Settings(cache=tmp_path, store=store))
    return out


def losses(out: Path) -> list[dict[str, Any]]:
    return list(json.loads((out.parent / f"{out.name}.losses.json").read_text())["losses"])


def scored(events: list[Body], score: float) -> list[Body]:
    return [
        VerdictAdded(msgspec.structs.replace(e.verdict, score=score))
        if isinstance(e, VerdictAdded) and e.verdict.kind == "outcome"
        else e
        for e in events
    ]


def rewards(to: str, attempts: list[list[Body]], tmp_path: Path, **how: Any) -> list[float]:
    out = exported(to, attempts, tmp_path, **how)
    if to == "skyrl":
        return list(json.loads(out.read_text())["rewards"])
    return list(pq.read_table(out / "rollouts.parquet").column("reward_score").to_pylist())


@pytest.mark.parametrize("to", ["verl", "skyrl"])
def test_a_dishonest_failure_is_paid_nothing(attempt: Make, tmp_path: Path, to: str) -> None:
    honest, cheat = attempt("a0", "up", outcome="fail"), attempt("a1", "up", outcome="fail", integrity="fail", number=1)
    assert rewards(to, [scored(honest, 0.25), scored(cheat, 0.75)], tmp_path, failed_integrity=True) == [0.25, 0.0]


@pytest.mark.parametrize("to", ["verl", "skyrl"])
def test_a_dishonest_attempt_is_left_out_unless_it_is_asked_for(attempt: Make, tmp_path: Path, to: str) -> None:
    honest, cheat = attempt("a0", "up", outcome="fail"), attempt("a1", "up", outcome="fail", integrity="fail", number=1)
    assert rewards(to, [scored(honest, 0.25), scored(cheat, 0.75)], tmp_path) == [0.25]


@pytest.mark.parametrize("to", ["verl", "skyrl"])
def test_what_nobody_could_judge_is_no_reward(attempt: Make, tmp_path: Path, to: str) -> None:
    unknown = scored(attempt("a1", "up", outcome="unknown", number=1), 0.0)
    assert rewards(to, [attempt("a0", "up"), unknown], tmp_path, include="all") == [1.0]


def test_what_nobody_could_judge_is_not_rejected(attempt: Make, tmp_path: Path) -> None:
    attempts = [attempt("a0", "up", "right"), attempt("a1", "left", outcome="unknown", number=1)]
    with pytest.raises(UserError, match="no two attempts"):
        exported("openai-dpo", attempts, tmp_path, include="all")


def test_two_spellings_of_one_act_are_no_preference(attempt: Make, tmp_path: Path) -> None:
    def spaced(event: Body) -> Body:
        if not isinstance(event, ModelCalled) or event.call.response is None:
            return event
        text = json.dumps(event.call.response).replace(r"{\"direction\": ", r"{\"direction\":   ")
        return ModelCalled(msgspec.structs.replace(event.call, response=json.loads(text)))

    other = [spaced(event) for event in attempt("a1", "up", outcome="fail", number=1)]
    assert other != attempt("a1", "up", outcome="fail", number=1)
    with pytest.raises(UserError, match="differ in how they are spelled alone"):
        exported("openai-dpo", [attempt("a0", "up"), other], tmp_path)


def test_an_attempt_that_never_spoke_ends_no_export(attempt: Make, tmp_path: Path) -> None:
    silent = [e for e in attempt("a1", "up", outcome="fail", number=1) if not isinstance(e, ModelCalled | StepAdded)]
    for to in ("hf-dataset", "openai"):
        out = exported(to, [attempt("a0", "up"), silent], tmp_path, include="all")
        assert "messages" in [one["field"] for one in losses(out) if one["attempt"] == "a1"]


def test_what_a_killed_export_left_is_swept(attempt: Make, tmp_path: Path) -> None:
    (tmp_path / ".verl.partial").mkdir()
    (tmp_path / ".verl.partial" / "rollouts.parquet").write_text("half")
    assert (exported("verl", [attempt("a0", "up")], tmp_path) / "rollouts.parquet").exists()
