"""How much the answers of an entry point show."""

from __future__ import annotations

import msgspec
import pytest

from assay.synthesis._entry_trace import AnswerShape, RecordedEntryCalls, ValueKinds
from assay.synthesis.payload import value_shapes

CHANGE = (("self", ("_cache",)),)


def shape_of(value: object) -> AnswerShape:
    return msgspec.convert(value_shapes.shape_of(value), AnswerShape)


def calls_of(*shapes: AnswerShape, changes: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> RecordedEntryCalls:
    return RecordedEntryCalls(4, 4, 0, {"raise KeyError": 1}, changes, (3,), ValueKinds(), ValueKinds(), shapes)


@pytest.mark.parametrize(
    ("answers", "changes", "is_one_bit"),
    [
        ([True, False], (), True),
        ([True], CHANGE, True),
        ([(True, None)], CHANGE, True),
        ([None], CHANGE, False),
        ([], (), True),
        ([[1], True], (), False),
        ([(True, [False, [None]])], (), True),
        ([[], False], (), True),
        ([((), ((),))], (), False),
        ([(True, 1)], (), False),
        ([[True] * 9], (), False),
        ([([[[True]]],)], (), False),
    ],
)
def test_a_part_that_is_no_truth_value_is_more_than_one_bit(
    answers: list[object], changes: tuple[tuple[str, tuple[str, ...]], ...], is_one_bit: bool
) -> None:
    assert calls_of(*map(shape_of, answers), changes=changes).is_one_bit is is_one_bit


@pytest.mark.parametrize(("items", "is_one_bit"), [([], True), ([True, None], True), ([True, "a"], False)])
def test_a_generator_shows_as_much_as_its_items(items: list[object], is_one_bit: bool) -> None:
    shapes = [AnswerShape("generator", ()), *(AnswerShape("generator", (shape_of(item),)) for item in items)]
    assert calls_of(*shapes).is_one_bit is is_one_bit
