"""What a policy gradient must not be taken over is refused or dropped, and said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cli.options import read_recipe
from assay.errors import UserError
from assay.learning.trainer.dpo import find_token_pairs
from assay.learning.trainer.optimise import Optimiser
from assay.learning.trainer.options import OptimiserOptions, PolicyGradientOptions
from assay.learning.trainer.policy_gradient import (
    drop_stale,
    measure_lag,
    require_untruncated_sampling,
    update_policy,
)
from assay.learning.trainer.recipe import ImproveRecipe, TrainRecipe
from assay.learning.trainer.rollouts import (
    TrainingStoppedError,
    filter_rows,
    find_lost,
    longest_lost_streak,
    require_moving,
)
from assay.learning.trainer.sft import draw_batch
from assay.learning.trainer.step_figures import success_interval, success_share
from tests.optional import require_packages

require_packages("torch")
ONE = {"temperature": 1.0}


@pytest.mark.parametrize(
    ("sampling", "told"),
    [
        ({**ONE, "top_p": 0.9}, "top_p=0.9"),
        ({**ONE, "top_k": 20}, "top_k=20"),
        ({**ONE, "min_p": 0.05}, "min_p=0.05"),
        ({"temperature": 0.7}, "temperature=0.7"),
        ({}, "does not say its temperature"),
    ],
)
def test_a_cut_or_bent_distribution_is_refused(row: Any, sampling: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        require_untruncated_sampling([row("a", [1, 2], [(1, 2)], sampling=sampling)])


def test_the_whole_distribution_is_taken_however_it_was_said(row: Any) -> None:
    require_untruncated_sampling(
        [row("a", [1, 2], [(1, 2)], sampling={**ONE, "top_k": -1}), row("b", [1, 2], [(1, 2)], sampling=ONE)]
    )


def test_an_engine_that_runs_another_model_stops_the_training(policy: Any, row: Any) -> None:
    optimiser = Optimiser(policy.model, OptimiserOptions(), 1)
    before = policy.model.table.detach().clone()
    with pytest.raises(UserError, match="do not run the same model"):
        update_policy(policy, optimiser, [row("a", [1, 2, 3], [(1, 3)], off=0.1)], PolicyGradientOptions())
    assert (policy.model.table == before).all()


def test_the_gap_is_measured_over_what_the_present_weights_sampled(policy: Any, row: Any) -> None:
    rows = [row("a", [1, 2, 3], [(1, 3)], off=0.001), row("b", [1, 2], [(1, 2)], off=5.0, version="v0")]
    measured = update_policy(policy, Optimiser(policy.model, OptimiserOptions(), 1), rows, PolicyGradientOptions())
    assert measured["gap_most"] == pytest.approx(0.001, abs=1e-5)
    assert measured["gap_tokens"] == 2


def test_a_recipe_of_another_command_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ok.toml"
    path.write_text('name = "ok"\nmethod = "sft"\nruns = ["r"]\n[model]\npath = "m"\n')
    with pytest.raises(UserError, match=r"is a recipe of `assay train`: run `assay train .*ok\.toml`"):
        read_recipe(path, ImproveRecipe, [], {"assay train": TrainRecipe})


@pytest.mark.parametrize("how", [{"advantage": None}, {"origin": "rendered"}])
def test_credit_on_sampled_tokens_is_needed(policy: Any, row: Any, how: dict[str, Any]) -> None:
    import msgspec

    given = row("a", [1, 2], [(1, 2)], **{k: v for k, v in how.items() if k == "advantage"})
    if "origin" in how:
        given = msgspec.structs.replace(given, origin="rendered")
    with pytest.raises(UserError, match=r"no advantages|rendered"):
        update_policy(policy, Optimiser(policy.model, OptimiserOptions(), 1), [given], PolicyGradientOptions())


def test_attempts_of_old_and_of_unknown_weights_are_dropped_with_their_reason(row: Any) -> None:
    rows = [row(name, [1, 2], [(1, 2)], version=name) for name in ("v0", "v1", "v2", "vx")]
    found, reasons = drop_stale(rows, ["v0", "v1", "v2"], 1)
    assert [one.chain for one in found] == ["v1", "v2"]
    assert reasons == {"stale": 1, "unknown version": 1}


def test_an_attempt_is_as_old_as_its_oldest_trained_token(row: Any) -> None:
    import msgspec
    import numpy as np

    made = row("a", [1, 2, 3, 4], [(1, 4)], version="v0")
    spanning = msgspec.structs.replace(
        made, versions=np.array([-1, 0, 1, 1], dtype=np.int16), weight_versions=("v0", "v1")
    )
    assert drop_stale([spanning], ["v0", "v1"], 1) == ([spanning], {})
    assert drop_stale([spanning], ["v0", "v1", "v2"], 1) == ([], {"stale": 1})
    assert drop_stale([spanning], ["v1"], 1) == ([], {"unknown version": 1})


def test_an_attempt_is_as_old_as_a_version_that_was_named_without_positions(row: Any) -> None:
    import msgspec

    made = msgspec.structs.replace(row("a", [1, 2, 3, 4], [(1, 4)], version="v1"), weight_versions=("v1", "v0"))
    assert drop_stale([made], ["v0", "v1"], 1) == ([made], {})
    assert drop_stale([made], ["v0", "v1"], 0) == ([], {"stale": 1})
    assert drop_stale([made], ["v1"], 1) == ([], {"unknown version": 1})


def test_the_lag_is_counted_in_updates_over_the_trained_tokens(row: Any) -> None:
    rows = [row("a", [1, 2, 3], [(1, 3)], version="v0"), row("b", [1, 2], [(1, 2)], version="v2")]
    rows.append(row("c", [1, 2], [(1, 2)], version="vx"))
    measured = measure_lag(rows, ["v0", "v1", "v2"])
    assert measured == {"lag": pytest.approx(4 / 3), "lag_most": 2.0, "lag_unknown": pytest.approx(1 / 4)}
    assert measure_lag(rows[2:], ["v0"]) == {"lag_unknown": 1.0}
    assert measure_lag([], ["v0"]) == {}


def test_the_interval_of_a_step_s_success_covers_its_share(row: Any) -> None:
    rows = [row(f"{n}", [1, 2], [(1, 2)], outcome="pass" if n % 2 else "fail") for n in range(8)]
    interval = success_interval(rows)
    assert interval["success_low"] < success_share(rows) == 0.5 < interval["success_high"]
    assert success_interval([]) == {}


def test_a_correction_weighs_what_the_sampler_found_likelier_less(policy: Any, row: Any) -> None:
    rows = [row("a", [1, 2, 3], [(1, 3)], off=0.5, version="v0"), row("b", [1, 2], [(1, 2)])]
    options = PolicyGradientOptions(correction="token", most_lag=1)
    plain = update_policy(policy, Optimiser(policy.model, OptimiserOptions(), 9), rows, PolicyGradientOptions())
    weighed = update_policy(policy, Optimiser(policy.model, OptimiserOptions(), 9), rows, options)
    assert plain["loss"] == pytest.approx(-1.0, abs=1e-5)
    assert abs(weighed["loss"]) < abs(plain["loss"])


def ended(attempt: str, at: float, **how: Any) -> Any:
    return SimpleNamespace(attempt=attempt, finished=at, **({"broke": None, "stopped": None} | how))


def test_lost_attempts_are_named_and_a_line_of_them_is_seen() -> None:
    rows = [ended("a", 1.0, stopped="wall_s"), ended("b", 3.0, broke="provider"), ended("c", 2.0, stopped="turns"),
            ended("d", 4.0, stopped="wall_s")]  # fmt: skip
    assert [(one.attempt, one.reason) for one in find_lost(rows)] == [
        ("a", "hung"), ("b", "broke: provider"), ("d", "hung")]  # fmt: skip
    assert [one.attempt for one in longest_lost_streak(rows)] == ["b", "d"]


def test_what_is_kept_follows_the_verdicts(row: Any) -> None:
    import msgspec

    doubted = msgspec.structs.replace(row("b", [1, 2], [(1, 2)]), doubt="integrity failed")
    rows = [row("a", [1, 2], [(1, 2)]), doubted, row("c", [1, 2], [(1, 2)], outcome="fail"),
            row("d", [1, 2], [(1, 2)], outcome="unknown")]  # fmt: skip
    names = {keep: "".join(one.chain for one in filter_rows(rows, keep)) for keep in ("all", "passed", "card")}  # type: ignore[arg-type]
    assert names == {"all": "abc", "passed": "ab", "card": "a"}


def test_pairs_are_two_answers_to_one_prompt_and_no_answer_that_also_won(row: Any) -> None:
    rows = [
        row("a", [1, 2, 6, 3], [(1, 2), (3, 4)]),
        row("b", [1, 4, 6, 3], [(1, 2), (3, 4)], outcome="fail"),
        row("c", [1, 2, 6, 5], [(1, 2), (3, 4)], outcome="fail"),
        row("d", [1, 5], [(1, 2)], outcome="fail", group="other"),
    ]
    found = [(p.prompt.tolist(), p.chosen.tolist(), p.rejected.tolist()) for p in find_token_pairs(rows)]
    assert found == [([1], [2], [4]), ([1, 2, 6], [3], [5])]


def test_a_cheats_answer_is_preferred_to_nothing(row: Any) -> None:
    import msgspec

    cheat = msgspec.structs.replace(row("a", [1, 2], [(1, 2)]), doubt="its integrity is fail", integrity="fail")
    broken = msgspec.structs.replace(row("c", [1, 5], [(1, 2)], outcome="fail"), broke="environment")
    rows = [cheat, row("b", [1, 4], [(1, 2)], outcome="fail")]
    assert find_token_pairs(rows) == []
    assert [pair.chosen_attempt for pair in find_token_pairs(rows, verified=False)] == ["a"]
    assert find_token_pairs([row("d", [1, 2], [(1, 2)]), broken]) == []


def test_everything_is_drawn_once_before_anything_twice_whatever_was_drawn_before() -> None:
    steps = [draw_batch(5, 2, step, 7) for step in range(5)]
    assert sorted(steps[0] + steps[1] + steps[2][:1]) == list(range(5))
    assert draw_batch(5, 2, 3, 7) == steps[3]
    assert sorted(draw_batch(3, 7, 0, 1)[:6]) == [0, 0, 1, 1, 2, 2]


def test_replies_from_weights_that_never_move_stop_the_training() -> None:
    require_moving(["v0", "v0"], ["v0", "v1", "v2"])
    require_moving(["v0", "v1", "v2"], ["v0", "v1", "v2"])
    require_moving(["v0", "v0", "v0"], ["v0", "v0", "v0"])
    with pytest.raises(TrainingStoppedError, match="not the one that is trained"):
        require_moving(["v0", "v0", "v0"], ["v0", "v1", "v2", "v3"])


RECIPE = """
name = "x"
rollout = { tasks = ["family:grid"] }
evaluate = { tasks = ["family:grid,part=test"] }
model = { path = "m" }
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["model.pth=m"], "model"),
        (["model={}"], "teach.tasks, or model.path"),
        (["name=../x"], "name is"),
        (["rollout.groups=0"], "rollout.groups"),
        (["steps"], "table.field=VALUE"),
        (["name.x=1"], "name is not a table"),
        (["model.hidden=30"], "multiple of model.heads"),
    ],
)
def test_a_recipe_that_cannot_work_says_where(tmp_path: Any, changes: list[str], told: str) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    assert read_recipe(tmp_path / "r.toml", ImproveRecipe, ["rollout.groups=3"]).rollout.groups == 3
    with pytest.raises(UserError, match=told):
        read_recipe(tmp_path / "r.toml", ImproveRecipe, changes)
