"""Mutants of a solution, and the share of them that a verifier rejects."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.admission.rewrites import Rewrite
from assay.admission.sensitivity import MutantComparison, MutantRow, judge_mutants, mutants, sensitivity_findings
from assay.agents.cheats.interface import Knowledge, SolutionFile

pytestmark = pytest.mark.quick

BEFORE = b"import os\n\n\ndef top(items):\n    return items[0]\n\n\ndef low(a):\n    return a\n"
AFTER = (
    b"import os\n\n\ndef top(items):\n    if not items:\n        raise ValueError('none')\n    return max(items)\n\n\n"
    b"def low(a):\n    # the limit\n    return a if a < 10 else 10\n"
)


def known(*files: tuple[str, bytes | None, bytes | None]) -> Knowledge:
    return Knowledge("/workspace", tuple(SolutionFile(*file) for file in files))


MODULE = known(("/workspace/m.py", BEFORE, AFTER))
TABLE = known(("/workspace/out.csv", None, b"name,n\na,1\nb,-2.5\n"))


def contents(knowledge: Knowledge, most: int = 200) -> dict[str, list[bytes | None]]:
    found: dict[str, list[bytes | None]] = {}
    for one in mutants(knowledge, seed=0, most=most):
        found.setdefault(one.operator, []).extend(one.files.values())
    return found


def test_each_hunk_is_dropped_alone_and_the_file_is_reverted() -> None:
    made = contents(MODULE)
    assert made["file-reverted"] == [None]
    first, second = sorted(data or b"" for data in made["hunk-dropped"])
    assert {b"items[0]" in first, b"items[0]" in second} == {True, False}


def test_operators_touch_only_changed_lines_and_give_programs() -> None:
    kept = AFTER.decode().splitlines()
    for one in mutants(MODULE, seed=0, most=200):
        text = (one.files["/workspace/m.py"] or BEFORE).decode()
        ast.parse(text)
        assert text.startswith("import os\n\n\ndef top(items):\n")
        assert one.operator in ("hunk-dropped", "file-reverted") or kept[10] in text or "# the limit" in text


def test_no_two_mutants_are_the_same_program() -> None:
    made = [one.files["/workspace/m.py"] for one in mutants(MODULE, seed=0, most=500)]
    trees = [ast.dump(ast.parse(data)) for data in made if data is not None]
    assert len(set(made)) == len(made) > 15
    assert len(set(trees)) == len(trees)


def test_a_change_of_comments_alone_has_only_its_pieces_dropped() -> None:
    assert set(contents(known(("/w/m.py", b"x = 1\n", b"# one\nx = 1\n")))) == {"file-reverted"}


def test_output_files_are_cut_and_their_numbers_moved() -> None:
    made = contents(TABLE)
    assert made["output-emptied"] == [b""]
    assert made["output-halved"] == [b"name,n\na,"]
    assert made["last-line-lost"] == [b"name,n\na,1\n"]
    assert sorted(data or b"" for data in made["number-shifted"]) == [
        b"name,n\na,1\nb,-3.5\n",
        b"name,n\na,2\nb,-2.5\n",
    ]


def test_binary_and_removed_files_are_only_cut_or_reverted() -> None:
    made = contents(known(("/w/a.bin", None, b"\0\1\2\3"), ("/w/gone.txt", b"x", None)))
    assert made == {"file-reverted": [None, None], "output-emptied": [b""], "output-halved": [b"\0\1"]}


def test_other_languages_get_textual_changes() -> None:
    assert {"text_logic", "text_number", "block-dropped"} <= set(
        contents(known(("/w/run.sh", None, b"#!/bin/sh\nsleep 3 && ls\n\necho a\n")))
    )


def test_what_running_leaves_behind_is_no_solution() -> None:
    assert mutants(known(("/w/__pycache__/m.pyc", None, b"1"), ("/tmp/x", None, b"1")), seed=0, most=9) == ()


def test_a_limit_spreads_over_kinds_and_the_seed_decides() -> None:
    some = mutants(MODULE, seed=1, most=12)
    assert len({one.operator for one in some}) >= 8
    assert some == mutants(MODULE, seed=1, most=12) != mutants(MODULE, seed=2, most=12)
    assert [one.name for one in some[:2]] == ["mutant.001", "mutant.002"]


@given(
    st.binary(max_size=200), st.one_of(st.none(), st.binary(max_size=200)), st.sampled_from(["m.py", "m.sh", "m.csv"])
)
def test_any_bytes_give_mutants_that_differ_from_the_solution(after: bytes, before: bytes | None, name: str) -> None:
    for one in mutants(known((f"/w/{name}", before, after)), seed=0, most=20):
        assert one.files[f"/w/{name}"] != after
        assert one.group == "sensitivity"


def row(name: str, outcome: str | None, comparison: MutantComparison | None = None) -> MutantRow:
    return MutantRow(Rewrite(name, "sensitivity", {}, f"diff of {name}", "op"), outcome, None, comparison)


ROWS = (
    *(row(f"r{n}", "fail") for n in range(6)),
    row("e", "error"),
    row("c", "pass", MutantComparison("changed", "calls", "f(1): 1, not 2", 3)),
    row("s", "pass", MutantComparison("same", "compiled code")),
    row("u", "pass", MutantComparison("undecided", looked=50)),
    row("broken", None),
)


def test_shares_have_a_best_and_a_worst_case() -> None:
    found = judge_mutants(ROWS)
    assert (found.tried, found.rejected, found.unclear, found.not_run) == (10, 7, 1, 1)
    assert (found.changed, found.equivalent, found.undecided) == (1, 1, 1)
    assert (found.best, found.worst) == (7 / 8, 7 / 9)
    assert found.worst_interval.low < found.best_interval.low < 7 / 8 < found.best_interval.high
    assert found.operators == {"op": (10, 7)}


def test_survivors_become_findings_with_their_differences() -> None:
    one, two = sensitivity_findings("t", judge_mutants(ROWS))
    assert (one.kind, one.probe, one.severity) == ("mutant-survived", "c", "weak")
    assert "f(1): 1, not 2" in one.text
    assert "diff of c" in one.evidence
    assert (two.kind, two.severity) == ("mutants-undecided", "note")


def test_low_sensitivity_is_a_finding_and_nothing_tried_is_none() -> None:
    poor = judge_mutants([row(f"{n}", "pass", MutantComparison("changed", "calls", "w")) for n in range(30)])
    assert poor.best == 0
    assert "low-sensitivity" in {finding.kind for finding in sensitivity_findings("t", poor)}
    nothing = judge_mutants([])
    assert (nothing.best, nothing.worst, sensitivity_findings("t", nothing)) == (None, None, ())
