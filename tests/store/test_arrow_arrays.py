"""Arrow arrays from and to Python values, and that listing a sealed run makes no slow import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from assay.store import seal
from assay.store.arrow_arrays import (
    byte_values,
    equals_text,
    index_array,
    integer_values,
    text_array,
    text_values,
    true_positions,
    utf8_values,
)
from tests.rollout.exchange.test_secret_check import record

pytestmark = pytest.mark.newest
TEXTS = ["", "a", "\u00fc\u4e2d\U0001f600", "a" * 300]


def test_texts_come_back() -> None:
    made = text_array(TEXTS)
    assert made.equals(pa.array(TEXTS))
    assert text_values(made) == text_values(pa.array(["x", *TEXTS, "y"])[1:5]) == TEXTS
    assert byte_values(pa.array([b"\xff", b""])) == [b"\xff", b""]
    assert text_values(text_array([])) == []


def test_values_at_positions_come_back() -> None:
    texts, at = pa.array(["x", *TEXTS, None])[1:], np.array([3, 1])
    assert text_values(texts, at) == [TEXTS[3], TEXTS[1]]
    assert utf8_values(texts, at[:1]) == [TEXTS[3].encode()]
    assert text_values(text_array(TEXTS), at[:0]) == []
    with pytest.raises(ValueError, match="1 values are null"):
        text_values(texts, np.array([4]))


def test_bytes_that_are_not_utf8_are_refused() -> None:
    for values in (["\u00fc"], [TEXTS[2]]):
        assert utf8_values(pa.array(values)) == [value.encode() for value in values]
    with pytest.raises(ValueError, match="utf-8"):
        utf8_values(pa.array([b"\xc3", b"\xbc"]))  # of which both together are


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_integers_come_back(kind: str) -> None:
    values = pa.array([1, 2, 3, 4], kind)
    assert integer_values(values[1:3]).tolist() == [2, 3]
    assert index_array(np.array([[3, 0], [1, 0]])[:, 0]).equals(pa.array([3, 1]))
    assert integer_values(pa.array([], kind)).tolist() == []


def test_a_null_is_refused_and_not_true() -> None:
    for values, read in ((pa.array([1, None]), integer_values), (pa.array(["a", None]), text_values)):
        with pytest.raises(ValueError, match="1 values are null"):
            read(values)
    assert true_positions(pa.array([True, None, False, True])).tolist() == [0, 3]
    assert equals_text(pa.array(["a", None, "b"]), "b").to_pylist() == [False, None, True]


@pytest.mark.parametrize("command", ["ls", "stats"])
def test_a_sealed_run_is_listed_and_counted_without_slow_imports(tmp_path: Path, command: str) -> None:
    record(tmp_path, "fine", "fine")
    seal(tmp_path, "r")
    program = (
        "import sys\nfrom assay.cli.app import build_app\nfrom typer.testing import CliRunner\n"
        f"assert CliRunner().invoke(build_app(), [{command!r}, 'r', '--store', {str(tmp_path)!r}]).exit_code == 0\n"
        "assert 'pyarrow' in sys.modules\nassert not {'pandas', 'pyarrow.compute'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
