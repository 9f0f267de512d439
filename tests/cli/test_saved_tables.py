"""`--save`: tables as a chained ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.cli.saved_tables import MOST_ROWS, save_table
from assay.errors import StoreError
from assay.viewer.ledgers import show_tables


def assay(store: Path, *words: str) -> Any:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    assert assay(tmp_path, "run", "family:tables,n=3", "--agent", "expert", "--run", "one").exit_code == 0
    return tmp_path


def test_tables_are_saved_as_printed_and_in_order(store: Path) -> None:
    printed = assay(store, "stats", "one", "--table", "rates", "--table", "tasks", "--save", "nightly").stdout
    assert assay(store, "stats", "one", "--save", "nightly", "--json").exit_code == 0
    again, tasks, rates = show_tables(store, "nightly")["entries"]
    assert [one["verb"] for one in (rates, tasks)] == ["stats, table rates", "stats, table tasks"]
    assert (again["columns"], again["rows"]) == (rates["columns"], rates["rows"])
    assert rates["rows"][0][0] == "expert"
    assert all(cell in printed for row in (*rates["rows"], *tasks["rows"]) for cell in row)
    assert again["runs"] == ["one"]


@pytest.mark.parametrize("name", ["../one", "a/b", "-a", "", "x" * 65, "é"])
def test_a_name_that_could_be_a_path_is_refused_before_anything_is_counted(store: Path, name: str) -> None:
    result = assay(store, "stats", "one", f"--save={name}")
    assert "expected up to 64 letters, digits and hyphens" in " ".join(result.output.split())
    assert not (store / "tables").exists()


def test_several_tables_as_csv_are_refused_and_not_saved(store: Path) -> None:
    words = ("--table", "rates", "--table", "tasks", "--format", "csv", "--save", "nightly")
    assert "writes one table" in assay(store, "stats", "one", *words).output
    assert not (store / "tables").exists()


def test_a_changed_ledger_takes_no_further_table(store: Path) -> None:
    save_table(store, "n", "stats", ["one"], [{"a": "1"}])
    path = store / "tables" / "n.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"1"', b'"2"') + path.read_bytes())
    with pytest.raises(StoreError, match="was changed"):
        save_table(store, "n", "stats", ["one"], [{"a": "1"}])


def test_rows_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    rows = [{"a": str(number), "b": "x"} if number else {"a": "0"} for number in range(MOST_ROWS + 2)]
    save_table(tmp_path, "many", "stats", [], rows)
    (entry,) = (json.loads(line) for line in (tmp_path / "tables" / "many.jsonl").read_bytes().splitlines())
    assert (len(entry["rows"]), entry["rows"][0], entry["notes"]) == (
        MOST_ROWS,
        ["0", ""],
        ["2 further rows were not saved"],
    )
