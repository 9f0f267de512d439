"""Variants of a solution that mean the same, and what it says of a verifier that refuses one."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.admission.rewrites import Rewrite
from assay.admission.strictness import VariantRow, strictness_findings, variants
from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.agents.testing import fake_task

pytestmark = pytest.mark.quick

BEFORE = b"def old(a):\n    b = a\n    return b\n\n\ndef new(a):\n    pass\n"
AFTER = (
    b"def old(a):\n    b = a\n    return b\n\n\ndef new(a):\n"
    b'    """New."""\n    c = 1\n    d = 2\n    return (c, d) if a is None else 0\n'
)


def known(*files: tuple[str, bytes | None, bytes | None]) -> Knowledge:
    return Knowledge("/workspace", tuple(SolutionFile(*file) for file in files))


def made(*files: tuple[str, bytes | None, bytes | None]) -> dict[str, str]:
    return {
        one.operator: (next(iter(one.files.values())) or b"").decode()
        for one in variants(known(*files), seed=0, most=50)
    }


def test_a_python_solution_has_every_kind_of_variant() -> None:
    found = made(("/w/m.py", BEFORE, AFTER))
    assert set(found) == {
        "renamed-locals", "reordered", "reformatted", "spaced", "without-docstrings", "equal-expressions",
    }  # fmt: skip
    assert "b = a\n    return b" in found["renamed-locals"]  # what the solution did not change keeps its names
    assert "c_value = 1" in found["renamed-locals"]


def test_json_has_other_layout_and_order_with_the_same_content() -> None:
    text = '{"b": [1.5, 2], "a": "é"}\n'
    found = made(("/w/a.json", None, text.encode()))
    assert set(found) == {"json-indent", "json-key-order", "trailing-newline"}
    assert all(json.loads(new) == json.loads(text) for new in found.values())
    assert found["json-key-order"].startswith('{"a"')


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "{", '{"a": 1e5}', '{"a": 1.50}'])
def test_json_that_would_be_spelt_otherwise_is_left_alone(text: str) -> None:
    assert set(made(("/w/a.json", None, text.encode()))) == {"trailing-newline"}


def test_rows_of_a_csv_change_places_below_the_header() -> None:
    assert made(("/w/a.csv", None, b"n,m\n1,2\n3,4"))["csv-row-order"] == "n,m\n3,4\n1,2"
    assert set(made(("/w/a.csv", None, b'n,m\n1,"2\n3",4\n'))) == {"trailing-newline"}


def test_a_shell_script_gets_a_comment() -> None:
    assert made(("/w/a.sh", None, b"ls\n")) == {"commented": "ls\n\n# The end.\n"}
    assert made(("/w/a.sh", None, b"cat <<E\nx\nE\n")) == {}


def test_variants_are_deterministic_limited_and_named() -> None:
    knowledge = known(("/w/m.py", BEFORE, AFTER), ("/w/n.py", BEFORE, AFTER), ("/w/gone.py", BEFORE, None))
    some = variants(knowledge, seed=3, most=7)
    assert some == variants(knowledge, seed=3, most=7)
    assert len({one.name for one in some}) == 7
    assert {one.name for one in some} >= {"variant.renamed-locals.1", "variant.reordered.1"}
    assert all(one.group == "strictness" and one.diff for one in some)


@given(
    st.binary(max_size=120), st.sampled_from(["a.json", "a.jsonl", "a.csv", "a.txt", "a.py", "a.sh", "a.sql", "a.tsv"])
)
def test_any_bytes_give_variants_or_none(data: bytes, name: str) -> None:
    for one in variants(known((f"/w/{name}", None, data)), seed=0, most=9):
        assert one.files[f"/w/{name}"] not in (None, data)


@given(st.lists(st.lists(st.text("ab,\"\n '1", max_size=3), min_size=2, max_size=2), min_size=3, max_size=5))
def test_reordered_rows_are_the_same_rows(rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    text = made(("/w/a.csv", None, out.getvalue().encode())).get("csv-row-order")
    assert text is None or sorted(csv.reader(io.StringIO(text))) == sorted(rows)


def row(operator: str, outcome: str | None = "fail") -> VariantRow:
    return VariantRow(Rewrite(f"variant.{operator}.1", "strictness", {}, "the diff", operator), outcome, "a@1")


def test_each_variant_that_fails_is_a_finding_that_names_it() -> None:
    rows = [row("renamed-locals"), row("reordered", "pass"), row("spaced", None), row("json-key-order", "error")]
    one, two = strictness_findings(fake_task("Write the file."), rows)
    assert (one.kind, one.probe, one.severity) == ("variant-failed", "variant.renamed-locals.1", "weak")
    assert "its local variables renamed, gets fail" in one.text
    assert two.probe == "variant.json-key-order.1"


@pytest.mark.parametrize(
    ("instruction", "operator", "severity"),
    [
        ("Write the rows.", "csv-row-order", "note"),
        ("Write the rows sorted by name.", "csv-row-order", None),
        ("Write exactly this.", "trailing-newline", "note"),
        ("Write it.", "trailing-newline", "weak"),
        ("Write exactly this.", "renamed-locals", "weak"),
    ],
)
def test_what_the_instruction_may_ask_for_is_a_note(instruction: str, operator: str, severity: str | None) -> None:
    found = strictness_findings(fake_task(instruction), [row(operator)])
    assert [finding.severity for finding in found] == ([severity] if severity else [])
