"""Tables are written piece by piece."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from assay.learning.export._tables import INTS, JSON, TEXT, write_table

pytestmark = pytest.mark.quick


@pytest.mark.long
def test_long_rows_are_written_before_there_are_many(tmp_path: Path) -> None:
    rows = ({"ids": np.full(3 << 20, number), "said": [{"n": number}], "who": f"a{number}"} for number in range(7))
    assert write_table(rows, {"ids": INTS, "said": JSON, "who": TEXT}, tmp_path / "t") == 7
    file = pq.ParquetFile(tmp_path / "t")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [3, 3, 1]
    told = file.read(["said", "who"]).to_pylist()
    assert [(json.loads(row["said"]), row["who"]) for row in told] == [([{"n": n}], f"a{n}") for n in range(7)]


def test_a_table_of_nothing_is_one(tmp_path: Path) -> None:
    assert write_table(iter(()), {"ids": INTS, "said": JSON}, tmp_path / "t") == 0
    assert pq.read_table(tmp_path / "t").num_rows == 0
