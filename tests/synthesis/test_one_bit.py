"""How much the answers of an entry point show."""

from __future__ import annotations

import pytest

from assay.synthesis._entry_trace import RecordedEntryCalls, ValueKinds

CHANGE = (("self", ("_cache",)),)


@pytest.mark.parametrize(
    ("answers", "changes", "is_one_bit"),
    [
        ({"bool": 4}, (), True),
        ({"bool": 4}, CHANGE, True),
        ({"NoneType": 1}, CHANGE, False),
        ({"list": 1, "bool": 1}, (), False),
    ],
)
def test_a_change_beside_a_truth_value_adds_no_bit(
    answers: dict[str, int], changes: tuple[tuple[str, tuple[str, ...]], ...], is_one_bit: bool
) -> None:
    calls = RecordedEntryCalls(4, 4, 0, answers, changes, (3,), ValueKinds(), ValueKinds())
    assert calls.is_one_bit is is_one_bit
