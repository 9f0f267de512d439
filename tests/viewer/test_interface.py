"""Names of views: what a record holds can neither add a part to one nor lead out of the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import StoreError, UserError
from assay.viewer.interface import View, json_bytes, match_name, split_field, view_name
from assay.viewer.views import make_view

pytestmark = pytest.mark.quick
TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


def one(pattern: str) -> View:
    return View(pattern, lambda root, fields: None, lambda root, run: ())


@given(TEXT, TEXT)
def test_parts_come_back_whole(run: str, chain: str) -> None:
    name = view_name("run", run, "attempt", chain, "outline")
    assert match_name(one("run/{run}/attempt/{chain}/outline"), name) == {"run": run, "chain": chain}


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_several_parts_come_back_whole(chains: list[str]) -> None:
    found = match_name(one("run/{run}/compare/{chains+}"), view_name("run", "r", "compare", chains))
    assert found is not None
    assert split_field(found["chains"]) == tuple(chains)


@given(TEXT)
def test_a_part_never_becomes_two(text: str) -> None:
    assert view_name("run", text, "rows").count("/") == 2
    assert "+" not in view_name("run", text)


def test_a_name_of_no_view_is_none(tmp_path: Path) -> None:
    assert make_view(tmp_path, "run/r/nothing") is None
    assert make_view(tmp_path, "") is None
    assert match_name(one("run/{run}/rows"), "run/%ff/rows") is None


@pytest.mark.parametrize("run", ["..", "%2e%2e%2f..", "a%2Fb", "%00", "x" * 200, "-rf"])
def test_a_run_is_never_a_path(tmp_path: Path, run: str) -> None:
    with pytest.raises((UserError, StoreError), match="is not a valid run name"):
        make_view(tmp_path, f"run/{run}/rows")


def test_numbers_that_json_lacks_become_null() -> None:
    assert json_bytes([float("nan"), float("inf"), 1.5]) == b"[null,null,1.5]"
