from __future__ import annotations

import pytest

from assay.formats.inspect.chat import render_message
from assay.formats.shared.messages import answered_call, render_chat_message
from assay.formats.swe_agent.steps import EntryRenderer
from assay.records import Observation, Step, ToolCall, match_calls, pair_observations


def calls(*ids: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, f"tool{number}", "{}", {}) for number, name in enumerate(ids))


def seen(*ids: str | None) -> tuple[Observation, ...]:
    return tuple(Observation(str(number), name) for number, name in enumerate(ids))


@pytest.mark.parametrize(
    ("made", "observed", "matched", "paired"),
    [
        (("a", "b"), ("b", "a"), [1, 0], ["1", "0"]),
        (("x", "x", "x"), ("x", "x", "x"), [0, 1, 2], ["0", "1", "2"]),
        (("x", "x"), ("x",), [0], ["0", ""]),
        (("x", "x"), ("x", "x", "x"), [0, 1, 1], ["0", "12"]),
        (("", ""), ("", ""), [0, 1], ["0", "1"]),
        (("", "b"), ("", ""), [0, None], ["0", "1"]),
        (("a", ""), ("",), [1], ["", "0"]),
        (("a", "b"), (None, None), [None, None], ["0", "1"]),
        (("a", "b"), ("b", None, None), [1, None, None], ["1", "02"]),
        (("a",), ("z",), [None], ["0"]),
        ((), ("z",), [None], []),
    ],
)
def test_calls_get_their_observations(
    made: tuple[str, ...], observed: tuple[str | None, ...], matched: list[int | None], paired: list[str]
) -> None:
    assert match_calls(calls(*made), seen(*observed)) == matched
    found = pair_observations(calls(*made), seen(*observed))
    assert ["".join(each.content for each in one) for one in found] == paired


def test_exports_name_the_call_of_each_result() -> None:
    step = Step(0, "agent", tool_calls=calls("x", "x"), observations=seen("x", "x"))
    assert [render_chat_message(step, f"result {at}")["name"] for at in (0, 1)] == ["tool0", "tool1"]
    assert [render_message(step, f"result {at}")["function"] for at in (0, 1)] == ["tool0", "tool1"]
    assert [EntryRenderer()(step, f"entry {at}", None)["observation"] for at in (0, 1)] == ["0", "1"]
    assert answered_call(Step(0, "agent", observations=seen("x")), 0) is None
