"""Fresh inputs: the same seed gives the same ones, no pool is fixed, sizes grow beyond the recorded ones."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import assay.verify.payload.value_codec as codec
from assay.verify.calls.draw import draw_inputs
from assay.verify.calls.plain_draw import draw_plain
from assay.verify.calls.programs import CallProgram, handles
from assay.verify.payload.plain_values import read_input, read_plain, write_plain

pytestmark = pytest.mark.quick
EDGES = ["l", ["t", 1, 2], ["t", 2, 3], ["t", 3, 4]]
PROGRAM = CallProgram(
    "test_it",
    (
        [0, "call", ["g", "package", "Graph"], "", [EDGES], []],
        [1, "method", ["o", 0], "add_node", ["name"], [["weight", ["f", (0.5).hex()]]]],
        [2, "call", ["g", "package", "measure"], "", [["o", 0], 3], [["flag", True]]],
    ),
    2,
)


def drawn(count: int = 300, seed: bytes = b"seed") -> list[CallProgram]:
    return draw_inputs((PROGRAM,), count, seed)


def arguments(program: CallProgram) -> list[Any]:
    return [operation[4] for operation in program.operations if operation[1] == "call"]


def test_a_seed_gives_the_same_inputs_and_another_gives_others() -> None:
    assert drawn() == drawn()
    assert drawn() != drawn(seed=b"other")


def test_nearly_all_inputs_are_distinct() -> None:
    assert len({json.dumps(one.operations) for one in drawn()}) > 200


def test_sizes_reach_beyond_the_recorded_ones_and_stay_bounded() -> None:
    sizes = [len(arguments(one)[0][0]) - 1 for one in drawn(600)]
    assert min(sizes) == 0
    assert 10 < max(sizes) <= 8 * 4


def test_numbers_that_were_never_recorded_are_drawn() -> None:
    numbers = {arguments(one)[-1][1] for one in drawn(600)}
    assert len(numbers) > 12
    assert min(numbers) < 0 < 10 < max(numbers)


def test_steps_that_change_an_object_are_repeated_and_left_out() -> None:
    counts = {sum(op[1] == "method" for op in one.operations) for one in drawn()}
    assert {0, 1, 2, 3} <= counts


def test_the_observed_operation_and_what_it_needs_stay() -> None:
    for one in drawn():
        numbers = {operation[0] for operation in one.operations}
        assert one.observed in numbers
        assert all(n in numbers for operation in one.operations for n in handles(operation[2:]))


def test_every_input_decodes() -> None:
    for one in drawn():
        for operation in one.operations:
            for tree in operation[4]:
                codec.decode(tree, {0: object()})


@pytest.mark.parametrize(
    "value",
    [
        *(Decimal("12.50"), Decimal("NaN"), Fraction(3, 4), date(2020, 2, 29), date.max, timedelta(hours=1)),
        *(datetime(2020, 1, 1, tzinfo=None), time(12), uuid.UUID(int=5)),  # noqa: DTZ001 - without a zone on purpose
    ],
    ids=repr,
)
def test_plain_values_are_drawn_anew(value: Any) -> None:
    rng, recorded = random.Random(3), write_plain(value)
    assert recorded is not None
    texts = {draw_plain(rng, *recorded) for _ in range(60)}
    assert len(texts) > 10
    assert {type(read_plain(*one)) for one in texts} == {type(value)}


def test_a_text_that_is_none_is_left_as_recorded() -> None:
    assert draw_plain(random.Random(1), "Decimal", "1.50") == ("Decimal", "1.50")


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1.50"), Decimal("-1E+3"), Decimal("0E-7"), Decimal("NaN"), Fraction(1, 2), Fraction(-3),
        datetime.fromisoformat("2020-01-01"), datetime(2020, 1, 1, 10, 0, 0, 5, UTC), time(10), time(10, 0, 1, 7),
        date(2020, 1, 1),
    ],
    ids=str,
)  # fmt: skip
def test_an_input_of_an_older_plan_is_still_read(value: Any) -> None:
    old = ["v", type(value).__name__, str(value)]
    assert repr(codec.decode(old, {})) == repr(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("Decimal", "1.50"), ("Fraction", "1/2"), ("time", "10:00:00"), ("datetime", "2020-01-01 00:00:00")],
)
def test_an_answer_in_an_older_text_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="canonical"):
        read_plain(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Decimal", "sNaN"), ("Decimal", "1E+99999"), ("Decimal", " 1"), ("Decimal", "1_0"), ("Fraction", "1/0"),
        ("Fraction", "1.5"), ("Fraction", "9" * 4000 + "/7" * 2), ("time", "25:00:00"), ("datetime", "2020-01-01"),
        ("timedelta", "1 day, 0:00:00"), ("Path", "/"), (["Decimal"], "1"), ("Decimal", 1),
    ],
)  # fmt: skip
def test_other_texts_are_no_inputs(name: Any, text: Any) -> None:
    with pytest.raises(ValueError, match=r"plain value|canonical|hour"):
        read_input(name, text)


def test_places_of_a_tuple_keep_their_order() -> None:
    """A pair (name, amount) may lose or gain a part and is never turned round."""
    items = ["l", ["t", "a", 1], ["t", "b", 2]]
    program = CallProgram("test_it", ([0, "call", ["g", "depot", "f"], "", [items], []],), 0)
    pairs = [
        pair[1:]
        for number in range(400)
        for pair in draw_inputs((program,), 1, number.to_bytes(32, "big"))[0].operations[0][4][0][1:]
        if isinstance(pair, list)
    ]
    assert {len(pair) for pair in pairs} > {1, 2}
    assert [pair for pair in pairs if len(pair) == 2 and isinstance(pair[1], str)] == []
