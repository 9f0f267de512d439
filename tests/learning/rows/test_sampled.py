"""Training rows out of real sessions over a tiny tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from assay.errors import StoreError, UserError
from assay.learning.credit.compose import CreditConfig
from assay.learning.reading import RunReader, rows_of_run
from assay.learning.rows import (
    ACTION,
    OBSERVATION,
    PROMPT,
    ROLES,
    TEMPLATE,
    UNKNOWN,
    WARNING,
    check_row,
    spread_credit,
)
from assay.learning.rows_config import RowsConfig
from assay.learning.sampled import sampled_rows
from assay.learning.service.config import BatchRequest, PolicyRequest
from assay.learning.service.groups import Group, GroupBuilder, GroupFile, count_groups
from assay.learning.service.ledger import LedgerBatch
from assay.learning.turn_facts import progress_gains
from assay.records import AttemptStarted, Body, Evidence, EvidenceAdded, SpanProof, Trajectory, WeightSpan
from assay.settings import Settings
from tests.learning.recorded import store_run

pytestmark = pytest.mark.quick
Make = Callable[..., Trajectory]


def texts(row: Any, renderer: Any, role: int) -> str:
    return str(renderer.text([int(t) for t in row.token_ids[row.roles == role]]))


def test_a_row_holds_the_sampled_tokens_and_trains_them_alone(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "free", "right")
    (row,) = sampled_rows(made, renderer=renderer)
    check_row(row)
    for turn, call in zip(row.turns, made.calls, strict=True):
        assert tuple(row.token_ids[turn.start : turn.end]) == call.completion_token_ids
        assert row.logprobs[turn.start : turn.end] == pytest.approx(call.logprobs, rel=1e-6)
    trained = sum(turn.end - turn.start for turn in row.turns)
    assert (int(row.loss_mask.sum()), bool(row.logprobs[~row.loss_mask].any())) == (trained, False)


def test_roles_tell_what_was_told_from_what_was_seen(trajectory: Make, renderer: Any) -> None:
    (row,) = sampled_rows(trajectory("a", "up", "right", "left"), renderer=renderer)
    assert (
        texts(row, renderer, PROMPT) == "You walk.\n\nGo to the goal."
    )  # one token ends a sentence and begins the tools
    assert texts(row, renderer, OBSERVATION) == "field 0field 1"
    assert "<tool_call>" in texts(row, renderer, ACTION)
    assert "<|im_start|>" in texts(row, renderer, TEMPLATE)
    assert not np.any(row.roles == UNKNOWN)
    assert np.array_equal(row.roles == ACTION, row.loss_mask)


def test_without_a_renderer_or_under_another_template_roles_are_unknown(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up")
    (row,) = sampled_rows(made)
    assert {ROLES[role] for role in row.roles} == {"action", "unknown"}

    class Other:
        def attribute(self, *_: Any, **__: Any) -> Any:
            return renderer.attribute([{"role": "user", "content": "other"}], [])

        def attribute_extension(self, *_: Any) -> Any:
            return None

    (row,) = sampled_rows(made, renderer=Other())
    assert {ROLES[role] for role in row.roles} == {"action", "unknown"}


def test_a_refused_call_is_answered_by_a_warning(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "right")
    first = made.steps[0]
    refused = msgspec.structs.replace(first.tool_calls[0], error="no such direction")
    steps = (msgspec.structs.replace(first, tool_calls=(refused,)), *made.steps[1:])
    (row,) = sampled_rows(msgspec.structs.replace(made, steps=steps), renderer=renderer)
    assert texts(row, renderer, WARNING) == "field 0"
    assert row.turns[0].error


def test_what_the_harness_says_between_turns_is_a_warning(trajectory: Make, renderer: Any) -> None:
    (row,) = sampled_rows(trajectory("a", "free", "up", "left"), renderer=renderer)
    assert texts(row, renderer, WARNING) == "Call a tool."
    assert texts(row, renderer, OBSERVATION) == "field 1"


def test_a_turn_knows_its_step_state_sampling_and_pay(trajectory: Make) -> None:
    (row,) = sampled_rows(trajectory("a", "up", "right"))
    second = row.turns[1]
    assert (second.step, second.state, second.weight_version, second.certified) == (1, "state-0", "w0", True)
    assert (second.reward, second.progress, second.sampling) == (0.5, 0.25, {"temperature": 1.0})
    assert (row.temperature, row.weight_versions, row.final_state) == (1.0, ("w0",), "state-1")
    assert set(row.versions[row.loss_mask]) == {0}
    assert set(row.versions[~row.loss_mask]) == {-1}


def test_each_token_has_the_version_of_the_weights_that_sampled_it(trajectory: Make) -> None:
    made = trajectory("a", "up", "right")

    def replaced(spans: tuple[WeightSpan, ...]) -> Any:
        changed = {
            call.id: msgspec.structs.replace(call, weight_version=spans[0].version, weight_spans=spans)
            for call in made.calls
        }
        return msgspec.structs.replace(made, calls=tuple(changed.values()))

    (row,) = sampled_rows(replaced((WeightSpan("3", 2), WeightSpan("4", 10_000))))
    assert row.weight_versions == ("3", "4")
    for turn in row.turns:
        assert turn.weight_version == "3"
        assert row.versions[turn.start : turn.end].tolist() == [0, 0, *[1] * (turn.end - turn.start - 2)]
    assert set(row.versions[~row.loss_mask]) == {-1}
    (row,) = sampled_rows(replaced((WeightSpan("3"), WeightSpan("4"))))
    assert (row.weight_versions, set(row.versions[row.loss_mask])) == (("3", "4"), {0})
    assert row.unplaced_versions == ("4",)


def test_an_uncertified_span_is_refused_or_left_out_of_the_loss(trajectory: Make) -> None:
    made = trajectory("a", "up", "right")
    bad = msgspec.structs.replace(made.calls[1], certificate=SpanProof(certified=False, reason="edited"))
    made = msgspec.structs.replace(made, calls=(made.calls[0], bad))
    with pytest.raises(UserError, match="not certified"):
        sampled_rows(made)
    (row,) = sampled_rows(made, uncertified="mask")
    assert [(turn.certified, turn.trained) for turn in row.turns] == [(True, True), (False, False)]
    assert not row.loss_mask[row.turns[1].start :].any()


def test_an_imported_record_certifies_nothing(trajectory: Make) -> None:
    made = trajectory("a", "up", config={"imported": {"format": "x"}})
    with pytest.raises(UserError, match="imported"):
        sampled_rows(made)


def test_a_fork_competes_with_attempts_from_the_same_state(trajectory: Make) -> None:
    groups = {
        sampled_rows(trajectory(name, "up", config=config))[0].group
        for name, config in (("a", {}), ("b", {}), ("c", {"fork": {"state": "s1"}}), ("d", {"fork": {"state": "s1"}}))
    }
    assert len(groups) == 2


def test_a_fork_gains_nothing_by_the_progress_that_it_starts_with(trajectory: Make) -> None:
    columns = {"steps": [0, 1], "rewards": [0.0, 0.0], "progress": [0.5, 0.75], "errors": [False, False]}
    made = trajectory("a", "up", "right")
    made = msgspec.structs.replace(made, evidence=(Evidence("episode", "state", "episode", columns),))
    started = msgspec.structs.replace(made.started, config={"fork": {"chain": "b", "prefix": 3, "state": "s1"}})
    assert progress_gains(made) == {0: 0.5, 1: 0.25}
    assert progress_gains(msgspec.structs.replace(made, started=started)) == {0: 0.0, 1: 0.25}


def test_rows_of_one_attempt_train_and_count_each_token_once(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "right")
    again = msgspec.structs.replace(made.calls[1], id="again", branch="again", cause="resample",
                                    completion_token_ids=made.calls[0].completion_token_ids,
                                    logprobs=made.calls[0].logprobs)  # fmt: skip
    rows = sampled_rows(msgspec.structs.replace(made, calls=(*made.calls, again)), renderer=renderer)
    sampled = sum(len(call.completion_token_ids or ()) for call in (*made.calls, again))
    assert [row.attempt_rows for row in rows] == [2, 2]
    assert rows[1].shared == rows[1].turns[-1].start
    assert sum(int(row.loss_mask.sum()) for row in rows) == sampled
    assert np.array_equal(rows[0].token_ids[: rows[1].shared], rows[1].token_ids[: rows[1].shared])
    assert (rows[0].cause, rows[1].cause, rows[1].parent) == ("root", "resample", rows[0].branch)


def test_credit_of_turns_is_spread_over_their_tokens(trajectory: Make) -> None:
    (row,) = sampled_rows(trajectory("a", "up", "right"))
    (given,) = spread_credit([row], [[0.5, -1.0]], [[True, False]])
    first, second = row.turns
    assert given.advantages is not None
    assert set(given.advantages[first.start : first.end]) == {0.5}
    assert not given.loss_mask[second.start : second.end].any()
    assert not given.advantages[~given.loss_mask].any()
    with pytest.raises(ValueError, match="expected 2 finite numbers"):
        spread_credit([row], [[float("nan"), 1.0]])


def test_a_run_gives_the_rows_of_its_attempts_with_how_they_stand(small_run: Path, model_folder: Path) -> None:
    rows = list(rows_of_run(Settings(small_run, small_run), "r", RowsConfig(model=str(model_folder))))
    assert [row.attempt for row in rows] == ["a0", "a1", "a2", "a3", "a4"]
    assert [row.verified_pass for row in rows] == [True, True, False, False, False]
    assert (rows[2].outcome, rows[2].doubt) == ("pass", "its integrity is fail")
    assert len({row.group for row in rows}) == 1
    assert rows[0].tokenizer is not None
    assert rows[0].tokenizer.startswith("blake3:")


def test_a_tampered_run_gives_no_row(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    root = store_run(tmp_path, [attempt("a", "up")])
    with closing(sqlite3.connect(next(root.rglob("*.sqlite")))) as database, database:
        database.execute(
            "UPDATE events SET body = replace(body, '\"completion_token_ids\":[', '\"completion_token_ids\":[5,')"
        )
    with pytest.raises(StoreError, match="not what was recorded"):
        next(iter(rows_of_run(Settings(root, root), "r")))


TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def test_rewards_of_a_world_without_progress_are_listed_as_lost(
    attempt: Callable[..., list[Body]], tmp_path: Path
) -> None:
    columns = {"steps": [0, 1], "rewards": [0.5, 0.5], "progress": [None, None], "errors": [False, False]}
    episode = EvidenceAdded(Evidence("episode", "state", "episode", columns))
    made = [episode if isinstance(one, EvidenceAdded) else one for one in attempt("a", "up", "right")]
    root, lost = store_run(tmp_path, [made]), list[tuple[str, str, str]]()
    config = RowsConfig(turn_rewards="progress")
    rows = [*rows_of_run(Settings(root, root), "r", config, lambda *what: lost.append(what))]
    assert {turn.reward for row in rows for turn in row.turns} == {0.0}
    assert [one[:2] for one in lost] == [("a", "reward")]
    assert {turn.reward for row in rows_of_run(Settings(root, root), "r") for turn in row.turns} == {0.5}


def test_rows_of_an_attempt_with_a_secret_are_left_out(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    root = store_run(tmp_path, [attempt("a0", "up"), attempt("a1", f"key:{TOKEN}")])
    told: list[tuple[str, ...]] = []
    found = rows_of_run(Settings(root, root), "r", on_left_out=lambda *what: told.append(what))
    assert [row.attempt for row in found] == ["a0"]
    assert told == [("a1", "secret", "it holds github_token")]
    both = rows_of_run(Settings(root, root), "r", RowsConfig(with_secrets=True))
    assert [row.attempt for row in both] == ["a0", "a1"]


def _of_run(run: str, events: list[Body]) -> list[Body]:
    started, *others = events
    assert isinstance(started, AttemptStarted)
    return [msgspec.structs.replace(started, run=run), *others]


def test_served_rows_have_no_secret(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    request = BatchRequest(id="b", policy=PolicyRequest("p"), tasks=("family:grid",), credit=CreditConfig("grpo"))
    planted = attempt("a1", f"key:{TOKEN}", number=1)
    store_run(tmp_path, [_of_run("batch-b", one) for one in (attempt("a0", "up"), planted)], "batch-b")
    group = _served(tmp_path, request)
    assert (group.row_count, group.left_out["secret: it holds github_token"]) == (1, 1)
    store_run(tmp_path, [_of_run("batch-c", planted)], "batch-c")
    file = GroupFile(tmp_path / "c.groups")
    file.append(_served(tmp_path, msgspec.structs.replace(request, id="c")))
    file.close()
    assert TOKEN.encode() not in (tmp_path / "c.groups").read_bytes()
    with pytest.raises(UserError, match=r"gives a row: secret: it holds github_token \(1\)"):
        count_groups(tmp_path / "c.groups")


def _served(root: Path, request: BatchRequest) -> Group:
    batch = LedgerBatch(request, 0)
    with RunReader.open_live(Settings(root, root), batch.run, RowsConfig()) as reader:
        return GroupBuilder(batch, reader).build("walk")


def test_a_row_of_a_team_names_the_actor_whose_calls_it_holds(trajectory: Make) -> None:
    made = trajectory("a", "up", "right")
    calls = tuple(msgspec.structs.replace(call, actor_name="walker") for call in made.calls)
    (row,) = sampled_rows(msgspec.structs.replace(made, calls=calls))
    assert (row.actor, row.outcome) == ("walker", made.outcome)
    (plain,) = sampled_rows(made)
    assert plain.actor is None
