"""Rows of attempts that know no tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from assay.errors import UserError
from assay.learning.conversation import Opening, build_opening, conversations
from assay.learning.reading import rows_of_run
from assay.learning.rendered import rendered_rows
from assay.learning.rows import ACTION, OBSERVATION, check_row
from assay.learning.rows_config import RowsConfig
from assay.learning.sampled import sampled_rows
from assay.records import Body, EnvironmentSpec, ModelCalled, Task, Trajectory
from assay.settings import Settings
from tests.learning.recorded import OPENING, TOOLS, store_run

pytestmark = pytest.mark.quick
Make = Callable[..., Trajectory]


def without_tokens(made: Trajectory) -> Trajectory:
    gone: dict[str, Any] = {"prompt_token_ids": None, "completion_token_ids": None, "certificate": None}
    calls = tuple(msgspec.structs.replace(call, **gone, shared_tokens=0) for call in made.calls)
    return msgspec.structs.replace(made, calls=calls)


def without_tokens_in(events: list[Body]) -> list[Body]:
    gone: dict[str, Any] = {"prompt_token_ids": None, "completion_token_ids": None, "certificate": None}
    return [ModelCalled(msgspec.structs.replace(e.call, **gone)) if isinstance(e, ModelCalled) else e for e in events]


def test_a_rendered_row_trains_what_the_model_would_have_said(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "right")
    (sampled,) = sampled_rows(made, renderer=renderer)
    (row,) = rendered_rows(without_tokens(made), renderer)
    check_row(row)
    ours, theirs = row.token_ids[row.loss_mask], sampled.token_ids[sampled.loss_mask]
    assert renderer.text(ours.tolist()) == renderer.text(theirs.tolist())
    assert (row.origin, np.any(row.logprobs), len(row.turns)) == ("rendered", np.False_, 2)
    assert np.array_equal(row.roles == ACTION, row.loss_mask)
    assert renderer.text(row.token_ids[row.roles == OBSERVATION].tolist()) == "field 0"


def test_steps_without_a_model_are_told_as_a_model_would_be(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "right")
    steps = tuple(msgspec.structs.replace(step, call=None) for step in made.steps)
    expert = msgspec.structs.replace(made, calls=(), steps=steps)
    with pytest.raises(UserError, match="asked no model"):
        rendered_rows(expert, renderer)
    (row,) = rendered_rows(expert, renderer, opening=Opening(list(OPENING), TOOLS))
    (sampled,) = sampled_rows(made, renderer=renderer)
    assert np.array_equal(row.token_ids, sampled.token_ids)
    assert np.array_equal(row.roles, sampled.roles)
    assert [(turn.step, turn.state) for turn in row.turns] == [(0, "beginning of blake3:" + "1" * 64), (1, "state-0")]


def test_a_turn_that_follows_a_turn_begins_a_row(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "right", "left")
    silent = [msgspec.structs.replace(step, call=None, observations=()) for step in made.steps[1:2]]
    steps = (
        msgspec.structs.replace(made.steps[0], call=None),
        *silent,
        msgspec.structs.replace(made.steps[2], call=None),
    )
    expert = msgspec.structs.replace(made, calls=(), steps=steps)
    first, second = rendered_rows(expert, renderer, opening=Opening(list(OPENING), TOOLS))
    check_row(first)
    check_row(second)
    assert [turn.step for row in (first, second) for turn in row.turns] == [0, 1, 2]
    assert (len(first.turns), first.loss_mask[-1], first.attempt_rows) == (2, np.True_, 2)


def test_lines_of_one_attempt_say_each_turn_once(trajectory: Make) -> None:
    made = without_tokens(trajectory("a", "up", "right"))
    again = msgspec.structs.replace(made.calls[1], id="again", branch="again", cause="resample")
    lines = list(conversations(msgspec.structs.replace(made, calls=(*made.calls, again))))
    assert [sum(line.own) for line in lines] == [2, 1]
    assert [[call for call in line.calls if call] for line in lines] == [["c1", "c2"], ["c1", "again"]]


def test_the_opening_is_what_the_loop_tells() -> None:
    task = Task("t", "Go.", EnvironmentSpec("grid", {"size": 4}), (), "d")
    opening = build_opening(task)
    assert [message["role"] for message in opening.messages] == ["system", "user"]
    assert [tool["function"]["name"] for tool in opening.tools] == ["move", "finish"]
    with pytest.raises(UserError, match="sandbox"):
        build_opening(msgspec.structs.replace(task, environment=EnvironmentSpec("workspace")))


def test_a_run_without_tokens_gives_rows_only_where_it_is_asked_to_render(
    attempt: Callable[..., list[Body]], tmp_path: Path, model_folder: Path
) -> None:
    root, told = store_run(tmp_path, [without_tokens_in(attempt("a", "up"))]), list[str]()
    assert list(rows_of_run(Settings(root, root), "r", on_left_out=lambda _, what, __: told.append(what))) == []
    assert told == ["tokens"]
    (row,) = rows_of_run(Settings(root, root), "r", RowsConfig(model=str(model_folder), rendered=True))
    assert row.origin == "rendered"


def test_a_turn_names_the_pictures_that_its_request_held(trajectory: Make, renderer: Any) -> None:
    made, digest = without_tokens(trajectory("a", "up", "right")), f"blake3:{'0' * 64}"
    part = {"type": "image_url", "image_url": {"url": digest}}
    first, second = made.calls
    shown = [*second.request["messages"], {"role": "user", "content": [part]}]
    second = msgspec.structs.replace(second, request={**second.request, "messages": shown})
    (row,) = rendered_rows(msgspec.structs.replace(made, calls=(first, second)), renderer)
    assert [turn.pictures for turn in row.turns] == [(), (digest,)]
    assert "this model is told text only" in renderer.text(row.token_ids.tolist())
