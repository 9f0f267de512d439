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
from assay.records import Body, Check, EnvironmentSpec, Evidence, EvidenceAdded, Task, canonical_bytes
from assay.settings import Settings
from assay.store import RunStore
from tests.learning.recorded import store_run

pytestmark = pytest.mark.newest


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


def of_source(store: RunStore, events: list[Body], source: str | None, licence: object) -> list[Body]:
    """The attempt's events with its task's record, as a run writes it."""
    metadata = {"assay": {"provenance": {"licence": licence}}}
    check = Check("tests", "script")
    task = Task("walk", "Walk.", EnvironmentSpec("workspace"), (check,), "blake3:1", source=source, metadata=metadata)
    record = store.blobs.put(canonical_bytes(task))
    return [events[0], EvidenceAdded(Evidence("task", "state", "task", {"record": record}, (record,))), *events[1:]]


def test_the_card_counts_by_source_and_licence(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    hostile = "x` | \x1b[31m <b>\n# " + "M" * 9000
    digests = {"task_digest": "blake3:" + "2" * 64}, {"task_digest": "blake3:" + "3" * 64}
    made_of = [
        (attempt("a0", "up", "right"), "shapes 1.0 (sdist)", "MIT"),
        (attempt("a1", "up", **digests[0]), "shapes 1.0 (sdist)", "MIT"),
        (attempt("a2", "up", **digests[1]), hostile, hostile),
        (attempt("a3", "up"), None, {"no": "text"}),
    ]
    with RunStore.create(tmp_path / "s", "r", {}) as store:
        for number, (events, source, licence) in enumerate(made_of):
            store.append(f"a{number}.0", of_source(store, events, source, licence))
        store.append("a4.0", attempt("a4", "up"))
    text = (made(tmp_path / "s", tmp_path) / "README.md").read_text()
    _, _, table = text.partition("## Sources of the tasks\n\n")
    head, _, *rows = table.partition("\n\n")[0].splitlines()
    assert head == "| source | licence | tasks | attempts | rows |"
    assert rows[:2] == ["| `not stated` | `not declared` | 1 | 2 | 2 |", "| `shapes 1.0 (sdist)` | `MIT` | 2 | 2 | 2 |"]
    assert len(rows) == 3
    assert rows[2].startswith("| `x_ _ _[31m _b__# MMM")
    assert rows[2].endswith("| 1 | 1 | 1 |")
    assert len(rows[2]) < 200


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
