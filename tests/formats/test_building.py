"""A tool result goes to the call that it answers, in a time that grows with the file's length alone."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.formats.interface import ImportContext
from assay.formats.shared.builder import MOST_RESULTS, Origin, TrajectoryBuilder, tool_call
from assay.records import Observation, Step

IDS = st.sampled_from(["a", "b", "c"])
ACTS = st.lists(st.one_of(st.lists(IDS, max_size=4), IDS, st.none()), max_size=30)


def building() -> TrajectoryBuilder:
    return TrajectoryBuilder(Origin("f", "f", "d"), ImportContext(lambda _: "", lambda _: None))


def turn(built: TrajectoryBuilder, *ids: str) -> Step:
    return built.add_step("agent", "go", tool_calls=tuple(tool_call(id_, "t", "{}") for id_ in ids))


def expected(steps: list[Step], call_id: str | None) -> int | None:
    """The turn that a result goes to, looked for among all of them."""
    asking = [step for step in steps if step.tool_calls]
    waiting = [{c.id for c in step.tool_calls} - {o.call_id for o in step.observations} for step in asking]
    if call_id is None:
        return asking[-1].index if asking and waiting[-1] else None
    made = [(step.index, open_) for step, open_ in zip(asking, waiting, strict=True)
            if any(c.id == call_id for c in step.tool_calls)]  # fmt: skip
    return next((index for index, open_ in made if call_id in open_), made[-1][0] if made else None)


@given(ACTS)
def test_a_result_goes_to_the_first_open_call_of_its_id_or_the_last_turn_that_asked(
    acts: list[list[str] | str | None],
) -> None:
    built = building()
    for act in acts:
        if isinstance(act, list):
            turn(built, *act)
            continue
        wanted = expected(built.steps, act)
        made = built.add_result(Observation("r", act))
        assert made.index == (len(built.steps) - 1 if wanted is None else wanted)


@pytest.mark.long
def test_a_hundred_thousand_calls_in_one_answer_take_no_time_and_lose_nothing() -> None:
    built, began = building(), process_time()
    turn(built, *(f"c{number}" for number in range(100_000)))
    for number in range(100_000):
        built.add_result(Observation("r", f"c{number}"))
    assert len(built.steps) == 1 + 100_000 - MOST_RESULTS
    assert sum(len(step.observations) for step in built.steps) == 100_000
    assert process_time() - began < 20
