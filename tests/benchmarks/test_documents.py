"""The pages of measurements say what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks._document import PAGES, TABLES, with_tables
from benchmarks._report import Report, Target

pytestmark = pytest.mark.quick


def test_every_table_on_the_page_is_the_stored_result() -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    assert [with_tables(page) for page in pages] == pages
    assert all(f"<!-- measured: {name} -->" in "".join(pages) for name in TABLES)


def test_what_was_not_measured_has_no_number_and_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = Target("a promise", "ms", 1.0, None)
    Report("it", "how", [{"what": "x", "ms": None}], [target], {"y": "absent"}).finish(("what", "ms"), tmp_path)
    assert "not measured: y: absent" in capsys.readouterr().out
    assert json.loads((tmp_path / "it.json").read_text())["targets"][0]["verdict"] == "not measured"


def test_a_promise_is_met_up_to_its_limit() -> None:
    assert [Target("p", "ms", 1.0, value).verdict for value in (0.5, 1.0, 1.01)] == ["met", "met", "missed"]
