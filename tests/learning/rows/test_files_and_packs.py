"""Rows as files, and rows packed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UserError
from assay.learning.packing import pack
from assay.learning.row_files import arrow_schema, as_columns, read_rows, write_rows
from assay.learning.rows import ACTION, TrainingRow, TurnSpan, check_row
from assay.learning.sampled import sampled_rows
from assay.records import Trajectory

pytestmark = pytest.mark.newest


def row(length: int, **more: Any) -> TrainingRow:
    mask = np.zeros(length, dtype=np.bool_)
    mask[length // 2 :] = True
    turn = TurnSpan(start=length // 2, end=length, call="c", certified=True)
    given: dict[str, Any] = {"token_ids": np.arange(length, dtype=np.int32), "loss_mask": mask, "turns": (turn,)}
    given |= {"roles": np.full(length, ACTION, dtype=np.uint8), "logprobs": np.zeros(length, dtype=np.float32)}
    given |= {"versions": np.full(length, -1, dtype=np.int16), "branch": f"b{length}"}
    given |= {"run": "r", "chain": "a.0", "attempt": "a", "group": "g", "task": "t", "agent": "loop"}
    return TrainingRow(**(given | more))


def same(one: TrainingRow, other: TrainingRow) -> bool:
    pairs = ((a, b) for name in one.__struct_fields__ for a, b in [(getattr(one, name), getattr(other, name))])
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") if isinstance(a, np.ndarray) else _equal(a, b)
               for a, b in pairs)  # fmt: skip


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    return bool(one == other)


def test_rows_come_back_from_a_file_as_they_were(trajectory: Callable[..., Trajectory], tmp_path: Path) -> None:
    (sampled,) = sampled_rows(trajectory("a", "up", "free"))
    credited = msgspec.structs.replace(sampled, advantages=sampled.loss_mask.astype(np.float32),
                                       weights={"ce": np.ones(len(sampled), dtype=np.float32)})  # fmt: skip
    nobody_knows = np.where(sampled.loss_mask, np.nan, 0).astype(np.float32)
    lost = msgspec.structs.replace(sampled, logprobs=nobody_knows)
    rows = [sampled, credited, lost, row(0), row(3)]
    assert write_rows(rows, tmp_path / "rows.parquet") == 5
    again = list(read_rows(tmp_path / "rows.parquet"))
    assert [same(one, other) for one, other in zip(rows, again, strict=True)] == [True] * 5


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("roles", [9, 9, 9], "not in ROLES"),
        ("loss_mask", [True, True, True], "no trained turn"),
        ("logprobs", [0.0], "expected \\(3,\\)"),
        ("token_ids", [1, None, 2], "empty place"),
        ("token_ids", None, "not a valid training row"),
        ("outcome", "splendid", "splendid"),
        ("shared", 99, "shares 99"),
        ("versions", [0, 0, 0], "weight version 0 of 0"),
        ("versions", [-2, -1, -1], "names weight version"),
        ("logprobs", [-1.0, 0.0, 0.0], "where nothing was sampled"),
        ("logprobs", [0.0, 0.0, -np.inf], "log-probability is infinite"),
        ("advantages", [0.0, np.nan, 1.0], "an advantage is not finite"),
        ("advantages", [1.0, 1.0, 1.0], "off the loss mask"),
        ("weights_ce", [np.inf, 0.0, 0.0], "weights\\['ce'\\] are not finite"),
        ("score", float("nan"), "not finite"),
        ("attempt_rows", 0, "one of 0 rows"),
    ],
)
def test_a_file_with_a_row_that_does_not_hold_is_refused(tmp_path: Path, column: str, value: Any, problem: str) -> None:
    columns = as_columns(row(3)) | {column: value}
    pq.write_table(pa.Table.from_pylist([columns], schema=arrow_schema()), tmp_path / "bad.parquet")
    with pytest.raises(UserError, match=problem):
        list(read_rows(tmp_path / "bad.parquet"))


def test_a_file_of_anything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        list(read_rows(tmp_path / "text"))
    with pytest.raises(UserError, match="holds no training rows"):
        list(read_rows(tmp_path / "other.parquet"))


@pytest.mark.long
def test_a_small_file_that_claims_to_hold_far_too_much_is_refused(tmp_path: Path) -> None:
    ids = pa.ListArray.from_arrays(pa.array([0, 17 << 20], pa.int32()), pa.array(np.zeros(17 << 20, dtype=np.int32)))
    rest = pa.Table.from_pylist([as_columns(row(3))], schema=arrow_schema())
    place = rest.schema.get_field_index("token_ids")
    bomb = rest.set_column(place, rest.schema.field(place), ids).replace_schema_metadata(rest.schema.metadata)
    pq.write_table(bomb, tmp_path / "bomb.parquet", compression="zstd")
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    with pytest.raises(UserError, match="holds 17,825,792 values"):
        list(read_rows(tmp_path / "bomb.parquet"))


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 120), st.integers(1, 5) | st.none())
def test_packs_hold_every_row_once_and_whole(lengths: list[int], length: int, most: int | None) -> None:
    packs = pack([row(n) for n in lengths], length, most=most)
    assert sorted(len(r) for p in packs for r in p.rows) == sorted(lengths)
    for one in packs:
        assert len(one.token_ids) == length
        assert most is None or len(one.rows) <= most
        for number, (held, start) in enumerate(zip(one.rows, one.starts, strict=False), start=1):
            place = slice(start, start + len(held))
            assert np.array_equal(one.token_ids[place], held.token_ids)
            assert np.array_equal(one.positions[place], np.arange(len(held)))
            assert set(one.segments[place]) == {number}
        assert not one.loss_mask[one.starts[-1] :].any()


def test_packs_are_few_and_a_row_is_never_cut() -> None:
    assert len(pack([row(n) for n in (60, 50, 40, 30, 20)], 100)) == 2
    with pytest.raises(UserError, match=r"1 of 2 rows are longer than 10 tokens .* has 11"):
        pack([row(3), row(11)], 10)


def test_a_row_that_does_not_hold_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in no trained turn"):
        check_row(row(4, turns=()))
    with pytest.raises(ValueError, match="stands at 3:2"):
        write_rows([row(4, turns=(TurnSpan(start=3, end=2, call="c"),))], tmp_path / "x")
    assert not (tmp_path / "x").exists()
