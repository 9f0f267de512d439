"""The data set and its card."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from assay.errors import UserError
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.row_files import read_rows
from assay.records import Body
from assay.settings import Settings
from tests.learning.recorded import store_run

pytestmark = pytest.mark.quick


def made(store: Path, tmp_path: Path, **how: Any) -> Path:
    out = tmp_path / "set"
    config = WriteConfig(to="hf-dataset", out=str(out), failed_integrity=True, **how)
    export_for_training("r", config, Settings(cache=tmp_path, store=store))
    return out


def test_a_doubted_pass_claims_and_has_no_outcome(small_run: Path, tmp_path: Path) -> None:
    out = made(small_run, tmp_path)
    rows = {row["attempt"]: row for row in pq.read_table(out / "data" / "train-00000-of-00001.parquet").to_pylist()}
    assert [rows[name]["outcome"] for name in ("a0", "a2", "a3")] == ["pass", None, "fail"]
    assert (rows["a2"]["claimed_outcome"], rows["a2"]["doubt"]) == ("pass", "its integrity is fail")
    assert rows["a2"]["score"] is None
    assert json.loads(rows["a0"]["messages"])[0]["role"] == "system"
    assert [row.attempt for row in read_rows(out / "rows" / "train-00000-of-00001.parquet")] == list(rows)


def test_the_card_says_where_it_comes_from_and_how_it_counts(small_run: Path, tmp_path: Path) -> None:
    text = (made(small_run, tmp_path, licence="cc-by-4.0", split="walks") / "README.md").read_text()
    assert text.startswith("---\nlicense: cc-by-4.0\n")
    assert "path: data/walks-*.parquet" in text
    assert "| pass | pass | 2 |" in text
    assert "| pass, doubted | fail | 1 |" in text
    assert "| fail | not judged | 1 |" in text
    assert "The verifiers of 1 of 1 tasks were never tested" in text
    assert "blake3:" in text


def test_strangers_words_stay_words_on_the_card(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    task = "x` | <script>alert(1)</script>\n# Verified by us"
    text = (made(store_run(tmp_path / "s", [attempt("a0", "up", task=task)]), tmp_path) / "README.md").read_text()
    assert "<script>" not in text
    assert "\n# Verified by us" not in text
    assert "license: unknown" in text
    assert "Not specified" in text


@pytest.mark.parametrize("how", [{"split": "a/../b"}, {"licence": "x\ntags: [y]"}, {"split": ""}])
def test_what_cannot_be_a_name_is_refused(small_run: Path, tmp_path: Path, how: dict[str, str]) -> None:
    with pytest.raises(UserError, match="expected"):
        made(small_run, tmp_path, **how)
    assert list(tmp_path.iterdir()) == []


def test_a_set_without_tokens_has_conversations_alone(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    from tests.learning.rows.test_rendered import without_tokens_in

    out = made(store_run(tmp_path / "s", [without_tokens_in(attempt("a0", "up"))]), tmp_path)
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "data"]
    assert "config_name: rows" not in (out / "README.md").read_text()
